// SPDX-License-Identifier: Apache-2.0

package calico_test

import (
	"encoding/json"
	"fmt"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/convert/calico"
)

// An object of Calico as JSON, for example from an API server. Package manifest reads files, and
// refuses unknown fields.
func ExampleNew() {
	const object = `{
		"apiVersion": "projectcalico.org/v3", "kind": "GlobalNetworkPolicy",
		"metadata": {"name": "no-telnet"},
		"spec": {
			"selector": "has(app)", "types": ["Ingress"],
			"ingress": [{"action": "Deny", "protocol": "TCP", "destination": {"ports": [23]}}]
		}
	}`
	o := calico.New("GlobalNetworkPolicy")
	if err := json.Unmarshal([]byte(object), o); err != nil {
		panic(err)
	}
	resources, problems := convert.Converter{}.Convert(o)
	for _, r := range resources {
		fmt.Println(r.Key())
	}
	fmt.Println(problems)
	// Output:
	// Policy/no-telnet
	// []
}
