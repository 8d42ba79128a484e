// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

func ExampleGraph() {
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "web", Node: "n1", Interface: "wl1",
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Labels: map[string]string{"app": "web"},
	}
	deny := &policy.Policy{Namespace: "shop", Name: "deny-all", Selector: `app == "web"`}
	for _, r := range []policy.Resource{web, deny} {
		graph.Update(policy.Update{Key: r.Key(), Resource: r})
	}
	graph.InSync()
	for _, event := range graph.Flush().Events {
		fmt.Println(event)
	}
	// Output:
	// policy Policy/shop/deny-all tier default: no rules
	// endpoint WorkloadEndpoint/shop/web wl1 [10.0.0.1] ingress default:deny[Policy/shop/deny-all] egress - profiles []
	// route 10.0.0.1/32 local-workload node n1
	// in-sync
}

// printer prints the output of IPSets.
type printer struct{}

func (printer) IPSetAdded(id dataplane.IPSetID, _ dataplane.IPSetType) { fmt.Println("set added") }
func (printer) IPSetRemoved(id dataplane.IPSetID)                      { fmt.Println("set removed") }

func (printer) MemberChanged(id dataplane.IPSetID, m dataplane.Member, present bool) {
	fmt.Println(m, present)
}

// A program that only needs the addresses that match a selector uses IPSets alone.
func ExampleIPSets() {
	sets, err := calcgraph.NewIPSets(printer{})
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := calcgraph.SelectorSet(selector.Equal("role", "fe"))
	sets.IPSetActive(spec)
	sets.UpdateEndpoint(&policy.WorkloadEndpoint{
		Name: "a", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.7")}, Labels: map[string]string{"role": "fe"},
	})
	sets.UpdateEndpoint(&policy.WorkloadEndpoint{
		Name: "a", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.8")}, Labels: map[string]string{"role": "fe"},
	})
	sets.IPSetInactive(spec.ID)
	// Output:
	// set added
	// 10.0.0.7/32 true
	// 10.0.0.8/32 true
	// 10.0.0.7/32 false
	// 10.0.0.8/32 false
	// set removed
}

// matches prints the matches of ActiveRules, and ignores its other output.
type matches struct{}

func (matches) PolicyActive(p *policy.Policy)         { fmt.Println("active", p.Key()) }
func (matches) PolicyInactive(key policy.Key)         { fmt.Println("inactive", key) }
func (matches) ProfileActive(*policy.Profile)         {}
func (matches) ProfileInactive(string)                {}
func (matches) SelectionChanged(*calcgraph.Selection) {}

func (matches) MatchStarted(s *calcgraph.Selection, ep policy.Key) {
	fmt.Println(s.Selector(), "selects", ep)
}

func (matches) MatchStopped(s *calcgraph.Selection, ep policy.Key) {
	fmt.Println(s.Selector(), "no longer selects", ep)
}

func ExampleActiveRules() {
	active, err := calcgraph.NewActiveRules(calcgraph.ActiveRulesConfig{
		Policies: matches{}, Profiles: matches{}, Matches: matches{},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := active.UpdatePolicy(&policy.Policy{Name: "p", Selector: `app == "web"`}); err != nil {
		fmt.Println(err)
		return
	}
	w := &policy.WorkloadEndpoint{Name: "w", Labels: map[string]string{"app": "web"}}
	active.UpdateEndpoint(w)
	active.DeleteEndpoint(w.Key())
	// Output:
	// active Policy/p
	// app == "web" selects WorkloadEndpoint/w
	// app == "web" no longer selects WorkloadEndpoint/w
	// inactive Policy/p
}
