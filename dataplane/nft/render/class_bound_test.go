// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// The cost of a group has the rules that are not plain once for each class that they match.
// Otherwise, n overlapping sets could make n outcomes of n/2 rules each.
func TestOutcomesAreBounded(t *testing.T) {
	const sets = 60
	p := newPlayer(t, render.Config{Classes: render.ClassesConfig{MaxPerGroup: 2000}})
	source := func(i int, ports ...policy.Port) dataplane.Event {
		id := fmt.Sprintf("%d", i)
		e := fromIPSet(id, "s:"+id)
		e.Policy.Ingress[0].Source.Ports = ports
		return e
	}
	var events []dataplane.Event
	var names []string
	for i := range sets {
		var members []string
		for host := range i + 1 {
			members = append(members, fmt.Sprintf("10.0.0.%d/32", host+1))
		}
		names = append(names, fmt.Sprintf("%d", i))
		events = append(events, prefixSet("s:"+names[i], members...), source(i, policy.PortNumber(1000+uint16(i))))
	}
	p.flush(append(events, classSubject("way0", names...))...)
	require.Equal(t, 1, p.r.ClassStats().ChainGroups)
	table, errs := p.r.Table()
	require.Empty(t, errs)
	rules := 0
	for _, c := range table.Chains {
		rules += len(c.Rules)
	}
	require.Less(t, rules, 7*sets)

	// Without ports, the rules need one list for each class, however many rules there are.
	events = nil
	for i := range sets {
		events = append(events, source(i))
	}
	p.flush(events...)
	require.Zero(t, p.r.ClassStats().ChainGroups)
	p.flush(source(0, policy.PortNumber(1)), source(1, policy.PortNumber(2)))
	require.Zero(t, p.r.ClassStats().ChainGroups)
}

// Each combination of ports is an outcome with its own list of ports, which needs much more kernel
// memory than an element. The cost has equal outcomes once. Outcomes that need no more than the
// rules cost nothing.
func TestOutcomesOfPortsAreBounded(t *testing.T) {
	const n = 8
	p := newPlayer(t, render.Config{Classes: render.ClassesConfig{MaxPerGroup: 5000}})
	p.flush(nfttest.BitWorld(n, func(i int) uint16 { return uint16(1000 + 2*i) })...)
	stats := p.r.ClassStats()
	require.Equal(t, 1, stats.ChainGroups)
	require.Greater(t, stats.Chains[0].Cost, 30*(1<<n))
	require.Less(t, stats.Chains[0].Cost, 60*(1<<n))

	p.flush(nfttest.BitWorld(n, func(int) uint16 { return 1000 })...)
	require.Zero(t, p.r.ClassStats().ChainGroups)
	require.Equal(t, 3*(1<<n-1), p.r.ClassStats().Cost) // classes, and elements of outcomes

	// There are as many outcomes as rules, with one list each.
	q := newPlayer(t, render.Config{Classes: render.ClassesConfig{MaxPerGroup: 50 * 3}})
	var events []dataplane.Event
	var names []string
	for i := range 50 {
		id := fmt.Sprint(i)
		e := fromIPSet(id, "s:"+id)
		e.Policy.Ingress[0].Protocol = policy.ProtocolTCP
		e.Policy.Ingress[0].Destination.Ports = []policy.Port{
			policy.PortNumber(uint16(1000 + 4*i)), policy.PortNumber(uint16(1002 + 4*i)),
		}
		events = append(events, prefixSet("s:"+id, fmt.Sprintf("10.0.0.%d/32", i+1)), e)
		names = append(names, id)
	}
	q.flush(append(events, classSubject("way0", names...))...)
	require.Zero(t, q.r.ClassStats().ChainGroups)
	require.Equal(t, 50*3, q.r.ClassStats().Cost)
}

// Rules that match no address make chains larger, but no outcome. So they change the cost of a
// group, although they change none of its classes.
func TestRulesWithoutAddressesAffectCost(t *testing.T) {
	p := newPlayer(t, render.Config{})
	never := fromIPSet("0never", "s:never")
	for i := range 19 {
		r := never.Policy.Ingress[0]
		r.ID = fmt.Sprint("never-", i)
		never.Policy.Ingress = append(never.Policy.Ingress, r)
	}
	events := nfttest.BitWorld(3, func(i int) uint16 { return uint16(1000 + 2*i) })
	names := []string{"0", "1", "2", "0never"}
	p.flush(append(events, prefixSet("s:never"), never, classSubject("way0", names...))...)
	// 7 classes, outcomes with 3 single ports, 3 lists of two and one of three; 3 rules, and 20
	// with a list.
	const outcomes = 3*4 + 3*(4+32+2) + (4 + 32 + 3)
	const classes = 7 + 7*2 // classes, and the elements of their outcomes
	require.Equal(t, classes+outcomes-3*4-(20*4+32+20), p.r.ClassStats().Cost)
	for n := 1; n <= 3; n++ { // edits that keep all peers
		edited := &dataplane.PolicyUpdate{Key: never.Key, Policy: &dataplane.Policy{}}
		for _, r := range never.Policy.Ingress {
			r.Protocol = policy.ProtocolTCP
			for port := range n {
				r.Destination.Ports = append(r.Destination.Ports, policy.PortNumber(uint16(1+2*port)))
			}
			edited.Policy.Ingress = append(edited.Policy.Ingress, r)
		}
		p.flush(edited)
		require.Equal(t, max(classes, classes+outcomes-3*4-(20*4+32+20*n)), p.r.ClassStats().Cost)
	}
	p.flush(&dataplane.PolicyUpdate{Key: never.Key, Policy: &dataplane.Policy{}})
	require.Equal(t, classes+outcomes-3*4, p.r.ClassStats().Cost)
}

// An edit of one address of a group at its limit recomputes only this address, whether the group is
// lookups or chains.
func TestEditAtTheLimitIsSmall(t *testing.T) {
	const n = 10
	port := func(i int) uint16 { return uint16(1000 + 2*i) }
	address := hostMember(netip.MustParseAddr("10.0.0.1"))
	edits := []dataplane.Event{
		&dataplane.IPSetDelta{ID: "s:1", Added: []dataplane.Member{address}},
		&dataplane.IPSetDelta{ID: "s:1", Removed: []dataplane.Member{address}},
	}
	for name, c := range map[string]struct {
		limit, chains int
	}{"under": {1 << 20, 0}, "over": {1000, 1}} {
		t.Run(name, func(t *testing.T) {
			r, err := render.New(render.Config{Classes: render.ClassesConfig{MaxPerGroup: c.limit}})
			require.NoError(t, err)
			r.Update(dataplane.Batch{Events: nfttest.BitWorld(n, port)})
			r.Flush()
			require.Equal(t, c.chains, r.ClassStats().ChainGroups)
			i := 0
			allocs := testing.AllocsPerRun(100, func() {
				r.Update(dataplane.Batch{Events: edits[i%2 : i%2+1]})
				d := r.Flush()
				i++
				elements := 0
				for _, e := range d.Elements {
					elements += len(e.Add) + len(e.Delete) + len(e.Early) + len(e.Late)
				}
				require.Positive(t, elements)
				require.LessOrEqual(t, elements, 4)
				require.Empty(t, d.Sets)
				require.LessOrEqual(t, len(d.Chains)+len(d.DeleteChains), 3)
			})
			require.Less(t, allocs, 600.0)
			t.Logf("%.0f allocations", allocs)
		})
	}
}

// As chains, groups share the rules of a policy, but each outcome has its own rules. So the cost of
// each group has the rules that it shares with others.
func TestOutcomesOfSharedPoliciesAreBounded(t *testing.T) {
	const groups, shared = 50, 200
	p := newPlayer(t, render.Config{Classes: render.ClassesConfig{MaxTotal: 4000}})
	common := fromIPSet("common", "s:1")
	for i := range uint16(shared) {
		rule := common.Policy.Ingress[0]
		rule.Protocol, rule.Source.Ports = policy.ProtocolTCP, []policy.Port{policy.PortNumber(i)}
		rule.Destination.Ports = []policy.Port{policy.PortNumber(i)}
		common.Policy.Ingress = append([]dataplane.Rule{rule}, common.Policy.Ingress...)
	}
	events := []dataplane.Event{prefixSet("s:1", "10.0.0.1/32"), common}
	for i := range groups {
		own := fromIPSet(fmt.Sprint(i), "s:1")
		own.Policy.Ingress[0].Action = policy.Deny
		own.Policy.Ingress[0].Protocol = policy.Protocol(i + 1)
		events = append(events, own, classSubject(fmt.Sprint("way", i), own.Key.Name, "common"))
	}
	p.flush(events...)
	table, errs := p.r.Table()
	require.Empty(t, errs)
	rules := 0
	for _, c := range table.Chains {
		rules += len(c.Rules)
	}
	require.Less(t, rules, 5000, "cost %d", p.r.ClassStats().Cost)
}

// Each outcome of a group has an element, also if all outcomes have the same rules. Groups of
// workloads share the elements, so the total has these once. Groups of host endpoints have their
// own.
func TestCostHasElementsOfOutcomes(t *testing.T) {
	const groups, classes = 20, 7
	p := newPlayer(t, render.Config{})
	events := nfttest.BitWorld(3, func(int) uint16 { return 1000 })
	for i := range groups {
		own := fmt.Sprint("own", i)
		events = append(events, &dataplane.PolicyUpdate{Key: classPolicy(own), Policy: &dataplane.Policy{}},
			classSubject(fmt.Sprint("way", i), own, "0", "1", "2"))
	}
	p.flush(events...)
	require.Equal(t, groups*classes+2*classes, p.r.ClassStats().Cost)
	require.Equal(t, classes+2*classes, p.r.ClassStats().Largest.Cost)

	for i := range groups {
		tier := classSubject("", fmt.Sprint("own", i), "0", "1", "2").Endpoint.Ingress
		name := fmt.Sprint("eth", i)
		p.flush(&dataplane.HostEndpointUpdate{
			Key:          policy.Key{Kind: policy.KindHostEndpoint, Name: name},
			HostEndpoint: &dataplane.HostEndpoint{Interface: name, Ingress: tier},
		})
	}
	require.Equal(t, groups*classes+2*classes+3*groups*classes, p.r.ClassStats().Cost)
	table, errs := p.r.Table()
	require.Empty(t, errs)
	elements := 0
	for _, s := range table.Sets {
		if strings.HasPrefix(s.Name, "go-") || strings.HasPrefix(s.Name, "outcomes-") {
			elements += len(s.Elements)
		}
	}
	require.Equal(t, classes+groups*classes, elements)

	for i := range groups { // the total has no cost of removed groups
		p.flush(&dataplane.EndpointRemove{Key: nfttest.EndpointKey(fmt.Sprint("way", i))})
	}
	require.Equal(t, 3*groups*classes, p.r.ClassStats().Cost)
}
