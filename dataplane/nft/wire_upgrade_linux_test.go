// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// earlier is an earlier version of the library. Its tables differ from today's.
type earlier struct {
	name string
	// epoch is set if the table has an epoch.
	epoch bool
	// chains and sets map prefixes of today's names to the earlier prefixes.
	chains, sets map[string]string
}

func earlierVersions() []earlier {
	chains := map[string]string{"to/": "receives/", "from/": "sends/", "pol-": "policy-", "group-": "of-group-"}
	sets := map[string]string{
		"class": "classes", "gc-": "group-", "s4-": "addresses-", "receivers": "to-interface",
		"senders": "from-interface", "endpoints": "interfaces",
	}
	bases := map[string]string{"forward": "policy-forward", "to/": "receives/"}
	return []earlier{
		{name: "other chains and sets", epoch: true, chains: chains, sets: sets},
		{name: "no epoch, other chains", chains: chains},
		{name: "no epoch, other sets", sets: sets},
		{name: "no epoch, other base chains", chains: bases},
	}
}

// S173: a new version replaces the table of an earlier one, which has no owner, or one that has
// ended. Each denies the flood: the earlier one at the receiver, and the new one at the sender.
func TestWireEarlierVersion(t *testing.T) { nfttest.EachForm(t, testWireEarlierVersion) }

func testWireEarlierVersion(t *testing.T, classes render.ClassesConfig) {
	cfg := render.Config{Classes: classes}
	before := withoutPolicy(bothWays(others(), members(floodSource(0).String())), "sends", "way1")
	after := withoutPolicy(bothWays(members(floodTarget(0).String()), others()), "receives", "way2")
	for _, v := range earlierVersions() {
		for owner, owned := range map[string]bool{"no owner": false, "a dead owner": true} {
			t.Run(v.name+", "+owner, func(t *testing.T) {
				n := newFloodNet(t, 0)
				sent, changes := 0, wireRounds(5, 500)
				for range changes {
					writeTable(t, n.node, v.table(t, cfg, before), owned)
					next, err := nft.New(onFastPath(nft.Config{Renderer: cfg, NetNS: n.node.FD()}))
					require.NoError(t, err)
					sent += n.during(t, func() {
						require.NoError(t, next.Apply(t.Context(), nfttest.Transition(after)))
					})
					drained(t)
					require.NoError(t, next.Teardown(t.Context()))
					require.NoError(t, next.Close())
				}
				forbidden, allowed := n.arrived(t)
				t.Logf("%d changes, %d packets of each kind: %d forbidden ones passed, %d allowed ones were lost",
					changes, sent, forbidden, sent-allowed)
				require.Zero(t, forbidden, "forbidden packets that passed")
			})
		}
	}
}

// writeTable writes a table as an earlier process left it.
func writeTable(t *testing.T, ns *netns.NS, table *ruleset.Table, owned bool) {
	t.Helper()
	a, err := applier.New(applier.Config{Name: table.Name, NetNS: ns.FD(), Shared: !owned})
	require.NoError(t, err)
	require.NoError(t, a.Apply(t.Context(), table))
	nstest.SkipUnlessOwned(t, !owned || a.Stats().Owned)
	require.NoError(t, a.Close())
}

// table returns the version's table in a state. A packet needs some time between the policy of the
// sender and that of the receiver.
func (v earlier) table(t *testing.T, cfg render.Config, s dptest.State) *ruleset.Table {
	t.Helper()
	today, errs := nfttest.Rendered(t, cfg, nfttest.Transition(s))
	require.Empty(t, errs)
	slow := &ruleset.Chain{Name: "slow", Rules: slices.Repeat([]ruleset.Rule{
		build.When(ruleset.Verdict{Kind: ruleset.Drop}, build.InSet("none", ruleset.NFProto)),
	}, 100)}
	none := &ruleset.Set{Name: "none", Key: []ruleset.Type{ruleset.TypeNFProto}}
	out := &ruleset.Table{
		Family: today.Family, Name: today.Name, Sets: []*ruleset.Set{none}, Chains: []*ruleset.Chain{slow},
	}
	for _, set := range today.Sets {
		if v.epoch || set.Name != "epoch" {
			out.Sets = append(out.Sets, v.set(set))
		}
	}
	for _, chain := range today.Chains {
		if !v.epoch && strings.HasSuffix(chain.Name, "-again") {
			continue
		}
		c := &ruleset.Chain{Name: earlierName(chain.Name, v.chains), Hook: chain.Hook}
		for _, r := range chain.Rules {
			if !v.epoch && slices.ContainsFunc(r.Matches, isEpoch) && strings.HasPrefix(chain.Name, "host-") {
				continue // it handles stale packets
			}
			if last := r.Statements[len(r.Statements)-1]; chain.Name == "forward" && last == build.Jump("receiver") {
				wait := ruleset.Rule{Statements: []ruleset.Statement{build.Jump(slow.Name)}}
				c.Rules = append(c.Rules, slices.Repeat([]ruleset.Rule{wait}, 20)...)
			}
			c.Rules = append(c.Rules, v.rule(r))
		}
		out.Chains = append(out.Chains, c)
	}
	out.Normalize()
	require.NoError(t, out.Validate())
	return out
}

// set returns the version's form of a set.
func (v earlier) set(today *ruleset.Set) *ruleset.Set {
	out := *today
	out.Name, out.Elements = earlierName(today.Name, v.sets), slices.Clone(today.Elements)
	for i, el := range out.Elements {
		if el.Verdict != nil {
			verdict := *el.Verdict
			verdict.Chain = earlierName(verdict.Chain, v.chains)
			out.Elements[i].Verdict = &verdict
		}
	}
	return &out
}

// rule returns the version's form of a rule.
func (v earlier) rule(today ruleset.Rule) ruleset.Rule {
	out := ruleset.Rule{Comment: today.Comment, Statements: slices.Clone(today.Statements)}
	for _, m := range today.Matches {
		if !v.epoch && isEpoch(m) {
			continue
		}
		if in, ok := m.(ruleset.Lookup); ok {
			in.Set = earlierName(in.Set, v.sets)
			m = in
		}
		out.Matches = append(out.Matches, m)
	}
	for i, s := range out.Statements {
		switch s := s.(type) {
		case ruleset.Verdict:
			s.Chain = earlierName(s.Chain, v.chains)
			out.Statements[i] = s
		case ruleset.VMap:
			s.Map = earlierName(s.Map, v.sets)
			out.Statements[i] = s
		case ruleset.Assign:
			s.Map = earlierName(s.Map, v.sets)
			out.Statements[i] = s
		}
	}
	return out
}

func isEpoch(m ruleset.Match) bool {
	in, ok := m.(ruleset.Lookup)
	return ok && in.Set == "epoch"
}

// earlierName returns a name with its earlier prefix.
func earlierName(name string, prefixes map[string]string) string {
	for today, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(name, today); ok {
			return prefix + rest
		}
	}
	return name
}
