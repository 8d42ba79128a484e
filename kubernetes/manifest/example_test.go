// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"

	"github.com/wayleave/wayleave/kubernetes/manifest"
)

// Valid objects are returned, and invalid ones are reported.
func ExampleDecode() {
	const file = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelecter: {}
`
	resources, problems := manifest.Decode("shop.yaml", []byte(file))
	for _, r := range resources {
		fmt.Println(r.Key())
	}
	for _, err := range problems {
		fmt.Println(err)
	}
	// Output:
	// Profile/kns.shop
	// shop.yaml: document 2: line 10: NetworkPolicy shop/web: spec.podSelecter: unknown field
}
