// SPDX-License-Identifier: Apache-2.0

// Package connectivity tests with packets which workloads and hosts can reach each other. It
// compares the result with the decisions of the policy evaluator, package verdict.
//
// # Usage
//
//	cfg := connectivity.Config{Parties: n.Parties, Evaluator: verdict.New(world), Ask: ask}
//	m, err := connectivity.Measure(ctx, cfg)
//	...
//	fmt.Print(m)
//	for _, d := range m.Differences() { ... }
//
// A party is a workload of the node, or the host that stands for everything outside the node. A
// party does not send packets to itself, because such packets do not pass the node.
//
// # Repeated tests
//
// If policy allows a flow and there is no answer, the flow is tested again with a longer timeout,
// because the machine may be slow. If a flow that policy blocks gets an answer, it is not tested
// again: this is a failure.
//
// # Concurrency
//
// Measure runs many tests at once, and returns when all have ended. Afterwards the Matrix does not
// change, and may be read from several goroutines.
//
// # Errors
//
// Measure returns the error of its context. If packets pass although policy blocks them, or the
// reverse, Measure returns no error: the Matrix has these differences.
package connectivity
