// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
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

// knownMoment is a change between two states. Both deny all packets of some established
// connections, those of the workloads in closed, and allow those of the others. The names are of
// interfaces.
type knownMoment struct {
	name          string
	first, second func() dptest.State
	// closed reports whether both states forbid packets between two interfaces.
	closed func(from, to string) bool
	// open reports whether both states allow them.
	open func(from, to string) bool
	// masters are interfaces that are ports of a bridge in the second state.
	masters []string
}

func knownMoments() []knownMoment {
	down := func(s dptest.State, names ...string) dptest.State {
		for _, name := range names {
			s = edit(s, name, func(e *dataplane.Endpoint) { e.Down = true })
		}
		return s
	}
	is := func(names ...string) func(from, to string) bool {
		return func(from, to string) bool {
			for _, name := range names {
				if from == name || to == name {
					return true
				}
			}
			return false
		}
	}
	not := func(names ...string) func(from, to string) bool {
		return func(from, to string) bool { return !is(names...)(from, to) }
	}
	between := func(a, b string) func(from, to string) bool {
		return func(from, to string) bool { return from == a && to == b || from == b && to == a }
	}
	withoutPrefix := func(s dptest.State) dptest.State {
		s = s.Clone()
		s.Endpoints[endpointKey("odd")] = &dataplane.Endpoint{
			Interface: "pod9", Addresses: addrs("192.0.2.77"), Profiles: []string{"all"},
		}
		return s
	}
	byAddress := func(s dptest.State) dptest.State {
		s = s.Clone()
		s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}] = &dataplane.HostEndpoint{
			Addresses: addrs("192.0.2.1"), Profiles: []string{"all"},
		}
		return s
	}
	forwards := func(s dptest.State) dptest.State {
		s, tiers := denied(s.Clone())
		s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}] = &dataplane.HostEndpoint{
			Interface: "eth0", ForwardIngress: tiers, ForwardEgress: tiers,
		}
		return s
	}
	closes := func(s dptest.State) dptest.State {
		s, tiers := denied(s.Clone())
		for _, name := range []string{"way1", "way3"} {
			s = edit(s, name, func(e *dataplane.Endpoint) { e.Ingress, e.Egress = tiers, tiers })
		}
		return s
	}
	return []knownMoment{
		{
			name:   "either end of a connection is down",
			first:  func() dptest.State { return down(shop(), "way1") },
			second: func() dptest.State { return down(shop(), "way2") }, closed: between("way1", "way2"),
			open: not("way1", "way2"),
		},
		{
			name:   "policy begins to deny others while one is down",
			first:  func() dptest.State { return down(shop(), "way2") },
			second: func() dptest.State { return down(closes(shop()), "way2") }, closed: is("way2"),
			open: not("way2"),
		},
		{
			name:   "an endpoint's interface lacks the prefix",
			first:  func() dptest.State { return down(shop(), "way2") },
			second: func() dptest.State { return withoutPrefix(down(shop(), "way2")) }, closed: is("way2"),
			open: not("way2"),
		},
		{
			name:   "a host endpoint governs by address",
			first:  func() dptest.State { return down(shop(), "way2") },
			second: func() dptest.State { return byAddress(down(shop(), "way2")) }, closed: is("way2"),
			open: not("way2"),
		},
		{
			name:   "a host endpoint denies new forwarded packets",
			first:  func() dptest.State { return down(shop(), "way2") },
			second: func() dptest.State { return forwards(down(shop(), "way2")) }, closed: is("way2"),
			open: not("way2"),
		},
		{
			name:   "the end that is down becomes a port",
			first:  func() dptest.State { return down(shop(), "way2") },
			second: func() dptest.State { return shop() }, closed: is("way2"), open: not("way2"),
			masters: []string{"way2"},
		},
		{
			name:   "the interface of the end that is down lacks the prefix",
			first:  func() dptest.State { return withoutPrefix(down(shop(), "way1")) },
			second: func() dptest.State { return down(shop(), "way2") }, closed: between("way1", "way2"),
			open: not("way1", "way2"),
		},
	}
}

// S35, S116, S173: the first rules of forward accept packets of established connections. No packet
// passes that both states deny, because an endpoint is down or at fault. No packet is lost that
// both allow.
func TestWireOneMomentOfKnown(t *testing.T) { nfttest.EachForm(t, testWireOneMomentOfKnown) }

func testWireOneMomentOfKnown(t *testing.T, classes render.ClassesConfig) {
	for _, m := range knownMoments() {
		t.Run(m.name, func(t *testing.T) { m.flood(t, classes, wireRounds(10, 400)) })
	}
}

func (m knownMoment) flood(t *testing.T, classes render.ClassesConfig, changes int) {
	t.Helper()
	b := &tracked{wire: shopWire(t), at: dptest.NewState()}
	runtime.UnlockOSThread()
	b.connect(t, "eth0")
	b.own(t, "lo", "192.0.2.1/32")
	outside := addrs("203.0.113.9", "2001:db8:1::9")
	for _, a := range outside {
		b.setRoute(t, a, "eth0")
	}
	var ports []string
	interfaces := func() (map[string]render.Interface, error) {
		all := map[string]render.Interface{"lo": {Addresses: addrs("192.0.2.1")}}
		for _, name := range []string{"way1", "way2", "way3", "eth0"} {
			all[name] = render.Interface{}
		}
		for _, name := range ports {
			all[name] = render.Interface{Master: render.Master{Name: "br0", Kind: "bridge"}}
		}
		return all, nil
	}
	b.plane = openWith(t, b.node, nft.Config{Renderer: render.Config{Classes: classes}, Interfaces: interfaces})
	b.become(t, shop())
	var flows []wireFlow
	ends := func(family int) []nfttest.FlowEnd {
		return []nfttest.FlowEnd{
			endOf("way1", workloadAddrs(0)[family]), endOf("way2", workloadAddrs(1)[family]),
			endOf("way3", workloadAddrs(2)[family]), endOf("eth0", outside[family]),
		}
	}
	for family := range 2 {
		for i, from := range ends(family) {
			for k, to := range ends(family) {
				if i == k {
					continue
				}
				for _, proto := range []policy.Protocol{policy.ProtocolTCP, policy.ProtocolUDP} {
					b.port++
					w := wireFlow{from: from, to: to, Flow: verdict.Flow{
						Src: from.Addr, Dst: to.Addr, Protocol: proto, SrcPort: 1000 + b.port, DstPort: 80,
						State: verdict.StateEstablished,
					}}
					w.establish(t, b.wire)
					flows = append(flows, w, w.answered())
				}
			}
		}
	}
	n := &worldFlood{wire: b.wire, fds: map[string]int{}}
	n.prepare(t, flows)
	first, second := m.first(), m.second()
	b.become(t, first)
	become := func(i int) {
		if len(m.masters) == 0 {
			applyVariant(t, b.plane, dptest.Transition(b.at, second), i/2)
			b.at, first, second = second, b.at, b.at
			return
		}
		// The bridge is added before the endpoint becomes up, and removed after it became down.
		if i%2 == 0 {
			ports = m.masters
			_ = b.plane.Resync(t.Context())
		}
		_ = b.plane.Apply(t.Context(), dptest.Transition(b.at, second))
		b.at, first, second = second, b.at, b.at
		if i%2 == 1 {
			ports = nil
			require.NoError(t, b.plane.Resync(t.Context()))
		}
	}
	sent := n.during(t, func() {
		for i := range changes {
			become(i)
		}
	})
	counts := n.arrived(t)
	leaked, lost, forbidden, allowed := 0, 0, 0, 0
	for i, w := range flows {
		switch {
		case m.closed(w.from.Iface, w.to.Iface):
			forbidden += sent
			if leaked += counts[i]; counts[i] > 0 {
				t.Errorf("%d of %d passed: %s -> %s %s", counts[i], sent, w.from.Iface, w.to.Iface, w.Flow)
			}
		case m.open(w.from.Iface, w.to.Iface):
			allowed += sent
			if lost += sent - counts[i]; counts[i] != sent {
				t.Errorf("%d of %d lost: %s -> %s %s", sent-counts[i], sent, w.from.Iface, w.to.Iface, w.Flow)
			}
		}
	}
	t.Logf("%d changes, %d forbidden packets, %d passed; %d allowed packets, %d lost", changes, forbidden, leaked,
		allowed, lost)
}
