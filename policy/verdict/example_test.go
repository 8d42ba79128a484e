// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"fmt"
	"maps"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// A world with one workload and one policy, and a flow to the workload.
func Example() {
	web, client := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("198.51.100.7")
	w := verdict.World{}
	w.Set(
		&policy.WorkloadEndpoint{Name: "web", Node: "n1", Interface: "veth1", Addresses: []netip.Addr{web}},
		&policy.Policy{Name: "deny", Selector: "all()", Ingress: []policy.Rule{{Action: policy.Deny}}},
	)
	flow := verdict.Flow{Src: client, SrcPort: 40000, Dst: web, DstPort: 80, Protocol: policy.ProtocolTCP}
	fmt.Println(verdict.Evaluate(w, flow).Combined)
	fmt.Println(verdict.Explain(w, flow).Ingress.Decision)
	// Output:
	// Deny
	// by rule ysbqohuhkokc24ncqkigtgj4 of Policy/deny in tier default
}

// shop is a web server that only the front end may reach.
func shop() (verdict.World, verdict.Flow) {
	w := verdict.World{}
	w.Set(
		&policy.WorkloadEndpoint{
			Namespace: "shop", Name: "web", Node: "n1", Interface: "veth1",
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Labels: map[string]string{"app": "web"},
		},
		&policy.WorkloadEndpoint{
			Namespace: "shop", Name: "db", Node: "n1", Interface: "veth2",
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")}, Labels: map[string]string{"app": "db"},
		},
		&policy.Policy{Namespace: "shop", Name: "web", Selector: `app == "web"`, Ingress: []policy.Rule{{
			Action: policy.Allow, Source: policy.EntityRule{Selector: `app == "front"`},
		}}},
		&policy.Policy{Namespace: "shop", Name: "out", Egress: []policy.Rule{{Action: policy.Allow}}},
	)
	return w, verdict.Flow{
		Src: netip.MustParseAddr("10.0.0.2"), SrcPort: 40000,
		Dst: netip.MustParseAddr("10.0.0.1"), DstPort: 80, Protocol: policy.ProtocolTCP,
	}
}

func ExampleEvaluate() {
	r := verdict.Evaluate(shop())
	fmt.Println("egress", r.Egress, "ingress", r.Ingress, "both", r.Combined)
	// Output: egress Allow ingress Deny both Deny
}

func ExampleExplain() {
	x := verdict.Explain(shop())
	fmt.Println(x.Ingress.Decision)
	for _, p := range x.Ingress.Tiers[0].Policies {
		for _, r := range p.Rules {
			fmt.Println(p.Policy, r.Action, r.Mismatch.Field, r.Mismatch.Reason)
		}
	}
	// Output:
	// no rule of tier default decided
	// Policy/shop/web Allow source.selector 10.0.0.2 is WorkloadEndpoint/shop/db, where app == "front" is false
}

func ExampleNew() {
	w, flow := shop()
	e := verdict.New(w)
	for _, port := range []uint16{80, 443} {
		flow.DstPort = port
		fmt.Println(flow, e.Evaluate(flow).Combined)
	}
	// Output:
	// TCP 10.0.0.2:40000 -> 10.0.0.1:80 Deny
	// TCP 10.0.0.2:40000 -> 10.0.0.1:443 Deny
}

// The effect of a changed policy.
func ExampleDiff() {
	before, flow := shop()
	after := maps.Clone(before)
	after.Set(&policy.Policy{Namespace: "shop", Name: "web", Selector: `app == "web"`, Ingress: []policy.Rule{{
		Action: policy.Allow, Source: policy.EntityRule{Selector: `app in {"front", "db"}`},
	}}})
	back := verdict.Flow{Src: flow.Dst, Dst: flow.Src, Protocol: policy.ProtocolTCP, DstPort: 5432}

	was, becomes := verdict.New(before), verdict.New(after)
	for _, e := range []*verdict.Evaluator{was, becomes} {
		for key, err := range e.Rejected() { // absent, so that the changes would be those of another world
			fmt.Println("rejected", key, err)
		}
	}
	for _, c := range verdict.DiffEvaluators(was, becomes, []verdict.Flow{flow, back}) {
		fmt.Println(c.Flow)
		fmt.Println("was", c.Before.Result.Combined, "as", c.Before.Ingress.Decision)
		fmt.Println("becomes", c.After.Result.Combined)
	}
	// Output:
	// TCP 10.0.0.2:40000 -> 10.0.0.1:80
	// was Deny as no rule of tier default decided
	// becomes Allow
}

// A packet from outside through a node, by a node port, to a workload.
func ExampleNewConfigured() {
	w, _ := shop()
	w.Set(
		&policy.HostEndpoint{Name: "n1", Node: "n1", InterfaceName: "eth0", Labels: map[string]string{"edge": ""}},
		&policy.Policy{
			Name: "no-node-ports", Selector: "has(edge)", PreDNAT: true, ApplyOnForward: true,
			Ingress: []policy.Rule{{
				Action: policy.Deny, Protocol: policy.ProtocolTCP,
				Destination: policy.EntityRule{Ports: []policy.Port{policy.PortRange(30000, 32767)}},
			}},
		},
	)
	e, err := verdict.NewConfigured(w, verdict.Config{Host: policy.HostConfig{EndpointToHostAction: policy.HostAccept}})
	if err != nil {
		panic(err)
	}
	x := e.Explain(verdict.Flow{
		Node: "n1", InInterface: "eth0", Src: netip.MustParseAddr("198.51.100.9"), SrcPort: 40000,
		Protocol: policy.ProtocolTCP, OrigDst: netip.MustParseAddr("192.0.2.1"), OrigDstPort: 30080,
		Dst: netip.MustParseAddr("10.0.0.1"), DstPort: 80,
	})
	fmt.Println(x.Result.Combined, "by", x.Ingress.Stage, x.Ingress.Decision.Policy)
	for _, d := range x.Stages {
		fmt.Println(d.Stage, d.Type, d.Outcome)
	}
	// Output:
	// Deny by PreDNAT Policy/no-node-ports
	// PreDNAT Ingress Deny
	// Forward Ingress Allow
	// Workload Ingress Deny
}
