// SPDX-License-Identifier: Apache-2.0

package main

func Example() {
	main()
	// Output:
	// ipset s:n4_mglC0Qh0IiC9Qh_uzpRZCBHja4YYzvwfhGQ nets [10.0.1.1/32]
	// policy Policy/shop/web tier default: ingress allow src s:n4_mglC0Qh0IiC9Qh_uzpRZCBHja4YYzvwfhGQ
	// endpoint WorkloadEndpoint/shop/web way-web [10.0.0.1] ingress default:deny[Policy/shop/web] egress - profiles []
	// route 10.0.0.1/32 local-workload node n1
	// in-sync
}
