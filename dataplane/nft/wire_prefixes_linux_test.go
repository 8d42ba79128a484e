// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// The kernel commits elements of interval sets after the rest of a transaction. These tests change
// prefixes together with other objects, and check S173: no packet is lost that both states allow,
// and none passes that both forbid.

// wireRounds returns the number of changes that a test makes: of the daily sample, or of all with
// WIRE=whole. A short test makes at least two, to a state and back.
func wireRounds(sample, whole int) int {
	switch {
	case wireWhole():
		return whole
	case testing.Short():
		return min(sample, max(2, sample/5))
	default:
		return sample
	}
}

// during applies the states one by one, sends flows meanwhile, and returns how many were sent and
// how many arrived.
func (b *tracked) during(t *testing.T, rounds int, states []dptest.State, flows func() []wireFlow) (sent, arrived int) {
	t.Helper()
	for round := range rounds {
		next, done := states[round%len(states)], make(chan error, 1)
		batch := dptest.Transition(b.at, next)
		go func() { done <- b.plane.Apply(t.Context(), batch) }()
		for running := true; running; {
			for _, got := range b.volley(t, flows()) {
				if sent++; got {
					arrived++
				}
			}
			select {
			case err := <-done:
				require.NoError(t, err)
				running = false
			default:
			}
		}
		b.at = next
		b.resetConntrack(t)
	}
	return sent, arrived
}

// fresh returns new connections over UDP from one workload to others, with the families
// alternating.
func (b *tracked) fresh(count, from int, to ...int) (flows []wireFlow) {
	for range count {
		b.port++
		n := int(b.port)
		flows = append(flows, pairFlow(from, to[n/2%len(to)], n%2, verdict.Flow{
			Protocol: policy.ProtocolUDP, SrcPort: b.port, DstPort: 80,
		}))
	}
	return flows
}

// manyPrefixes returns disjoint prefixes of both families, different for each version, and the
// prefixes around the first workload.
func manyPrefixes(count, version int) dptest.Set {
	list := []string{
		netip.PrefixFrom(workloadAddrs(0)[0], 30).Masked().String(),
		netip.PrefixFrom(workloadAddrs(0)[1], 126).Masked().String(),
	}
	for i := range count / 2 {
		var four [4]byte
		var six [16]byte
		binary.BigEndian.PutUint32(four[:], 100<<24+uint32(2*i+version)<<4)
		copy(six[:], []byte{0x20, 1, 0xd, 0xb8, 7})
		binary.BigEndian.PutUint32(six[8:], uint32(2*i+version))
		list = append(list, fmt.Sprintf("%s/28", netip.AddrFrom4(four)), fmt.Sprintf("%s/96", netip.AddrFrom16(six)))
	}
	return nfttest.NetSet(list...)
}

// S173: up to 20,000 prefixes change with addresses and ports. Meanwhile no new connection is lost
// that both states allow. This holds for a workload whose policy uses the prefixes, and for one
// whose policy uses none of them. The sender's policy needs more chains than others, because a rule
// with Pass comes before one that cannot be part of a list of ports.
func TestWirePrefixesLoseNothing(t *testing.T) { nfttest.EachForm(t, testWirePrefixesLoseNothing) }

func testWirePrefixesLoseNothing(t *testing.T, classes render.ClassesConfig) {
	one := workloadAddrs(0)
	state := func(count, version int) dptest.State {
		s, tiers := denied(shop())
		s.Sets["s:nets"], s.Sets["s:one"] = manyPrefixes(count, version), members(one[0].String(), one[1].String())
		s.Sets["s:hosts"] = members(fmt.Sprintf("192.0.2.%d", 1+version), fmt.Sprintf("2001:db8:8::%d", 1+version))
		s.Policies[tiers[0].Policies[0]] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
			{ID: "hosts", Action: policy.Deny, Source: set("s:hosts")},
			{
				ID: "tcp", Action: policy.Deny, Protocol: policy.ProtocolTCP,
				Destination: dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(uint16(1 + version)))},
			},
			{ID: "nets", Action: policy.Allow, Source: set("s:nets")},
		}}
		key := policy.Key{Kind: policy.KindPolicy, Name: "without"}
		s.Policies[key] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{
			ID: "one", Action: policy.Allow, Source: set("s:one"),
		}}}
		s = edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = tiers })
		passes := policy.Key{Kind: policy.KindPolicy, Name: "passes"}
		s.Policies[passes] = &dataplane.Policy{Tier: "first", Egress: []dataplane.Rule{
			{ID: "pass", Action: policy.Pass, Protocol: policy.ProtocolUDP, Destination: port80()},
			{ID: "from", Action: policy.Allow, Protocol: policy.ProtocolTCP, Source: port80()},
		}}
		s = edit(s, "way1", func(e *dataplane.Endpoint) {
			e.Egress = []dataplane.TierPolicies{{
				Tier: "first", DefaultAction: policy.Deny, Policies: []policy.Key{passes},
			}}
		})
		without := []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
		return edit(s, "way3", func(e *dataplane.Endpoint) { e.Ingress = without })
	}
	for _, size := range []struct{ count, sample, whole int }{{40, 50, 500}, {3000, 20, 200}, {20_000, 4, 40}} {
		t.Run(fmt.Sprintf("%d prefixes", size.count), func(t *testing.T) {
			states := []dptest.State{state(size.count, 1), state(size.count, 0)}
			b := newTracked(t, classes, states[1])
			rounds := wireRounds(size.sample, size.whole)
			sent, arrived := b.during(t, rounds, states, func() []wireFlow { return b.fresh(64, 0, 1, 2) })
			t.Logf("%d changes, %d packets, %d lost", rounds, sent, sent-arrived)
			require.Equal(t, sent, arrived)
		})
	}
}

// S173: a rule denies an address and allows others. The address stays denied while a prefix
// replaces its full-length member, and while its prefix moves from one set or rule to another.
func TestWireDeniedPrefixMoves(t *testing.T) { nfttest.EachForm(t, testWireDeniedPrefixMoves) }

func testWireDeniedPrefixMoves(t *testing.T, classes render.ClassesConfig) {
	bad := workloadAddrs(0)
	host := members(bad[0].String(), bad[1].String())
	prefixes := nfttest.NetSet(
		netip.PrefixFrom(bad[0], 31).Masked().String(), netip.PrefixFrom(bad[1], 127).Masked().String(),
	)
	none := nfttest.NetSet("192.0.2.0/24", "2001:db8:9::/48")
	state := func(bad, worse dptest.Set, nets ...netip.Prefix) dptest.State {
		s, tiers := denied(shop())
		s.Sets["s:bad"], s.Sets["s:worse"] = bad, worse
		rules := []dataplane.Rule{{ID: "bad", Action: policy.Deny, Source: set("s:bad")}, {
			ID: "worse", Action: policy.Deny, Source: set("s:worse"),
		}}
		if len(nets) > 0 {
			rules = append(rules, dataplane.Rule{ID: "nets", Action: policy.Deny, Source: dataplane.Match{Nets: nets}})
		}
		s.Policies[tiers[0].Policies[0]] = &dataplane.Policy{
			Tier: "default", Ingress: append(rules, nfttest.AllowAll("rest")),
		}
		return edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = tiers })
	}
	for name, states := range map[string][]dptest.State{
		"full length and prefix":      {state(prefixes, none), state(host, none)},
		"full length and another set": {state(none, prefixes), state(host, none)},
		"from set to set":             {state(none, prefixes), state(prefixes, none)},
		"from set to rule": {
			state(none, none, prefixes.Members[0].Prefix, prefixes.Members[1].Prefix), state(prefixes, none),
		},
		"full length, prefixes and rules": {
			state(none, none, prefixes.Members[0].Prefix, prefixes.Members[1].Prefix), state(host, prefixes),
			state(prefixes, none),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTracked(t, classes, states[len(states)-1])
			flows := b.fresh(64, 0, 1)
			rounds := wireRounds(40, 1000) // 10,000 with all cases of lookups and of chains
			sent, leaked := b.during(t, rounds, states, func() []wireFlow { return flows })
			t.Logf("%d changes, %d packets, %d leaked", rounds, sent, leaked)
			require.Zero(t, leaked)
			_, arrived := b.during(t, 1, states[:1], func() []wireFlow { return b.fresh(64, 2, 1) })
			require.NotZero(t, arrived, "others are allowed")
		})
	}
}
