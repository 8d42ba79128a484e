// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/policy"
)

// moment is a change between two states that both deny one flow.
type moment struct {
	name   string
	states func(family int) (first, second dptest.State)
	// readded is set if an endpoint is removed and added, so that allowed packets are lost.
	readded bool
}

func moments() []moment {
	sender := func(family int) dptest.Set { return members(floodSource(family).String()) }
	receiver := func(family int) dptest.Set { return members(floodTarget(family).String()) }
	return []moment{
		{name: "the sender is replaced", readded: true, states: func(family int) (dptest.State, dptest.State) {
			first, second := bothWays(others(), sender(family)), bothWays(others(), others())
			delete(second.Endpoints, endpointKey("way1"))
			delete(second.Policies, nfttest.PolicyKey("sends"))
			delete(second.Sets, "s:to")
			return first, second
		}},
		{name: "the sender goes down and up", readded: true, states: func(family int) (dptest.State, dptest.State) {
			second := edit(bothWays(others(), others()), "way1", func(e *dataplane.Endpoint) { e.Down = true })
			return bothWays(others(), sender(family)), second
		}},
		{name: "the receiver is replaced", readded: true, states: func(family int) (dptest.State, dptest.State) {
			first, second := bothWays(receiver(family), others()), bothWays(others(), others())
			delete(second.Endpoints, endpointKey("way2"))
			delete(second.Policies, nfttest.PolicyKey("receives"))
			delete(second.Sets, "s:from")
			return first, second
		}},
		{name: "a denial moves by labels", states: func(family int) (dptest.State, dptest.State) {
			return bothWays(receiver(family), others()), bothWays(others(), sender(family))
		}},
		{name: "a denial moves by policies", states: func(family int) (dptest.State, dptest.State) {
			first := withoutPolicy(bothWays(receiver(family), others()), "receives", "way2")
			second := withoutPolicy(bothWays(others(), sender(family)), "sends", "way1")
			return first, second
		}},
		{name: "a denied prefix that contains both ends moves", states: func(family int) (dptest.State, dptest.State) {
			both := netip.PrefixFrom(floodSource(family), floodSource(family).BitLen()-2)
			return bothWays(netMembers(both), others()), bothWays(others(), netMembers(both))
		}},
		{name: "a denial of an allowed source moves by labels", states: func(family int) (dptest.State, dptest.State) {
			elsewhere := addrs("10.98.0.1", "fd00:98::1")
			own := func(e *dataplane.Endpoint) {
				e.Addresses = elsewhere
				for _, a := range workloadAddrs(0) {
					e.AllowedSources = append(e.AllowedSources, netip.PrefixFrom(a, a.BitLen()))
				}
			}
			// The sets always have other members, so that no class is added or removed.
			first := bothWays(withMembers(others(), "192.0.2.8", "2001:db8::8", floodTarget(family).String()),
				withMembers(others(), "192.0.2.9", "2001:db8::9"))
			second := bothWays(withMembers(others(), "192.0.2.8", "2001:db8::8"),
				withMembers(others(), "192.0.2.9", "2001:db8::9", floodSource(family).String()))
			return edit(first, "way1", own), edit(second, "way1", own)
		}},
		{name: "a permission moves by policies", states: func(family int) (dptest.State, dptest.State) {
			return permitted(family, true), permitted(family, false)
		}},
		{name: "another rule allows by labels", states: func(family int) (dptest.State, dptest.State) {
			return allowedBy(floodSource(family), 31), allowedBy(floodSource(family), 0)
		}},
		{name: "another policy allows", states: func(family int) (dptest.State, dptest.State) {
			return allowedByPolicy(floodSource(family), "one"), allowedByPolicy(floodSource(family), "two")
		}},
		{name: "a denied address becomes part of a prefix", states: func(family int) (dptest.State, dptest.State) {
			a := floodSource(family)
			single, wider := netip.PrefixFrom(a, a.BitLen()), netip.PrefixFrom(a, a.BitLen()-2)
			return bothWays(others(), netMembers(single)), bothWays(others(), netMembers(wider))
		}},
	}
}

// S173: a packet that the states before and after a change both deny never passes. A packet that
// both allow is never lost.
func TestWireOneMoment(t *testing.T) { nfttest.EachForm(t, testWireOneMoment) }

func testWireOneMoment(t *testing.T, classes render.ClassesConfig) {
	for _, m := range moments() {
		for family, name := range []string{"IPv4", "IPv6"} {
			t.Run(m.name+" "+name, func(t *testing.T) { oneMoment(t, classes, m, family, momentChanges()) })
		}
	}
}

// momentChanges is the number of changes of each kind in each family: 10,000 with both.
func momentChanges() int { return wireRounds(40, 5000) }

func oneMoment(t *testing.T, classes render.ClassesConfig, m moment, family, changes int) {
	t.Helper()
	first, second := m.states(family)
	newFloodNet(t, family).oneMoment(t, render.Config{Classes: classes}, first, second, m.readded, changes, nil)
}

// oneMoment changes the router between two states while the flood runs. If behind is not nil, it is
// called right after each change.
func (n *floodNet) oneMoment(
	t *testing.T, cfg render.Config, first, second dptest.State, readded bool, changes int, behind func(),
) {
	t.Helper()
	plane := open(t, n.node, cfg)
	require.NoError(t, plane.Apply(t.Context(), dptest.Transition(dptest.NewState(), first)))
	n.alternate(t, first, second, readded, changes, func(at, next dptest.State) {
		require.NoError(t, plane.Apply(t.Context(), dptest.Transition(at, next)))
		if behind != nil {
			behind()
		}
	})
}

// alternate calls change repeatedly, so that the node alternates between two states, while the
// flood runs.
func (n *floodNet) alternate(
	t *testing.T, first, second dptest.State, readded bool, changes int, change func(at, next dptest.State),
) {
	t.Helper()
	sent := n.during(t, func() {
		for range changes {
			change(first, second)
			first, second = second, first
		}
	})
	forbidden, allowed := n.arrived(t)
	t.Logf(
		"%d changes, %d packets of each kind: %d forbidden ones passed, %d allowed ones were lost", changes, sent,
		forbidden, sent-allowed,
	)
	require.Zero(t, forbidden, "forbidden packets that passed")
	if !readded {
		require.Equal(t, sent, allowed, "allowed packets that arrived")
	}
}

// S173 holds if another process commits to its own table right after each change. For the kernel,
// that is another generation of the same ruleset.
func TestWireOneMomentAmongOthers(t *testing.T) { nfttest.EachForm(t, testWireOneMomentAmongOthers) }

func testWireOneMomentAmongOthers(t *testing.T, classes render.ClassesConfig) {
	for _, m := range moments() {
		if m.readded {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			n := newFloodNet(t, 0)
			first, second := m.states(0)
			change := anotherTable(t, n.node)
			n.oneMoment(t, render.Config{Classes: classes}, first, second, false, momentChanges(), change)
		})
	}
}

// anotherTable returns a function that changes a table of another owner, three times.
func anotherTable(t *testing.T, ns *netns.NS) func() {
	t.Helper()
	a, err := applier.New(applier.Config{Name: "another", NetNS: ns.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	changes := 0
	return func() {
		for range 3 {
			changes++
			set := &ruleset.Set{Name: "s", Key: []ruleset.Type{ruleset.TypeNFProto}}
			if changes%2 == 0 {
				set.Elements = []ruleset.Element{{Key: []ruleset.Value{ruleset.Byte(ruleset.NFProtoIPv4)}}}
			}
			require.NoError(t, a.Apply(t.Context(), &ruleset.Table{Name: "another", Sets: []*ruleset.Set{set}}))
		}
	}
}

// S173 holds for traffic between a workload and its node if only the workload has policy.
func TestWireOneMomentOfNode(t *testing.T) { nfttest.EachForm(t, testWireOneMomentOfNode) }

func testWireOneMomentOfNode(t *testing.T, classes render.ClassesConfig) {
	node := addrs("10.97.0.1", "fd00:97::1")
	cfg := render.Config{
		Classes: classes,
		Host:    policy.HostConfig{EndpointToHostAction: policy.HostAccept, HostToEndpointAction: policy.HostReturn},
	}
	for family, name := range []string{"IPv4", "IPv6"} {
		t.Run("to the node, "+name, func(t *testing.T) {
			n := newFloodRouter(t)
			own(t, n.node, node[family])
			n.count(t, n.node, "inet", "input")
			b := n.frames(t, 0, floodFrames(floodSource(family), node[family]))
			n.send = func() error { return b.send(len(b.list)) }
			first, second := deniedBy(node[family], true), deniedBy(node[family], false)
			n.oneMoment(t, cfg, first, second, false, momentChanges(), nil)
		})
		t.Run("from the node, "+name, func(t *testing.T) {
			n := newFloodRouter(t)
			own(t, n.node, node[family])
			way2 := n.workloads[1]
			n.count(t, way2.NS, "netdev", fmt.Sprintf("ingress device %q", way2.Link.Name))
			n.send = fromNode(t, n.node, node[family], floodTarget(family))
			first, second := deniedBy(node[family], true), deniedBy(node[family], false)
			n.oneMoment(t, cfg, first, second, false, momentChanges(), nil)
		})
	}
}

// own gives the node an address.
func own(t *testing.T, node *netns.NS, a netip.Addr) {
	t.Helper()
	runIP(t, node, "link", "set", "lo", "up")
	require.NoError(t, node.AddAddr("lo", netip.PrefixFrom(a, a.BitLen())))
}

// fromNode returns a function that sends a flood from sockets of the node. It ignores EPERM, the
// error of a denied packet.
func fromNode(t *testing.T, node *netns.NS, src, dst netip.Addr) func() error {
	t.Helper()
	var conns []net.Conn
	for i := range floodFlows {
		for _, port := range []uint16{floodForbidden, floodAllowed} {
			local := net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, uint16(2000+i)+port*100))
			require.NoError(t, node.Do(func() error {
				c, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, port)))
				conns = append(conns, c)
				return err
			}))
		}
	}
	t.Cleanup(func() {
		for _, c := range conns {
			require.NoError(t, c.Close())
		}
	})
	return func() error {
		for _, c := range conns {
			if _, err := c.Write([]byte("x")); err != nil && !errors.Is(err, unix.EPERM) {
				return err
			}
		}
		return nil
	}
}

// S173, S103: a workload sends to itself through a service that another table translates. A single
// element of the class map decides about both directions.
func TestWireOneMomentToItself(t *testing.T) { nfttest.EachForm(t, testWireOneMomentToItself) }

func testWireOneMomentToItself(t *testing.T, classes render.ClassesConfig) {
	services, elsewhere := addrs("10.96.0.1", "fd00:96::1"), addrs("192.0.2.254", "2001:db8::254")
	for family, name := range []string{"IPv4", "IPv6"} {
		t.Run(name, func(t *testing.T) {
			n := newFloodRouter(t)
			w, self, ip := n.workloads[0], floodSource(family), []string{"ip", "ip6"}[family]
			n.count(t, w.NS, "netdev", fmt.Sprintf("ingress device %q", w.Link.Name))
			load(t, n.node, fmt.Sprintf(`table %[1]s service {
				chain before {
					type nat hook prerouting priority dstnat
					%[1]s daddr %[2]s dnat to %[3]s
				}
				chain after {
					type nat hook postrouting priority srcnat
					%[1]s saddr %[3]s %[1]s daddr %[3]s snat to %[4]s
				}
			}`, ip, services[family], self, elsewhere[family]))
			b := n.frames(t, 0, floodFrames(self, services[family]))
			n.send = func() error { return b.send(len(b.list)) }
			both := func(e *dataplane.Endpoint) {
				tier := dataplane.TierPolicies{Tier: "default", DefaultAction: policy.Deny}
				sends, receives := tier, tier
				sends.Policies = []policy.Key{nfttest.PolicyKey("sends")}
				receives.Policies = []policy.Key{nfttest.PolicyKey("receives")}
				e.Egress, e.Ingress = []dataplane.TierPolicies{sends}, []dataplane.TierPolicies{receives}
			}
			with := withMembers(others(), self.String())
			first, second := bothWays(others(), with), bothWays(with, others())
			n.oneMoment(t, render.Config{Classes: classes}, edit(first, "way1", both), edit(second, "way1", both),
				false,
				wireRounds(200, 5000), nil)
		})
	}
}

// S173: interfaces have any names. Policy denies everything to a workload that is added in the
// change that removes another one.
func TestWireOneMomentOfUnusualNames(t *testing.T) {
	nfttest.EachForm(t, testWireOneMomentOfUnusualNames)
}

func testWireOneMomentOfUnusualNames(t *testing.T, classes render.ClassesConfig) {
	s := shop()
	s.Policies[nfttest.PolicyKey("none")] = &dataplane.Policy{Tier: "default"}
	tiers := []dataplane.TierPolicies{{
		Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{nfttest.PolicyKey("none")},
	}}
	deny := func(e *dataplane.Endpoint) { e.Addresses, e.Ingress, e.Egress, e.Profiles = nil, tiers, tiers, nil }
	first, second := edit(s, "way2", deny), edit(s, "way1", deny)
	delete(first.Endpoints, endpointKey("way1"))
	delete(second.Endpoints, endpointKey("way2"))
	n := newFloodNet(t, 0)
	n.oneMoment(
		t, render.Config{Classes: classes, InterfacePrefix: "other"}, first, second, true, wireRounds(200, 5000),
		nil,
	)
	_, allowed := n.arrived(t)
	require.Zero(t, allowed, "packets to the other port, which policy denies too")
}

// S173: an address is added to another set, so that it is in a new class. No packet is lost that
// both classes allow.
func TestWireNewClassLosesNothing(t *testing.T) { nfttest.EachForm(t, testWireNewClassLosesNothing) }

func testWireNewClassLosesNothing(t *testing.T, classes render.ClassesConfig) {
	state := func(others dptest.Set) dptest.State {
		s := shop()
		s.Sets["s:one"], s.Sets["s:two"] = withMembers(members(floodSource(0).String()), "192.0.2.7"), others
		allow := func(id string, port uint16, from dataplane.IPSetID) dataplane.Rule {
			return dataplane.Rule{
				ID: id, Action: policy.Allow, Protocol: policy.ProtocolUDP, Source: set(from),
				Destination: dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(port))},
			}
		}
		key := nfttest.PolicyKey("receives")
		s.Policies[key] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
			allow("one", floodAllowed, "s:one"), allow("two", 99, "s:two"),
		}}
		return edit(s, "way2", func(e *dataplane.Endpoint) {
			e.Ingress = []dataplane.TierPolicies{{
				Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key},
			}}
		})
	}
	first, second := state(members("192.0.2.8")), state(members("192.0.2.8", floodSource(0).String()))
	newFloodNet(t, 0).oneMoment(
		t, render.Config{Classes: classes}, first, second, false, wireRounds(100, 5000), nil,
	)
}
