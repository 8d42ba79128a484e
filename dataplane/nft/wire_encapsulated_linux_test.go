// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net/netip"
	"testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// With VXLANFromNodesOnly and IPIPFromNodesOnly, encapsulated packets to the host pass from a node, and never
// from others, while other nodes come and go.
func TestWireEncapsulatedFlood(t *testing.T) { nfttest.EachForm(t, testWireEncapsulatedFlood) }

func testWireEncapsulatedFlood(t *testing.T, classes render.ClassesConfig) {
	s := newSpecialFlood(t, nft.Config{Renderer: render.Config{Classes: classes, Host: policy.HostConfig{
		VXLANFromNodesOnly: true, IPIPFromNodesOnly: true,
	}}})
	strangers := addrs("192.0.2.77", "2001:db8::77")
	for family := range 2 {
		host := nfttest.Place{Addr: s.host()[family], Own: true}
		add := func(from nfttest.Place, proto policy.Protocol, port uint16, passes bool) {
			w := wireFlow{from: from, to: host, Flow: verdict.Flow{Src: from.Addr, Dst: host.Addr, Protocol: proto}}
			if port != 0 {
				w.SrcPort, w.DstPort = 4000, port
			}
			s.add(w, passes)
		}
		s.lead(t, strangers[family], "eth0")
		node, stranger := placeOf("eth0", s.outside()[family]), placeOf("eth0", strangers[family])
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
