// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

func ExampleDecode() {
	r, err := policy.Decode([]byte(`{"kind": "Policy", "namespace": "shop", "name": "allow-web", "selector": "app == 'web'",
		"ingress": [{"action": "Allow", "protocol": "TCP", "destination": {"ports": [80, "8000:8999"]}}]}`))
	fmt.Println(r.Key(), err, r.Validate())

	_, err = policy.Decode([]byte(`{"kind": "Policy", "name": "web", "egress": [{"action": "Allow", "source": {"net": "10.0.0.0/8"}}]}`))
	fmt.Println(err)
	// Output:
	// Policy/shop/allow-web <nil> <nil>
	// policy: decode Policy/web: egress[0].source.net: unknown field
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
