// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// S173, S178: while other nodes are added and removed, encapsulated packets to the host pass from a
// node, and never from other addresses.
func TestWireEncapsulatedFlood(t *testing.T) { nfttest.EachForm(t, testWireEncapsulatedFlood) }

func testWireEncapsulatedFlood(t *testing.T, classes render.ClassesConfig) {
	s := newSpecialFlood(t, nft.Config{Renderer: render.Config{Classes: classes, Host: policy.HostConfig{
		VXLANFromNodesOnly: true, IPIPFromNodesOnly: true,
	}}})
	strangers := addrs("192.0.2.77", "2001:db8::77")
	for family := range 2 {
		host := nfttest.FlowEnd{Addr: s.host()[family], Own: true}
		add := func(from nfttest.FlowEnd, proto policy.Protocol, port uint16, passes bool) {
			w := wireFlow{from: from, to: host, Flow: verdict.Flow{Src: from.Addr, Dst: host.Addr, Protocol: proto}}
			if port != 0 {
				w.SrcPort, w.DstPort = 4000, port
			}
			s.add(w, passes)
		}
		s.setRoute(t, strangers[family], "eth0")
		node, stranger := endOf("eth0", s.outside()[family]), endOf("eth0", strangers[family])
		add(node, policy.ProtocolUDP, policy.DefaultVXLANPort, true)
		add(stranger, policy.ProtocolUDP, policy.DefaultVXLANPort, false)
		add(stranger, policy.ProtocolUDP, policy.DefaultVXLANPort+1, true)
		if family == 0 {
			add(node, 4, 0, true)
			add(stranger, 4, 0, false)
		}
	}
	with := func(others ...netip.Prefix) dptest.State {
		of := shop()
		node := &dataplane.Node{Name: "n2"}
		for _, a := range s.outside() {
			node.Addresses = append(node.Addresses, netip.PrefixFrom(a, a.BitLen()))
		}
		of.Nodes["n2"] = node
		if len(others) > 0 {
			of.Nodes["n3"] = &dataplane.Node{Name: "n3", Addresses: others}
		}
		return of
	}
	s.run(t, []dptest.State{
		with(nfttest.Nets("192.0.2.78/32", "2001:db8::78/128")...), with(), with(nfttest.Nets("10.0.0.0/8")...),
	}, wireRounds(40, 800))
}

// S178: fragments whose ports the rules cannot see do not make a VXLAN packet of others. From Linux
// 5.11 on, the kernel itself drops those without a transport header.
func TestWireEncapsulatedFragments(t *testing.T) {
	s := newSpecialFlood(t, nft.Config{Renderer: render.Config{Host: policy.HostConfig{VXLANFromNodesOnly: true}}})
	of, node, stranger := shop(), s.outside()[1], addrs("2001:db8::77")[0]
	of.Nodes["n2"] = &dataplane.Node{Name: "n2", Addresses: []netip.Prefix{netip.PrefixFrom(node, 64)}}
	s.become(t, of)
	s.setRoute(t, stranger, "eth0")
	var socket net.PacketConn
	require.NoError(t, s.node.Do(func() (err error) {
		socket, err = net.ListenPacket("udp6", fmt.Sprintf("[::]:%d", policy.DefaultVXLANPort))
		return err
	}))
	t.Cleanup(func() { require.NoError(t, socket.Close()) })
	received := func() (count int) {
		for ; ; count++ {
			require.NoError(t, socket.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
			if _, _, err := socket.ReadFrom(make([]byte, 2000)); err != nil {
				return count
			}
		}
	}
	for i, src := range []netip.Addr{node, stranger} {
		udp := frame{
			src: src, dst: s.host()[1], proto: policy.ProtocolUDP, sport: 4000, dport: policy.DefaultVXLANPort, id: 1,
		}.bytes()[40:]
		number := uint32(100 * i)
		first := func(within []byte, id uint32) []byte {
			return slices.Concat(within, fragmentHeader(extOptions, 0, true, id), options(17, make([]byte, 8)))
		}
		rest := func(within []byte, id uint32) []byte {
			return slices.Concat(within, fragmentHeader(extOptions, 2, false, id), udp)
		}
		nested := fragmentHeader(extFragment, 0, false, number+3)
		for name, parts := range map[string][][]byte{
			"whole":  {slices.Concat(fragmentHeader(17, 0, false, number+1), udp)},
			"two":    {first(nil, number+2), rest(nil, number+2)},
			"nested": {first(nested, number+4), rest(nested, number+4)},
		} {
			for _, body := range parts {
				require.NoError(t, s.putRaw(s.links["eth0"], rawPacket(src, s.host()[1], extFragment, body)))
			}
			s.drain(t)
			count := received()
			require.True(t, src == stranger || name != "whole" || count == 1, "%s from a node: %d", name, count)
			require.True(t, src == node || count == 0, "%s from others: %d", name, count)
		}
	}
}
