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
// A party is a workload or the host outside of the node. A party does not send packets to itself,
// because such packets do not pass the node.
//
// # Repeated tests
//
// If policy allows a flow and there is no answer, the flow is tested again with a longer timeout,
// because the machine may be slow. If a flow that policy blocks gets an answer, it is not tested
// again: this is a failure.
//
// # Concurrency
//
// Measure runs many tests at once, and returns when all have ended. Afterwards a Matrix does not
// change, and may be read from several goroutines.
//
// # Errors
//
// Measure returns the error of its context. A difference between packets and policy is not an
// error: it is in the Matrix.
package connectivity
