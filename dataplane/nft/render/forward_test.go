// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
)

// sidesState has these workloads:
//
//   - way1 may send anything.
//   - way2 receives from way1 and others.
//   - way3 may neither send nor receive.
//   - way4 is down.
//   - way5 is at fault.
func sidesState() dptest.State {
	s := nfttest.InSync()
	s.Sets["s:one"] = nfttest.NetSet("10.0.0.1/32", "fd00::1/128")
	s.Sets["s:out"] = nfttest.NetSet("10.9.0.1/32", "fd00:9::1/128")
	s.Profiles["all"] = &dataplane.Profile{
		Ingress: []dataplane.Rule{nfttest.AllowAll("in")}, Egress: []dataplane.Rule{nfttest.AllowAll("out")},
	}
	from := func(id string, sets ...dataplane.IPSetID) dataplane.Rule {
		return dataplane.Rule{ID: id, Action: policy.Allow, Source: dataplane.Match{Sets: sets}}
	}
	s.Policies[nfttest.PolicyKey("two")] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		from("one", "s:one"), from("out", "s:out"),
	}}
	s.Policies[nfttest.PolicyKey("three")] = &dataplane.Policy{Tier: "default"}
	tiers := func(name string) []dataplane.TierPolicies {
		return []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{nfttest.PolicyKey(name)},
		}}
	}
	for i := range 5 {
		s.Endpoints[nfttest.EndpointKey(fmt.Sprint("web", i+1))] = &dataplane.Endpoint{
			Interface: fmt.Sprint("way", i+1), Profiles: []string{"all"},
			Addresses: []netip.Addr{
				netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), netip.MustParseAddr(fmt.Sprint("fd00::", i+1)),
			},
		}
	}
	s.Endpoints[nfttest.EndpointKey("web2")].Ingress = tiers("two")
	web3 := s.Endpoints[nfttest.EndpointKey("web3")]
	web3.Ingress, web3.Egress = tiers("three"), tiers("three")
	s.Endpoints[nfttest.EndpointKey("web4")].Down = true
	s.Endpoints[nfttest.EndpointKey("web5")].Profiles = []string{"missing"}
	return s
}

// sidePacket returns a packet from one interface to another, with the addresses of sidesState.
// Other interfaces have outside addresses.
func sidePacket(from, to string, v6 bool) simulate.Packet {
	addr := func(iface string) netip.Addr {
		n := 1
		net := [2]string{"10.9.0.", "fd00:9::"}
		if _, err := fmt.Sscanf(iface, "way%d", &n); err == nil {
			net = [2]string{"10.0.0.", "fd00::"}
		}
		if v6 {
			return netip.MustParseAddr(fmt.Sprint(net[1], n))
		}
		return netip.MustParseAddr(fmt.Sprint(net[0], n))
	}
	return simulate.Packet{
		IIFName: from, OIFName: to, Src: addr(from), Dst: addr(to), Protocol: 17, SrcPort: 1000, DstPort: 80,
	}
}

// eachTable runs a test with the table of sidesState as lookups, as chains, and with only the
// receivers' policy as chains. In the third table, only this policy is over the limit. Each table
// has a variant in which all interfaces have the prefix, and one in which one does not.
func eachTable(t *testing.T, test func(*testing.T, *ruleset.Table)) {
	t.Helper()
	for name, classes := range map[string]render.ClassesConfig{
		"lookups": {}, "chains": nfttest.Chains(), "both": {MaxPerGroup: 1},
	} {
		for _, unusual := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, interface without the prefix %v", name, unusual), func(t *testing.T) {
				s := sidesState()
				if unusual {
					s.Endpoints[nfttest.EndpointKey("web6")] = &dataplane.Endpoint{
						Interface: "tap6", Addresses: nfttest.Addresses("10.0.0.6"), Profiles: []string{"all"},
					}
				}
				table, errs := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(s))
				require.Len(t, errs, 1, "a profile is missing")
				require.Equal(t, name != "lookups", blockOf(table, "chain pol-ingress/shop/two") != "")
				require.Equal(
					t, name != "chains",
					blockOf(table, "map senders") != "" && blockOf(table, "chain classify-egress") != "",
				)
				test(t, table)
			})
		}
	}
}

// The sender's and the receiver's policy are in one base chain, so a packet uses one generation of
// both.
func TestBothPoliciesAreInOneBaseChain(t *testing.T) {
	eachTable(t, func(t *testing.T, table *ruleset.Table) {
		var names []string
		for _, c := range table.Chains {
			if c.Hook != nil && c.Hook.Point == ruleset.Forward {
				names = append(names, c.Name)
			}
		}
		require.Equal(t, []string{"forward", "forward-again"}, names) // the second one is only for stale packets
	})
}

// TestBothPoliciesMustAllow: a packet passes with its priority if both sides' policy allows it. It
// drops if the chain of either side is empty, as a new chain is for a packet on the previous
// generation. That holds for every priority. Packets of known connections that the base chain
// accepts need no such chain.
func TestBothPoliciesMustAllow(t *testing.T) {
	priorities := []uint32{0, 1, 2, 4, 6, 7, 1 << 31, 1<<31 | 6, 1<<32 - 2, 1<<32 - 1}
	packets := 0
	eachTable(t, func(t *testing.T, table *ruleset.Table) {
		without := func(name string) *ruleset.Table {
			some := *table
			some.Chains = slices.Clone(table.Chains)
			i := slices.IndexFunc(some.Chains, func(c *ruleset.Chain) bool { return c.Name == name })
			some.Chains[i] = &ruleset.Chain{Name: name}
			return &some
		}
		tables := map[string]*ruleset.Table{"": table, "from": without("from/shop/web1"), "to": without("to/shop/web2")}
		ways := []struct {
			from, to string
			drops    []string // the missing chain
		}{
			{"way1", "way2", []string{"from", "to"}},
			{"way1", "eth0", []string{"from"}},
			{"eth0", "way2", []string{"to"}},
			{"eth0", "eth1", nil},
		}
		text := table.String()
		known := map[int]bool{ // by the number of ends that are workloads
			0: true, 1: strings.Contains(text, `iifname != "way*" oifname @endpoints-up meta nfproto @epoch accept`),
			2: strings.Contains(text, "@source4 oifname @endpoints-up meta nfproto @epoch accept"),
		}
		for missing, table := range tables {
			s, err := simulate.New(simulate.Config{Table: table})
			require.NoError(t, err)
			for _, way := range ways {
				for _, priority := range priorities {
					for _, state := range []uint32{ruleset.CtNew, ruleset.CtEstablished} {
						for _, v6 := range []bool{false, true} {
							p := sidePacket(way.from, way.to, v6)
							p.Priority = priority
							got, err := s.Run(ruleset.Forward, p, simulate.Conn{State: state})
							require.NoError(t, err)
							what := fmt.Sprintf(
								"%s to %s, without %q, priority %x, state %d\n%s", way.from, way.to, missing, priority,
								state, table,
							)
							packets++
							skips := way.drops == nil || known[len(way.drops)] && state == ruleset.CtEstablished
							if slices.Contains(way.drops, missing) && !skips {
								require.Equal(t, ruleset.Drop, got.Verdict, what)
								continue
							}
							require.Equal(t, ruleset.Accept, got.Verdict, what)
							require.Equal(t, keptPriority(table, priority, skips), got.Packet.Priority, what)
						}
					}
				}
			}
		}
	})
	t.Log(packets, "packets")
}

// keptPriority is the priority of a packet after policy.
func keptPriority(table *ruleset.Table, priority uint32, passedBy bool) uint32 {
	switch {
	case passedBy:
		return priority
	case blockOf(table, "chain forward-priority") == "": // all is chains
		return priority &^ (3 << 30)
	case slices.Contains([]uint32{1, 2, 4, 6}, priority):
		return priority
	default:
		return 0
	}
}

// TestStaleKnownConnections: the first rules of the base chain accept no stale packet from or to a
// workload, whatever their lookups return.
func TestStaleKnownConnections(t *testing.T) {
	eachTable(t, func(t *testing.T, table *ruleset.Table) {
		stale := *table
		stale.Sets = slices.Clone(table.Sets)
		for i, set := range stale.Sets {
			if set.Name == "epoch" {
				empty := *set
				empty.Elements = nil
				stale.Sets[i] = &empty
			}
		}
		s, err := simulate.New(simulate.Config{Table: &stale})
		require.NoError(t, err)
		for _, v6 := range []bool{false, true} {
			known := simulate.Conn{State: ruleset.CtEstablished}
			for _, way := range [][2]string{{"way1", "way2"}, {"way1", "eth0"}, {"eth0", "way2"}} {
				r, err := s.Run(ruleset.Forward, sidePacket(way[0], way[1], v6), known)
				require.NoError(t, err)
				require.Equal(t, ruleset.Drop, r.Verdict)
				require.Equal(t, "forward-again", r.Chain)
			}
		}
	})
}

// TestKnownConnections (S35, S116, S117): packets of known connections pass policy that denies
// them. They do not pass an endpoint that is down, at fault or unknown, on either side. Invalid
// packets drop.
func TestKnownConnections(t *testing.T) {
	eachTable(t, func(t *testing.T, table *ruleset.Table) {
		s, err := simulate.New(simulate.Config{Table: table})
		require.NoError(t, err)
		bad := []string{"way4", "way5", "way9"} // down, at fault, unknown
		for _, from := range []string{"way1", "way2", "way3", "way4", "way5", "way9", "eth0"} {
			for _, to := range []string{"way1", "way2", "way3", "way4", "way5", "way9", "eth1"} {
				for _, v6 := range []bool{false, true} {
					for state, pass := range map[uint32]bool{
						ruleset.CtEstablished: true, ruleset.CtRelated: true, ruleset.CtInvalid: false,
					} {
						r, err := s.Run(ruleset.Forward, sidePacket(from, to, v6), simulate.Conn{State: state})
						require.NoError(t, err)
						others := from == "eth0" && to == "eth1"
						want := others || pass && !slices.Contains(bad, from) && !slices.Contains(bad, to)
						require.Equal(
							t, want, r.Verdict == ruleset.Accept, "%s to %s, state %d\n%s", from, to, state, table,
						)
					}
				}
			}
		}
	})
}

// If a host endpoint has addresses and no interface, packets through an interface with unknown
// addresses drop, also those of established connections. The host endpoint may govern the
// interface.
func TestKnownConnectionsOfUnknownInterface(t *testing.T) {
	for name, classes := range map[string]render.ClassesConfig{"lookups": {}, "chains": nfttest.Chains()} {
		t.Run(name, func(t *testing.T) {
			s := sidesState()
			s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}] = &dataplane.HostEndpoint{
				Addresses: nfttest.Addresses("198.51.100.1"),
			}
			r, err := render.New(render.Config{Classes: classes})
			require.NoError(t, err)
			r.SetInterfaces(nfttest.InterfacesWith(map[string][]netip.Addr{"eth0": nfttest.Addresses("198.51.100.1")}))
			r.Update(nfttest.Transition(s))
			table, _ := r.Table()
			sim, err := simulate.New(simulate.Config{Table: table})
			require.NoError(t, err)
			for _, v6 := range []bool{false, true} {
				for _, c := range []struct {
					from, to string
					want     bool
				}{{"eth0", "way1", true}, {"way1", "eth0", true}, {"eth9", "way1", false}, {"way1", "eth9", false}} {
					got, err := sim.Run(
						ruleset.Forward, sidePacket(c.from, c.to, v6), simulate.Conn{State: ruleset.CtEstablished},
					)
					require.NoError(t, err)
					require.Equal(t, c.want, got.Verdict == ruleset.Accept, "%s to %s\n%s", c.from, c.to, table)
				}
			}
		})
	}
}
