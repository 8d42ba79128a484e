// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// plainWriter is a Writer whose plain rules are verdicts. Other rules have no text.
type plainWriter struct{}

func (plainWriter) Rule(match.List, *match.Merged, string) ([]ruleset.Rule, []*ruleset.Chain, error) {
	return nil, nil, nil
}
func (plainWriter) Target(rule *match.Merged) ruleset.Verdict { return build.Goto(rule.ID) }
func (plainWriter) Allow() []ruleset.Statement                { return []ruleset.Statement{build.Return()} }
func (plainWriter) Deny() ruleset.Verdict                     { return build.Drop() }
func (plainWriter) Denial(reason string) ruleset.Rule {
	return build.Commented(build.Always(build.Drop()), reason)
}

func (plainWriter) Call(chain string) []ruleset.Rule {
	return []ruleset.Rule{build.Always(build.Jump(chain))}
}

func newTestLookups(eachRule bool) *Lookups { return newLookupsWithNumbers(eachRule, nil) }

// newLookupsWithNumbers returns Lookups with another Config.OutcomeNumber.
func newLookupsWithNumbers(eachRule bool, number func(hash uint32) uint32) *Lookups {
	return New(Config{
		MaxPerGroup: 1 << 20, MaxTotal: 1 << 20, EachRule: eachRule, Chains: sets.NewChains(), Writer: plainWriter{},
		OutcomeNumber: number,
		TierHash:      func(spec dataplane.TierPolicies) string { return fmt.Sprint(spec) },
		Changed:       func(any) {},
	})
}

// randomPolicy returns a policy whose peers are of a few overlapping prefixes of both families.
func randomPolicy(rng *rand.Rand) *dataplane.Policy {
	var nets []netip.Prefix
	for _, s := range []string{
		"10.0.0.0/8", "10.0.0.0/9", "10.0.1.0/24", "10.0.1.7/32", "fd00::/16", "fd00:1::/32", "fd00:1::7/128",
	} {
		nets = append(nets, netip.MustParsePrefix(s))
	}
	some := func() (out []netip.Prefix) {
		for range rng.IntN(3) {
			out = append(out, nets[rng.IntN(len(nets))])
		}
		return out
	}
	p := &dataplane.Policy{}
	for i := range rng.IntN(4) {
		r := randomPlainRule(rng)
		r.ID = fmt.Sprint(i, rng.IntN(9))
		r.Source.Nets, r.Source.NotNets = some(), some()
		if rng.IntN(4) == 0 { // not plain
			r.Source.Ports = randomPorts(rng)
		}
		p.Ingress = append(p.Ingress, r)
	}
	return p
}

// editPolicy returns a policy with other actions, ports or IDs for the same peers. Sometimes a rule
// becomes plain, or is no longer plain.
func editPolicy(rng *rand.Rand, p *dataplane.Policy) *dataplane.Policy {
	out := &dataplane.Policy{Ingress: slices.Clone(p.Ingress)}
	for i := range out.Ingress {
		if rng.IntN(2) == 0 {
			continue
		}
		was := out.Ingress[i]
		r := randomPlainRule(rng)
		r.ID, r.Source = was.ID, was.Source
		switch rng.IntN(6) {
		case 0:
			r.Source.Ports = randomPorts(rng)
		case 1:
			r.Source.Ports = nil
		case 2:
			r = was
			r.ID += "'"
		}
		out.Ingress[i] = r
	}
	return out
}

// The key of an outcome determines its chains. In random worlds, after each edit, every class of
// every group has the chains of its current rules, whichever group was computed last.
func TestOutcomeDeterminesChains(t *testing.T) {
	kept, edited := 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 8))
		var number func(hash uint32) uint32 // few numbers, so that outcomes collide
		if seed%2 == 0 {
			number = func(hash uint32) uint32 { return firstOutcome | hash%149 }
		}
		l := newLookupsWithNumbers(seed%3 == 0, number)
		key := func(i int) policy.Key { return policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint("p", i)} }
		profile := func(i int) policy.Key { return policy.Key{Kind: policy.KindProfile, Name: fmt.Sprint("q", i)} }
		policies := map[int]*dataplane.Policy{}
		set := func(i int) {
			p := randomPolicy(rng)
			if was := policies[i]; was != nil && rng.IntN(4) > 0 {
				p = editPolicy(rng, was)
			}
			policies[i] = p
			l.SetPolicy(&match.Owner{Key: key(i), Policy: p})
			l.SetPolicy(&match.Owner{Key: profile(i % 2), Profile: &dataplane.Profile{Ingress: p.Ingress}})
		}
		for i := range 6 {
			set(i)
		}
		for user := range 12 {
			p := Policy{
				List: match.List{Dir: match.Ingress}, Rest: policy.Deny, Return: rng.IntN(3) > 0,
				Profiles: []string{fmt.Sprint("q", rng.IntN(2))},
			}
			if rng.IntN(4) == 0 {
				p.Rest, p.Return = policy.Allow, false
			}
			for tier, first := range []int{0, 3} {
				spec := dataplane.TierPolicies{Tier: fmt.Sprint("t", tier), DefaultAction: policy.Deny}
				if rng.IntN(2) == 0 {
					spec.DefaultAction = policy.Pass
				}
				for i := range 3 {
					if rng.IntN(2) == 0 {
						spec.Policies = append(spec.Policies, key(first+i))
					}
				}
				if len(spec.Policies) > 0 {
					p.Tiers = append(p.Tiers, spec)
				}
			}
			l.Join(user, p)
		}
		before := map[*Group]map[string]string{}
		for range 12 {
			l.Update()
			l.Flush(&ruleset.Delta{})
			for _, g := range l.groups {
				now := map[string]string{}
				for c, state := range g.classes {
					var keys outcomeKeys
					l.outcomes.steps(g, c, &keys)
					require.Equal(t, keys.rules.String(), state.outcome.key, "seed %d", seed)
					require.Equal(t, keys.id(c.Family()), state.outcome.Content(), "seed %d", seed)
					require.Equal(t, state.outcome.chain, chainOf(g, state.outcome), "seed %d", seed)
					require.Contains(t, g.classMap.Kernel().Elements, classElement(c, state.outcome), "seed %d", seed)
					now[c.Content()] = state.outcome.Content() + state.outcome.key
					if was := before[g][c.Content()]; was != "" && was != now[c.Content()] {
						if edited++; strings.HasPrefix(was, state.outcome.Content()) {
							kept++
						}
					}
				}
				for i, none := range l.none() {
					var keys outcomeKeys
					l.outcomes.steps(g, none, &keys)
					require.Equal(t, keys.rules.String(), g.others[i].key, "seed %d", seed)
				}
				before[g] = now
			}
			require.Len(t, l.outcomes.byID, l.outcomes.numbers.Len())
			requireChains(t, l, seed)
			requireElements(t, l, seed)
			for range 1 + rng.IntN(3) {
				set(rng.IntN(6))
			}
		}
		for user := range 12 {
			for _, g := range l.groups {
				if _, uses := g.users[user]; uses {
					l.Leave(user, g)
				}
			}
		}
		l.Update()
		require.Empty(t, l.outcomes.byID, "seed %d", seed)
		require.Empty(t, l.outcomes.byKey, "seed %d", seed)
		require.Empty(t, l.maps[match.Ingress].set.Kernel().Elements, "seed %d", seed)
	}
	require.Greater(t, edited, 1000)
	require.Greater(t, kept, 1000)
}

// requireChains fails if the table lacks the chain of an outcome, or has another chain of a group
// than it should have.
func requireChains(t *testing.T, l *Lookups, seed uint64) {
	t.Helper()
	chains := map[string]*ruleset.Chain{}
	for _, c := range l.cfg.Chains.AllChains() {
		chains[c.Name] = c
	}
	for _, g := range l.groups {
		require.True(t, chains[g.chain()].Equal(l.cfg.Chains.Named(g.rules())), "seed %d", seed)
	}
	for _, o := range l.outcomes.byID {
		require.Contains(t, chains, o.chain, "seed %d", seed)
	}
}

// requireElements fails if the costs of groups count other elements of outcomes than their maps
// have.
func requireElements(t *testing.T, l *Lookups, seed uint64) {
	t.Helper()
	counted := map[*chainMap]map[uint64]*outcome{}
	for _, g := range l.groups {
		if counted[g.chains] == nil {
			counted[g.chains] = map[uint64]*outcome{}
		}
		for _, state := range g.classes {
			if o := counted[g.chains][state.hash.id]; o != nil {
				require.Same(t, o, state.outcome, "seed %d", seed)
			}
			counted[g.chains][state.hash.id] = state.outcome
			require.Contains(t, g.cost.elements.of, state.hash.id, "seed %d", seed)
		}
	}
	elements := 0
	for chains, ids := range counted {
		require.Equal(t, chains.set.Len(), len(ids), "seed %d", seed)
		elements += len(ids)
	}
	require.Equal(t, elements*elementCost, l.indexes.all.elements.sum, "seed %d", seed)
}

// chainOf returns the chain that the element of an outcome leads to in the map of its group.
func chainOf(g *Group, o *outcome) string {
	for _, e := range g.chains.set.Kernel().Elements {
		if string(e.Key[0]) == string(ruleset.Uint32(o.Number())) {
			return e.Verdict.Chain
		}
	}
	return ""
}

// An edit of the ports of a policy that many groups have changes one element, and no class.
func TestEditOfPortsChangesOneElement(t *testing.T) {
	l := newTestLookups(false)
	edit := func(port uint16) ruleset.Delta {
		r := dataplane.Rule{ID: "r", Action: policy.Allow, Protocol: policy.ProtocolTCP}
		r.Source.Nets = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		r.Destination.Ports = []policy.Port{policy.PortRange(port, port)}
		key := policy.Key{Kind: policy.KindPolicy, Name: "shared"}
		l.SetPolicy(&match.Owner{Key: key, Policy: &dataplane.Policy{Ingress: []dataplane.Rule{r}}})
		var d ruleset.Delta
		l.Update()
		l.Flush(&d)
		return d
	}
	for i := range 50 {
		own := policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint("own", i)}
		l.SetPolicy(&match.Owner{Key: own, Policy: &dataplane.Policy{}})
		l.Join(i, Policy{
			List: match.List{Dir: match.Ingress}, Rest: policy.Deny, Return: true,
			Tiers: []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{
				own, {Kind: policy.KindPolicy, Name: "shared"},
			}}},
		})
	}
	require.Len(t, edit(80).Sets, 50+1+2) // a map for each group, the classes, and the outcomes
	d := edit(443)
	require.Empty(t, d.Sets)
	require.Len(t, d.Elements, 1)
	require.Equal(t, "outcomes-ingress", d.Elements[0].Set)
	require.Len(t, d.Elements[0].Add, 1)
	require.Empty(t, d.Elements[0].Early)
}

// A group that is removed and added again between two flushes changes nothing in the kernel. This
// holds for a group with the shared map, and for a group with a map of its own. A bad chain affects
// the group if one of its classes leads there.
func TestGroupRemovedAndAddedAgainChangesNothing(t *testing.T) {
	for _, returns := range []bool{true, false} {
		l := newTestLookups(false)
		r := dataplane.Rule{ID: "r", Action: policy.Allow, Protocol: policy.ProtocolTCP}
		r.Source.Nets = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		key := policy.Key{Kind: policy.KindPolicy, Name: "p"}
		l.SetPolicy(&match.Owner{Key: key, Policy: &dataplane.Policy{Ingress: []dataplane.Rule{r}}})
		p := Policy{
			List: match.List{Dir: match.Ingress}, Rest: policy.Deny, Return: returns,
			Tiers: []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}},
		}
		g := l.Join("e", p)
		l.Update()
		l.Flush(&ruleset.Delta{})
		require.Len(t, g.classes, 1)
		for _, state := range g.classes {
			require.NotEqual(t, g.others[0].chain, state.outcome.chain)
			require.True(t, g.Affected(func(chain string) bool { return chain == state.outcome.chain }))
		}

		l.Leave("e", g)
		l.Join("e", p)
		l.Update()
		var d ruleset.Delta
		l.Flush(&d)
		require.Equal(t, ruleset.Delta{}, d, "returns %v", returns)
	}
}

// When two outcomes collide, all elements are written again. Elements of the shared maps are
// written once and not for each group: with a thousand groups, that took more than a minute.
func TestRenumberWritesSharedMapsOnce(t *testing.T) {
	allocations := func(groups int) float64 {
		l := newTestLookups(false)
		for i := range groups {
			own := policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint("own", i)}
			r := dataplane.Rule{ID: "r", Action: policy.Allow, Protocol: policy.ProtocolTCP}
			r.Source.Nets = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
			l.SetPolicy(&match.Owner{Key: own, Policy: &dataplane.Policy{Ingress: []dataplane.Rule{r}}})
			l.Join(i, Policy{
				List: match.List{Dir: match.Ingress}, Rest: policy.Deny, Return: true,
				Tiers: []dataplane.TierPolicies{{
					Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{own},
				}},
			})
		}
		l.Update()
		require.Equal(t, groups, l.maps[match.Ingress].set.Len())
		return testing.AllocsPerRun(1, l.renumber)
	}
	require.Less(t, allocations(200), 6*allocations(50)) // four times as many groups
}
