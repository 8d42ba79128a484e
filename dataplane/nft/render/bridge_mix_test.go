// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// S171, S173: interfaces become ports of bridges, move to others and leave bridges, while policy,
// states and addresses of the endpoints change. A packet that both states deny passes in no mix of
// them. A packet that both allow passes in each mix, unless two endpoints exchange addresses in one
// change. The Dataplane never does that (S168).
func TestMixOfBridges(t *testing.T) { nfttest.EachForm(t, testMixOfBridges) }

func testMixOfBridges(t *testing.T, classes render.ClassesConfig) {
	denied, allowed := 0, 0
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 7))
		first, one := randomBridged(t, rng, classes)
		second, other := randomBridged(t, rng, classes)
		same := slices.Equal(one, other)
		for hook, name := range map[ruleset.HookPoint]string{
			ruleset.Forward: "forward", ruleset.Input: "input", ruleset.Output: "output",
		} {
			base := chainOf(first, name)
			old, now := simulated(t, alone(first, name)), simulated(t, alone(second, name))
			var mixes []*simulate.Simulator
			for i := range 6 {
				m := &mix{Rand: rng, first: first, second: second, twice: i%2 == 0}
				mixes = append(mixes, simulated(t, m.of(base)))
			}
			for _, p := range bridgePackets(hook) {
				before, after := p.Run(t, old, hook).Allowed, p.Run(t, now, hook).Allowed
				if before != after || after && !same {
					continue
				}
				for i, sim := range mixes {
					require.Equal(t, after, p.Run(t, sim, hook).Allowed, "seed %d, mix %d, %s: %+v", seed, i, name, p)
					if after {
						allowed++
					} else {
						denied++
					}
				}
			}
		}
	}
	t.Logf("%d packets denied, %d allowed", denied, allowed)
	require.Greater(t, min(denied, allowed), 1000)
}

func simulated(t *testing.T, table *ruleset.Table) *simulate.Simulator {
	t.Helper()
	s, err := simulate.New(simulate.Config{Table: table})
	require.NoError(t, err)
	return s
}

// randomBridged returns the table of way1 to way3, each of them routed or a port of a bridge, and
// the ends of their addresses.
func randomBridged(
	t *testing.T, rng *rand.Rand, classes render.ClassesConfig,
) (table *ruleset.Table, last []string) {
	t.Helper()
	s, of := nfttest.InSync(), map[string]string{}
	s.Profiles["all"] = &dataplane.Profile{
		Ingress: []dataplane.Rule{nfttest.AllowAll("in")}, Egress: []dataplane.Rule{nfttest.AllowAll("out")},
	}
	last = []string{"1", "2", "3"}
	if rng.IntN(3) == 0 { // two addresses are exchanged
		i, j := rng.IntN(3), rng.IntN(3)
		last[i], last[j] = last[j], last[i]
	}
	for i, name := range []string{"way1", "way2", "way3"} {
		e := &dataplane.Endpoint{
			Interface: name, Addresses: nfttest.Addresses("10.0.0."+last[i], "fd00::"+last[i]), Down: rng.IntN(5) == 0,
		}
		if rng.IntN(4) > 0 {
			e.Profiles = []string{"all"}
		}
		if rng.IntN(6) > 0 {
			s.Endpoints[nfttest.EndpointKey(name)] = e
		}
		if bridge := []string{"", "br0", "br0", "br1"}[rng.IntN(4)]; bridge != "" {
			of[name] = bridge
		}
	}
	sc := scenario{
		Config:  render.Config{Classes: classes, Bridges: nfttest.Bridges(), AllowDHCP: true},
		Batches: []dataplane.Batch{nfttest.Transition(s)}, Ports: of,
	}
	table, errs := sc.rendered(t)
	require.Empty(t, errs)
	return table, last
}

// bridgePackets returns packets between all interfaces and addresses that a hook may see.
func bridgePackets(hook ruleset.HookPoint) (out []simPacket) {
	const host4, host6 = "10.0.0.254", "fd00::254"
	places := []string{"way1", "way2", "way3", "br0", "br1", "eth0"}
	from, to := places, places
	switch hook {
	case ruleset.Input:
		to = []string{""}
	case ruleset.Output:
		from = []string{""}
	}
	families := [][]string{
		{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.77"}, {"fd00::1", "fd00::2", "fd00::3", "fe80::7"},
	}
	for family, addresses := range families {
		sources, targets := addresses, addresses
		switch host := []string{[]string{host4, host6}[family]}; hook {
		case ruleset.Input:
			targets = host
		case ruleset.Output:
			sources = host
		}
		for _, src := range sources {
			for _, dst := range targets {
				for _, iif := range from {
					for _, oif := range to {
						for _, state := range []uint32{ruleset.CtNew, ruleset.CtEstablished} {
							out = append(out, tcpPacket(iif, src, oif, dst, state))
						}
						if family == 1 {
							nd := ndPacket(iif, src, oif, 135)
							nd.Dst = netip.MustParseAddr(dst)
							out = append(out, nd)
						}
					}
				}
			}
		}
	}
	return slices.Clip(out)
}
