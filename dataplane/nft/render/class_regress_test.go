// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// player is a Renderer and the state of the kernel.
type player struct {
	t      *testing.T
	r      *render.Renderer
	kernel *ruleset.State
}

func newPlayer(t *testing.T, cfg render.Config) *player {
	r, err := render.New(cfg)
	require.NoError(t, err)
	return &player{t, r, ruleset.NewState(ruleset.FamilyINet, "wayleave")}
}

func (p *player) update(events ...dataplane.Event) { p.r.Update(dataplane.Batch{Events: events}) }

// flush returns the number of operations of the change.
func (p *player) flush(events ...dataplane.Event) int {
	p.t.Helper()
	p.update(events...)
	change, err := p.kernel.Prepare(p.r.Flush())
	require.NoError(p.t, err)
	p.kernel.Commit(change)
	table, _ := p.r.Table()
	require.Equal(p.t, table.String(), p.kernel.Table().String())
	return len(change.Ops)
}

func classPolicy(name string) policy.Key { return policy.Key{Kind: policy.KindPolicy, Name: name} }

// fromIPSet returns a policy that allows ingress from one set.
func fromIPSet(name, id string, more ...dataplane.Rule) *dataplane.PolicyUpdate {
	rule := dataplane.Rule{ID: name, Action: policy.Allow, Source: dataplane.Match{
		Sets: []dataplane.IPSetID{dataplane.IPSetID(id)},
	}}
	return &dataplane.PolicyUpdate{Key: classPolicy(name), Policy: &dataplane.Policy{
		Ingress: append([]dataplane.Rule{rule}, more...),
	}}
}

func prefixSet(id string, members ...string) *dataplane.IPSetUpdate {
	e := &dataplane.IPSetUpdate{ID: dataplane.IPSetID(id)}
	for _, m := range members {
		e.Members = append(e.Members, dataplane.Member{Prefix: netip.MustParsePrefix(m)})
	}
	return e
}

func classSubject(name string, policies ...string) *dataplane.EndpointUpdate {
	tier := dataplane.TierPolicies{Tier: "t", DefaultAction: policy.Deny}
	for _, p := range policies {
		tier.Policies = append(tier.Policies, classPolicy(p))
	}
	return &dataplane.EndpointUpdate{Key: nfttest.EndpointKey(name), Endpoint: &dataplane.Endpoint{
		Interface: name, Addresses: nfttest.Addresses("10.9.0.1"), Ingress: []dataplane.TierPolicies{tier},
	}}
}

// A group over the limit has lookups again as soon as another group is removed, without any other
// change.
func TestGroupReturnsToLookups(t *testing.T) {
	p := newPlayer(t, render.Config{Classes: render.ClassesConfig{MaxTotal: 7}})
	p.flush(
		prefixSet("s:a", "10.0.0.1/32"), prefixSet("s:b", "10.0.0.2/32"), fromIPSet("a", "s:a"), fromIPSet("b", "s:b"),
		classSubject("way0", "a", "b"), classSubject("way1", "b", "a"),
	)
	require.Equal(t, 1, p.r.ClassStats().ChainGroups)
	p.flush(&dataplane.EndpointRemove{Key: nfttest.EndpointKey("way0")})
	require.Zero(t, p.r.ClassStats().ChainGroups)
	p.flush(classSubject("way0", "a", "b"))
	require.Equal(t, 1, p.r.ClassStats().ChainGroups)
}

// A group whose policy cannot be rendered distinguishes no classes, until it can be rendered.
func TestGroupAtFault(t *testing.T) {
	p := newPlayer(t, render.Config{})
	p.flush(
		prefixSet("s:a", "10.0.0.1/32"), fromIPSet("a", "s:a"), fromIPSet("b", "s:a"), classSubject("way0", "a", "b"),
	)
	require.Equal(t, 1, p.r.ClassStats().Elements)
	p.flush(&dataplane.PolicyRemove{Key: classPolicy("b")})
	require.Len(t, p.r.Errors(), 1)
	require.Zero(t, p.r.ClassStats().Elements)
	p.flush(prefixSet("s:a", "10.0.0.2/32", "10.0.1.0/24"))
	require.Zero(t, p.r.ClassStats().Elements)
	p.flush(fromIPSet("b", "s:a"))
	require.Empty(t, p.r.Errors())
	require.Equal(t, 1, p.r.ClassStats().Elements)
}

// When rules are in a chain again, the sets exist that they look up.
func TestRulesFindTheirSetsAgain(t *testing.T) {
	p := newPlayer(t, render.Config{Classes: nfttest.Chains()})
	pass := dataplane.Rule{ID: "pass", Action: policy.Pass} // its policy has no separate chain
	other := fromIPSet("b", "s:b")
	p.flush(
		prefixSet("s:a", "10.0.0.1/32"), prefixSet("s:b"), fromIPSet("a", "s:a", pass), other,
		classSubject("way0", "a", "b"),
	)
	p.flush(&dataplane.PolicyRemove{Key: classPolicy("b")})
	require.Nil(t, p.kernel.Set("s4-a"))
	p.flush(&dataplane.IPSetDelta{ID: "s:a", Added: []dataplane.Member{{Prefix: netip.MustParsePrefix("10.0.0.2/32")}}})
	p.flush(other)
	require.Equal(t, 2, p.kernel.Len("s4-a"))
}

// A set that is removed and added between two flushes is the same set, even if the table was read
// in between.
func TestSetRemovedAndAddedIsOneSet(t *testing.T) {
	p := newPlayer(t, render.Config{Classes: nfttest.Chains()})
	up := []dataplane.Event{prefixSet("s:a", "10.0.0.1/32"), fromIPSet("a", "s:a"), classSubject("way0", "a")}
	p.flush(up...)
	p.update(
		&dataplane.EndpointRemove{Key: nfttest.EndpointKey("way0")}, &dataplane.PolicyRemove{Key: classPolicy("a")},
		&dataplane.IPSetRemove{ID: "s:a"},
	)
	p.r.Table()
	require.Zero(t, p.flush(up...))
}

// A fault of rules that are never evaluated is not an error (S20, S38).
func TestUnevaluatedRulesHaveNoErrors(t *testing.T) {
	p := newPlayer(t, render.Config{})
	staged, before := fromIPSet("a", "s:never"), fromIPSet("b", "s:never")
	staged.Policy.Staged, before.Policy.PreDNAT = true, true
	before.Policy.Ingress, before.Policy.Egress = nil, before.Policy.Ingress
	p.flush(staged, before, classSubject("way0", "a"))
	require.Empty(t, p.r.Errors())
}

// A remote address that moves from one set to another changes one element and no chain.
func TestLabelChange(t *testing.T) {
	p := newPlayer(t, render.Config{})
	p.flush(
		prefixSet("s:a", "10.0.0.1/32", "10.0.0.2/32"), prefixSet("s:b", "10.0.0.3/32"), fromIPSet("a", "s:a"),
		fromIPSet("b", "s:b"), classSubject("way0", "a", "b"),
	)
	moved := []dataplane.Member{{Prefix: netip.MustParsePrefix("10.0.0.2/32")}}
	p.update(&dataplane.IPSetDelta{ID: "s:b", Added: moved}, &dataplane.IPSetDelta{ID: "s:a", Removed: moved})
	d := p.r.Flush()
	require.Empty(t, d.Chains)
	require.Empty(t, d.Sets)
	require.Len(t, d.Elements, 1)
	require.Len(t, d.Elements[0].Add, 1)
	require.Empty(t, d.Elements[0].Delete)
}

// A prefix that is added to a large set adds one range.
func TestPrefixChange(t *testing.T) {
	p := newPlayer(t, render.Config{})
	set := prefixSet("s:a")
	for i := range 1000 {
		set.Members = append(set.Members, dataplane.Member{
			Prefix: netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i/100, i%100*2)),
		})
	}
	p.flush(set, fromIPSet("a", "s:a"), classSubject("way0", "a"))
	p.update(&dataplane.IPSetDelta{ID: "s:a", Added: []dataplane.Member{{
		Prefix: netip.MustParsePrefix("10.200.0.0/24"),
	}}})
	d := p.r.Flush()
	require.Empty(t, d.Chains)
	require.Len(t, d.Elements, 1)
	require.Len(t, d.Elements[0].Add, 1)
	require.Empty(t, d.Elements[0].Delete)
}
