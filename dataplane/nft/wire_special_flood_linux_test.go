// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// specialFlood is a flood of packets about which not only policy decides, through a node that
// changes.
type specialFlood struct {
	*relatedRig
	flood *worldFlood
	flows []wireFlow
	// passes has, for each flow, true if all states allow it and false if all deny it.
	passes []bool
}

func newSpecialFlood(t *testing.T, cfg nft.Config) *specialFlood {
	t.Helper()
	b := &relatedRig{tracked: &tracked{wire: shopWire(t), at: dptest.NewState()}}
	runtime.UnlockOSThread()
	b.connect(t, "eth0")
	for family, a := range b.host() {
		b.own(t, "lo", netip.PrefixFrom(a, a.BitLen()).String())
		b.setRoute(t, b.outside()[family], "eth0")
	}
	b.plane = openWith(t, b.node, cfg)
	b.become(t, shop())
	flood := &worldFlood{wire: b.wire, fds: map[string]int{}, inner: map[int][]byte{}}
	return &specialFlood{relatedRig: b, flood: flood}
}

func (s *specialFlood) add(w wireFlow, passes bool) {
	s.flows, s.passes = append(s.flows, w), append(s.passes, passes)
}

// addError adds an ICMP error about a packet of a connection.
func (s *specialFlood) addError(from nfttest.FlowEnd, about wireFlow, passes bool) {
	proto, typ := policy.ProtocolICMP, uint8(3)
	if about.Src.Is6() {
		proto, typ = policy.ProtocolICMPv6, 1
	}
	s.flood.inner[len(s.flows)] = about.frame().bytes()
	s.add(wireFlow{from: from, to: about.from, Flow: verdict.Flow{
		Src: from.Addr, Dst: about.Src, Protocol: proto, ICMPType: typ,
	}}, passes)
}

// run changes the node between states while the flood runs.
func (s *specialFlood) run(t *testing.T, states []dptest.State, changes int) {
	t.Helper()
	s.become(t, states[len(states)-1])
	s.flood.prepare(t, s.flows)
	sent := s.flood.during(t, func() {
		for i := range changes {
			next := states[i%len(states)]
			applyVariant(t, s.plane, dptest.Transition(s.at, next), i/3)
			s.at = next
		}
	})
	s.require(t, sent, changes)
}

func (s *specialFlood) require(t *testing.T, sent, changes int) {
	t.Helper()
	forbidden, allowed, leaked, lost := 0, 0, 0, 0
	for i, got := range s.flood.arrived(t) {
		w := s.flows[i]
		if s.passes[i] {
			allowed += sent
			if lost += sent - got; got != sent {
				t.Errorf("%d of %d lost: %s", sent-got, sent, w.Flow)
			}
			continue
		}
		forbidden += sent
		if leaked += got; got > 0 {
			t.Errorf("%d of %d passed: %s", got, sent, w.Flow)
		}
	}
	t.Logf("%d changes, %d forbidden packets, %d passed; %d allowed ones, %d lost", changes, forbidden, leaked, allowed,
		lost)
	require.Positive(t, sent)
}

// S169, S173: ICMP errors of a workload about connections of others never pass while the denial
// moves between the two ends and addresses are added and removed. Errors about its own connections
// are never lost.
func TestWireErrorsFlood(t *testing.T) { nfttest.EachForm(t, testWireErrorsFlood) }

func testWireErrorsFlood(t *testing.T, classes render.ClassesConfig) {
	s := newSpecialFlood(t, nft.Config{Renderer: render.Config{Classes: classes}})
	for family := range 2 {
		way1, way2 := endOf("way1", workloadAddrs(0)[family]), endOf("way2", workloadAddrs(1)[family])
		way3, eth0 := endOf("way3", workloadAddrs(2)[family]), endOf("eth0", s.outside()[family])
		between, outward := s.opened(t, way2, way3), s.opened(t, way3, eth0)
		s.addError(way1, between[0], false)
		s.addError(way1, between[0].answered(), false)
		s.addError(way3, between[0], true)
		s.addError(eth0, outward[0], true)
	}
	tiers := func(name string, of dptest.State) dptest.State {
		of, deny := denied(of.Clone())
		return edit(of, name, func(e *dataplane.Endpoint) { e.Egress = deny })
	}
	closed := func(of dptest.State) dptest.State {
		of, deny := denied(of.Clone())
		for _, name := range []string{"way2", "way3"} {
			of = edit(of, name, func(e *dataplane.Endpoint) { e.Ingress = deny })
		}
		return of
	}
	more := edit(shop(), "way1", func(e *dataplane.Endpoint) {
		e.Addresses = append(e.Addresses[:2:2], addrs("10.99.0.55", "fd00:99::55")...)
	})
	s.run(t, []dptest.State{tiers("way1", shop()), closed(shop()), closed(more), tiers("way1", more)},
		wireRounds(40, 800))
}

// S119, S175, S173: a workload whose egress policy denies everything sends to a DHCP server of the
// host. It sends from its own addresses and false ones, while the allowed sources of others change.
func TestWireDHCPFlood(t *testing.T) { nfttest.EachForm(t, testWireDHCPFlood) }

func testWireDHCPFlood(t *testing.T, classes render.ClassesConfig) {
	s := newSpecialFlood(t, nft.Config{Renderer: render.Config{Classes: classes, AllowDHCP: true}})
	for family := range 2 {
		host := nfttest.FlowEnd{Addr: s.host()[family], Own: true}
		for i, passes := range []bool{false, true, false} {
			from := endOf("way2", workloadAddrs(i)[family])
			w := wireFlow{from: from, to: host, Flow: verdict.Flow{
				Src: from.Addr, Dst: host.Addr, Protocol: policy.ProtocolUDP, SrcPort: 68, DstPort: 67,
			}}
			if family == 1 {
				w.SrcPort, w.DstPort = 546, 547
			}
			s.add(w, passes)
			w.DstPort++
			s.add(w, false)
		}
	}
	// way2 sends to others from an address that a prefix of another endpoint includes.
	for family := range 2 {
		from, to := endOf("way2", addrs("10.98.0.9", "fd00:98::9")[family]), endOf("way3", workloadAddrs(2)[family])
		s.add(wireFlow{from: from, to: to, Flow: verdict.Flow{
			Src: from.Addr, Dst: to.Addr, Protocol: policy.ProtocolUDP, SrcPort: 99, DstPort: 80,
		}}, false)
	}
	sources := func(of dptest.State, name string, bits int) dptest.State {
		return edit(of, name, func(e *dataplane.Endpoint) { sendsFrom(e, addrs("10.98.0.9", "fd00:98::9"), bits) })
	}
	closed := closedFrom("way2")
	states := []dptest.State{sources(closed, "way1", 8), sources(closed, "way1", 4), closed}
	s.run(t, states, wireRounds(40, 800))
}

// S119, S173: an address is a false source in one state, and policy denies it in the other.
func TestWireFalseSourceFlood(t *testing.T) { nfttest.EachForm(t, testWireFalseSourceFlood) }

func testWireFalseSourceFlood(t *testing.T, classes render.ClassesConfig) {
	for _, bits := range []int{0, 8} {
		t.Run(fmt.Sprint(bits), func(t *testing.T) {
			s := newSpecialFlood(t, nft.Config{Renderer: render.Config{Classes: classes}})
			other := addrs("10.98.0.9", "fd00:98::9")
			for family := range 2 {
				from, to := endOf("way1", other[family]), endOf("way2", workloadAddrs(1)[family])
				own := endOf("way1", workloadAddrs(0)[family])
				for port := range uint16(8) {
					s.add(wireFlow{from: from, to: to, Flow: verdict.Flow{
						Src: from.Addr, Dst: to.Addr, Protocol: policy.ProtocolUDP, SrcPort: 99, DstPort: 80 + port,
					}}, false)
					s.add(wireFlow{from: own, to: to, Flow: verdict.Flow{
						Src: own.Addr, Dst: to.Addr, Protocol: policy.ProtocolUDP, SrcPort: 99, DstPort: 80 + port,
					}}, true)
				}
			}
			may := func(of dptest.State) dptest.State {
				return edit(of, "way1", func(e *dataplane.Endpoint) { sendsFrom(e, other, bits) })
			}
			deny := func(of dptest.State, egress bool) dptest.State {
				of = of.Clone()
				of.Sets["s:other"] = members(other[0].String(), other[1].String(), "192.0.2.7", "2001:db8::7")
				key := nfttest.PolicyKey("denies")
				rules := []dataplane.Rule{
					{ID: "other", Action: policy.Deny, Source: set("s:other")}, nfttest.AllowAll("rest"),
				}
				of.Policies[key] = &dataplane.Policy{Tier: "default", Ingress: rules, Egress: rules}
				tiers := []dataplane.TierPolicies{{
					Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key},
				}}
				if egress {
					return edit(of, "way1", func(e *dataplane.Endpoint) { e.Egress = tiers })
				}
				return edit(of, "way2", func(e *dataplane.Endpoint) { e.Ingress = tiers })
			}
			states := []dptest.State{shop(), may(deny(shop(), true)), shop(), may(deny(shop(), false))}
			s.run(t, states, wireRounds(24, 600))
		})
	}
}

// S170, S173: workloads are ports of bridges that are added and removed. Packets routed to and from
// their addresses never pass. Packets of others are not lost.
func TestWireBridgeFlood(t *testing.T) { nfttest.EachForm(t, testWireBridgeFlood) }

func testWireBridgeFlood(t *testing.T, classes render.ClassesConfig) {
	masters := map[string]string{}
	interfaces := func() (map[string]render.Interface, error) {
		all := map[string]render.Interface{}
		for _, name := range []string{"way1", "way2", "way3", "eth0", "lo"} {
			all[name] = render.Interface{}
			if m := masters[name]; m != "" {
				all[name] = render.Interface{Master: render.Master{Name: m, Kind: "bridge"}}
			}
		}
		return all, nil
	}
	s := newSpecialFlood(t, nft.Config{Renderer: render.Config{Classes: classes}, Interfaces: interfaces})
	for family := range 2 {
		way1, way2 := endOf("way1", workloadAddrs(0)[family]), endOf("way2", workloadAddrs(1)[family])
		eth0 := endOf("eth0", s.outside()[family])
		s.add(s.opened(t, way1, eth0)[0], true)
		for _, w := range append(s.opened(t, way1, way2), s.opened(t, eth0, way2)...) {
			s.add(w, false)
			s.add(w.answered(), false)
		}
	}
	// Like the kernel, the flood uses eth0 instead of the bridge of way2.
	for i := range s.flows {
		for _, p := range []*nfttest.FlowEnd{&s.flows[i].from, &s.flows[i].to} {
			if p.Iface == "way2" {
				p.Iface = "eth0"
			}
		}
	}
	masters["way2"] = "eth0"
	require.Error(t, s.plane.Resync(t.Context()))
	s.flood.prepare(t, s.flows)
	changes := wireRounds(30, 600)
	sent := s.flood.during(t, func() {
		for i := range changes {
			next := shop()
			switch i % 5 {
			case 0:
				masters["way3"] = "br1"
			case 1:
				masters["way2"] = "br0"
			case 2:
				delete(masters, "way3")
				next = edit(next, "way3", func(e *dataplane.Endpoint) { e.Down = true })
			case 3:
				next = closedFrom("way3")
			default:
				masters["way2"] = "eth0"
			}
			_ = s.plane.Resync(t.Context())
			_ = s.plane.ApplyVisible(t.Context(), dptest.Transition(s.at, next))
			s.at = next
		}
	})
	s.require(t, sent, changes)
}
