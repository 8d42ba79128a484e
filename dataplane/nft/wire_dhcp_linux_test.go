// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// S175: a workload whose policy denies everything reaches a DHCP server on the host. It does so
// only from the unspecified address, its own addresses and its link-local ones.
func TestWireDHCP(t *testing.T) { nfttest.EachForm(t, testWireDHCP) }

func testWireDHCP(t *testing.T, classes render.ClassesConfig) {
	b := &tracked{wire: shopWire(t), at: dptest.NewState()}
	host4, host6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	b.own(t, "lo", "192.0.2.1/32")
	b.own(t, "lo", "2001:db8::1/128")
	b.own(t, "way2", "fe80::ee/64")
	b.plane = open(t, b.node, render.Config{Classes: classes, AllowDHCP: true})
	b.become(t, closedFrom("way2"))
	sent := 0
	for _, c := range []struct {
		src, dst string
		want     bool
	}{
		{"0.0.0.0", "255.255.255.255", true},
		{"10.99.0.2", "255.255.255.255", true},
		{"10.99.0.2", "192.0.2.1", true},
		{"10.99.0.1", "255.255.255.255", false}, // of another workload
		{"10.99.0.1", "192.0.2.1", false},
		{"203.0.113.9", "192.0.2.1", false}, // from anywhere
		{"169.254.7.7", "192.0.2.1", false},
		{"fd00:99::2", "2001:db8::1", true},
		{"fe80::5054:ff:fe12:3456", "2001:db8::1", true},   // by EUI-64
		{"fe80::d1b0:79a5:31c7:2e64", "2001:db8::1", true}, // by RFC 7217
		{"fe80::ee", "2001:db8::1", false},                 // the host's on this link
		{"fd00:99::1", "2001:db8::1", false},
		{"2001:db8:1::9", "2001:db8::1", false},
	} {
		f := frame{
			src: netip.MustParseAddr(c.src), dst: netip.MustParseAddr(c.dst), proto: policy.ProtocolUDP, sport: 68,
			dport: 67,
		}
		host := host4
		if f.src.Is6() {
			f.sport, f.dport, host = 546, 547, host6
		}
		to := nfttest.FlowEnd{Addr: host, Own: true}
		require.Equal(t, c.want, b.pass(t, f, endOf("way2", f.src), to), "%s to %s", c.src, c.dst)
		f.dport++
		require.False(t, b.pass(t, f, endOf("way2", f.src), to), "%s to %s, another port", c.src, c.dst)
		sent += 2
	}
	t.Logf("%d packets sent", sent)
}
