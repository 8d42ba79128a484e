// SPDX-License-Identifier: Apache-2.0

// Package nodetraffic shows with real packets how traffic travels between two nodes: directly, in
// VXLAN, in IP in IP, or encrypted in WireGuard.
//
//	pod eth0 ══ cali-n1 ┐                                ┌ cali-n2 ══ eth0 pod
//	        10.65.1.1   n1 ── eth0 ══ bridge ══ eth0 ── n2   10.65.2.1
//	                192.0.2.1       (captured)      192.0.2.2
//
// For each routing mode, the package creates two nodes. Each node has a graph, a driver and the
// dataplanes that program routes and WireGuard. A pod sends a UDP packet to the pod on the other
// node, and that pod answers. The package captures the packets on the link between the nodes, and
// compares them with the packets that the mode should produce.
//
// # Usage
//
//	for _, mode := range nodetraffic.Modes() {
//		result, err := mode.Show(ctx)
//		...
//		fmt.Print(result)
//		failures = append(failures, result.Failures()...)
//	}
//
// # Concurrency
//
// Show may be called from any number of goroutines. All goroutines that it starts end before it
// returns. Nothing changes a Result after Show has returned it.
//
// # Errors
//
// An error of Show names the mode, and the Result is then incomplete. Missing and wrong packets are
// not errors of Show: Result.Failures returns them. If the kernel lacks the module for a mode,
// there is neither an error nor a failure: Result.Missing names the module.
package nodetraffic
