// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// A table like Tailscale's marks forwarded packets of its interface, and masquerades by that mark
// later. Our chains are in between: they must keep the mark, and still evaluate the packets.
func TestBesideTailscale(t *testing.T) { nfttest.EachForm(t, testBesideTailscale) }

func testBesideTailscale(t *testing.T, classes render.ClassesConfig) {
	n := newHostNetwork(t, classes)
	load(t, n.node, `
table ip filter {
	chain forward {
		type filter hook forward priority filter;
		iifname "way3" mark set mark and 0xff00ffff or 0x40000
		mark and 0x00ff0000 == 0x40000 accept
		oifname "way3" ip saddr 100.64.0.0/10 drop
	}
}
table ip nat {
	chain postrouting { type nat hook postrouting priority srcnat; mark and 0x00ff0000 == 0x40000 masquerade; }
}
`)
	open := func(dptest.State, *dataplane.HostEndpoint) {}
	n.apply(t, hostWorld(open))
	var l net.Listener
	require.NoError(
		t, n.workloads[0].NS.Do(func() (err error) { l, err = net.Listen("tcp", "10.99.0.1:8000"); return err }),
	)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	seen := make(chan netip.Addr, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			close(seen)
			return
		}
		seen <- conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
		_ = conn.Close()
	}()
	conn := n.dial(t, outside, netip.MustParseAddr("10.99.0.1"), 8000, waitTimeout)
	require.NotNil(t, conn)
	require.NotEqual(t, netip.MustParseAddr("10.99.0.3"), <-seen, "not masqueraded: the mark was lost")
	_ = conn.Close()

	n.apply(t, edit(n.at, "way1", func(e *dataplane.Endpoint) { e.Profiles = nil }))
	n.reaches(t, false, outside, "10.99.0.1", 80)
	n.reaches(t, true, outside, "10.99.0.2", 80)
}

// A table like Istio's marks packets and connections before routing. Behind routing, it drops
// packets that have lost one of these marks.
func TestBesideIstio(t *testing.T) { nfttest.EachForm(t, testBesideIstio) }

func testBesideIstio(t *testing.T, classes render.ClassesConfig) {
	n := newHostNetwork(t, classes)
	load(t, n.node, `
table inet istio {
	chain prerouting {
		type filter hook prerouting priority mangle;
		iifname "way3" ct state new meta mark set 0x539 ct mark set 0x539
	}
	chain postrouting {
		type filter hook postrouting priority mangle;
		oifname "way1" tcp dport 80 ct state new meta mark != 0x539 drop
		oifname "way1" tcp dport 80 ct mark != 0x539 drop
	}
}
`)
	open := func(dptest.State, *dataplane.HostEndpoint) {}
	n.apply(t, hostWorld(open))
	n.reaches(t, true, outside, "10.99.0.1", 80)
	n.reaches(t, false, 1, "10.99.0.1", 80) // the other table drops this packet, which has no mark
	n.apply(t, edit(n.at, "way1", func(e *dataplane.Endpoint) { e.Profiles = nil }))
	n.reaches(t, false, outside, "10.99.0.1", 80)
}
