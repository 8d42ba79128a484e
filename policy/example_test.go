// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

func ExampleDecode() {
	r, err := policy.Decode([]byte(`{
		"kind": "Policy", "namespace": "shop", "name": "allow-web", "selector": "app == 'web'",
		"ingress": [{"action": "Allow", "protocol": "TCP", "destination": {"ports": [80, "8000:8999"]}}]
	}`))
	fmt.Println(r.Key(), err, r.Validate())

	_, err = policy.Decode([]byte(`{"kind": "Policy", "name": "web", "selectors": "app == 'web'"}`))
	fmt.Println(err)
	// Output:
	// Policy/shop/allow-web <nil> <nil>
	// policy: decode Policy/web: selectors: unknown field
}

// A rule with an error fails closed. The other rules of the policy still apply.
func ExamplePolicy_Doubts() {
	r, err := policy.Decode([]byte(`{"kind": "Policy", "name": "web", "ingress": [
		{"action": "Deny", "protocol": "TCP", "destination": {"ports": [80, 99999]}}, {"action": "Allow"}]}`))
	fmt.Println(r.Key(), err)
	_, err = policy.Update{Key: r.Key(), Resource: r}.Admit()
	fmt.Println(err)
	// Output:
	// Policy/web <nil>
	// policy: in doubt: Policy/web: ingress[0].destination.ports[1]: want a number from 1 to 65535, not 99999
}

func ExampleParseNet() {
	for _, s := range []string{"12.1.0.0/8", "10.0.0.1", "::ffff:10.0.0.1"} {
		p, err := policy.ParseNet(s)
		fmt.Println(p, err)
	}
	// Output:
	// 12.0.0.0/8 <nil>
	// 10.0.0.1/32 <nil>
	// 10.0.0.1/32 <nil>
}

func ExampleComparePolicies() {
	order := 10.0
	list := []*policy.Policy{{Name: "last"}, {Name: "b", Order: &order}, {Name: "a", Order: &order}}
	slices.SortFunc(list, policy.ComparePolicies)
	for _, p := range list {
		fmt.Println(p.Name)
	}
	// Output:
	// a
	// b
	// last
}

// Policies that select its host endpoints apply to the host. A policy before destination NAT closes
// a node port to clients outside.
func ExamplePolicy_preDNAT() {
	p := &policy.Policy{
		Name: "close-node-ports", Selector: `role == "node"`, ApplyOnForward: true, PreDNAT: true,
		Ingress: []policy.Rule{{
			Action: policy.Deny, Protocol: policy.ProtocolTCP,
			Destination: policy.EntityRule{Ports: []policy.Port{policy.PortRange(30000, 32767)}},
		}},
	}
	fmt.Println(p.Validate())

	p.ApplyOnForward, p.Types = false, []policy.Type{policy.Ingress, policy.Egress}
	fmt.Println(p.Validate())
	// Output:
	// <nil>
	// policy: invalid Policy/close-node-ports: types[1]: a preDNAT policy applies to Ingress only; preDNAT: needs applyOnForward
}

func ExampleServiceMatch() {
	p := &policy.Policy{Namespace: "shop", Name: "to-web", Egress: []policy.Rule{{
		Action:      policy.Allow,
		Destination: policy.EntityRule{Services: &policy.ServiceMatch{Name: "web"}},
	}}}
	fmt.Println(p.Validate(), p.Egress[0].Destination.Services.In(p.Namespace))

	backends := &policy.ServiceBackends{
		Namespace: "shop", Name: "web-x7k2p", Service: "web",
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.1.5")},
		Ports:     []policy.ServicePort{{Protocol: policy.ProtocolTCP, Port: 8080}},
	}
	data, err := policy.Encode(backends)
	fmt.Println(string(data), err)
	// Output:
	// <nil> {web shop}
	// {"kind":"ServiceBackends","namespace":"shop","name":"web-x7k2p","service":"web","addresses":["10.0.1.5"],"ports":[{"protocol":"TCP","port":8080}]} <nil>
}

func ExampleCanonical() {
	block := &policy.Block{CIDR: netip.MustParsePrefix("10.0.1.7/26"), Node: "n1"}
	fmt.Println(block.Validate())
	fmt.Println(policy.Canonical(block).Key())

	// Addresses of a node keep their host bits.
	node := &policy.Node{Name: "n1", Addresses: []netip.Prefix{netip.MustParsePrefix("::ffff:192.168.0.5/120")}}
	fmt.Println(policy.Canonical(node).(*policy.Node).Addresses)
	// Output:
	// policy: invalid Block/10.0.1.7/26: cidr: 10.0.1.7/26 is not canonical: want 10.0.1.0/26 (see Canonical)
	// Block/10.0.1.0/26
	// [192.168.0.5/24]
}

func ExampleKinds() {
	for _, kind := range policy.Kinds() {
		r, _ := policy.Decode([]byte(`{"kind": "` + string(kind) + `"}`))
		fmt.Printf("%T ", r)
	}
	// Output:
	// *policy.Policy *policy.Policy *policy.Tier *policy.Profile *policy.NetworkSet *policy.WorkloadEndpoint *policy.HostEndpoint *policy.IPPool *policy.Block *policy.Node *policy.ServiceBackends
}
