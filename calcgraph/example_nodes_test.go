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

// resolvedRules prints the output of RuleScanner.
type resolvedRules struct{}

func (resolvedRules) IPSetActive(spec *calcgraph.IPSetSpec) { fmt.Println("set for", spec.Selector) }
func (resolvedRules) IPSetInactive(id dataplane.IPSetID)    { fmt.Println("set gone") }
func (resolvedRules) RulesRemove(owner policy.Key)          { fmt.Println(owner, "gone") }
func (resolvedRules) RulesUpdate(k policy.Key, r calcgraph.Rules) {
	for _, rule := range r.Ingress {
		fmt.Println(k, rule.Action, "from", len(rule.Source.Sets), "set")
	}
}

// A program that selects policies itself only needs a RuleScanner to resolve their rules.
func ExampleRuleScanner() {
	scanner := calcgraph.NewRuleScanner(calcgraph.RuleScannerConfig{Sets: resolvedRules{}, Rules: resolvedRules{}})
	p := &policy.Policy{Name: "p", Ingress: []policy.Rule{
		{Action: policy.Allow, Source: policy.EntityRule{Selector: `role == "fe"`}},
		{Action: policy.Deny, Source: policy.EntityRule{Selector: `role=='fe'`}},
	}}
	scanner.PolicyActive(p)
	scanner.PolicyInactive(p.Key())
	// Output:
	// set for role == "fe"
	// Policy/p Allow from 1 set
	// Policy/p Deny from 1 set
	// Policy/p gone
	// set gone
}

// endpointPrinter prints the output of PolicyResolver.
type endpointPrinter struct{}

func (endpointPrinter) EndpointUpdate(k policy.Key, e *dataplane.Endpoint) { fmt.Println(k, e) }

func (endpointPrinter) EndpointRemove(k policy.Key) { fmt.Println(k, "gone") }

func (endpointPrinter) HostEndpointUpdate(k policy.Key, h *dataplane.HostEndpoint) { fmt.Println(k, h) }

func (endpointPrinter) HostEndpointRemove(k policy.Key) { fmt.Println(k, "gone") }

// Without ActiveRules, the caller reports the matches.
func ExamplePolicyResolver() {
	resolver := calcgraph.NewPolicyResolver(endpointPrinter{})
	first, second := 1.0, 2.0
	web := calcgraph.NewSelection(selector.Equal("app", "web"))
	web.Replace(nil, &policy.Policy{Name: "a", Order: &second})
	web.Replace(nil, &policy.Policy{Name: "b", Order: &first})

	host := &policy.HostEndpoint{Name: "h", InterfaceName: "eth0"}
	resolver.UpdateHostEndpoint(host)
	resolver.MatchStarted(web, host.Key())
	resolver.Flush()
	resolver.DeleteEndpoint(host.Key())
	resolver.Flush()
	// Output:
	// HostEndpoint/h eth0 [] ingress default:deny[Policy/b Policy/a] egress - profiles []
	// HostEndpoint/h gone
}

// Nodes report in any order. Batches have the order that a dataplane needs. Changes without a net
// effect are omitted.
func ExampleSequencer() {
	seq := calcgraph.NewSequencer()
	seq.InSync()
	one := dataplane.Member{Prefix: netip.MustParsePrefix("10.0.0.1/32")}
	two := dataplane.Member{Prefix: netip.MustParsePrefix("10.0.0.2/32")}
	seq.RulesUpdate((&policy.Policy{Name: "p"}).Key(), calcgraph.Rules{Tier: "default"})
	seq.IPSetAdded("s:x", dataplane.IPSetNets)
	seq.MemberChanged("s:x", two, true)
	seq.MemberChanged("s:x", one, true)
	seq.MemberChanged("s:x", two, false)
	fmt.Println(seq.Flush())
	fmt.Println(seq.Flush().Empty())
	// Output:
	// ipset s:x nets [10.0.0.1/32]
	// policy Policy/p tier default: no rules
	// in-sync
	// true
}

// A dataplane that is added later gets a snapshot, and then the next batches.
func ExampleGraph_Snapshot() {
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	set := func(labels map[string]string) {
		w := &policy.WorkloadEndpoint{Name: "w", Node: "n1", Interface: "wl1", Labels: labels}
		graph.Update(policy.Update{Key: w.Key(), Resource: w})
	}
	p := &policy.Policy{Name: "p", Selector: "has(app)"}
	graph.Update(policy.Update{Key: p.Key(), Resource: p})
	set(nil)
	graph.InSync()
	graph.Flush()
	set(map[string]string{"app": "web"})
	graph.Flush()
	fmt.Println(graph.Snapshot())
	// Output:
	// policy Policy/p tier default: no rules
	// endpoint WorkloadEndpoint/w wl1 [] ingress default:deny[Policy/p] egress - profiles []
	// in-sync
}
