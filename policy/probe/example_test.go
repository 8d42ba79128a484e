// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

// exampleWorld has a database that only the API reaches, on one port.
func exampleWorld() verdict.World {
	all := []policy.Rule{{Action: policy.Allow}}
	w := verdict.World{}
	w.Set(
		&policy.Profile{Name: "open", Ingress: all, Egress: all},
		&policy.WorkloadEndpoint{
			Namespace: "shop", Name: "api", Node: "n1", Interface: "veth1", Profiles: []string{"open"},
			Labels: map[string]string{"app": "api"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		},
		&policy.WorkloadEndpoint{
			Namespace: "shop", Name: "db", Node: "n1", Interface: "veth2", Profiles: []string{"open"},
			Labels: map[string]string{"app": "db"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")},
		},
		&policy.Policy{
			Namespace: "shop", Name: "db", Selector: `app == "db"`,
			Ingress: []policy.Rule{{
				Action: policy.Allow, Protocol: policy.ProtocolTCP, Source: policy.EntityRule{Selector: `app == "api"`},
				Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(5432)}},
			}},
		},
	)
	return w
}

// Verdicts by name.
func Example() {
	world := exampleWorld()
	index, evaluator := probe.NewIndex(world), verdict.New(world)
	port, err := probe.ParsePort("tcp/5432")
	if err != nil {
		fmt.Println(err)
		return
	}
	queries, err := index.Queries([]string{"shop/api", "198.51.100.7"}, []string{"shop/db"}, []probe.Port{port})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, q := range queries {
		a := q.Explain(evaluator)
		fmt.Println(a.From, a.To, a.Port, a.Outcome)
	}
	// Output:
	// shop/api shop/db tcp/5432 Allow
	// 198.51.100.7 shop/db tcp/5432 Deny
}

// An expectation in JSON, and its check.
func ExampleExpectation_Check() {
	var x probe.Expectation
	text := `{"from": "shop/api", "to": "shop/db", "port": ["tcp/5432", "icmp"], "allow": true}`
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		fmt.Println(err)
		return
	}
	world := exampleWorld()
	result, err := x.Check(probe.NewIndex(world), verdict.New(world))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Holds, result.Flows)
	for _, a := range result.Failed {
		fmt.Println(a.From, a.To, a.Port, a.Outcome)
		fmt.Println(a.Flows[0].Ingress.Decision)
	}
	// Output:
	// false 2
	// shop/api shop/db icmp Deny
	// no rule of tier default decided
}

// The verdicts that the removal of a policy changes.
func ExampleDiff() {
	before := exampleWorld()
	after := maps.Clone(before)
	delete(after, policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "db"})
	d, err := probe.Diff(before, after, probe.DiffConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range d.Pairs {
		for _, c := range p.Changes {
			fmt.Println(p.From, p.To, c.Before, c.After, c.Ports[0].Port, "and", len(c.Ports)-1, "more")
		}
	}
	// Output:
	// [shop/api] [shop/db] Deny Allow tcp/other and 3 more
	// [203.0.113.1 (any address not mentioned)] [shop/db] Deny Allow tcp/5432 and 4 more
}

// The representative packets of a world.
func ExamplePartition() {
	world := exampleWorld()
	partition := probe.NewPartition(world)
	for _, g := range partition.Groups(probe.NewIndex(world).Endpoints()) {
		fmt.Println(g.Names())
	}
	for _, p := range partition.Outside() {
		fmt.Println(p.Name)
	}
	for _, p := range partition.Ports() {
		fmt.Println(p)
	}
	// Output:
	// [shop/api]
	// [shop/db]
	// 203.0.113.1 (any address not mentioned)
	// 2001:db8:ffff::1 (any address not mentioned)
	// tcp/5432
	// tcp/other
	// udp/other
	// icmp
	// ip/other
}
