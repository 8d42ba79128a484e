// SPDX-License-Identifier: Apache-2.0

// Package connectivity sends packets between workloads and hosts to test which of them can reach
// each other. It compares the results with the decisions of the policy evaluator, package verdict.
//
// # Usage
//
//	cfg := connectivity.Config{
//		Parties: n.Parties, Evaluator: verdict.New(world), Probe: send, Ports: &connectivity.Ports{},
//	}
//	m, err := connectivity.Measure(ctx, cfg)
//	...
//	fmt.Print(m)
//	for _, d := range m.Differences() { ... }
//
// A party is a workload of the node, or the one host that stands for everything outside the node. A
// party does not send packets to itself, because such packets do not pass the node.
//
// # Repeated tests
//
// If policy allows a flow and there is no answer, Measure tests the flow again with a longer
// timeout, because the machine may be slow. If policy blocks a flow and there is an answer, Measure
// does not repeat the test: the answer proves that policy is not enforced.
//
// # Concurrency
//
// Measure runs many tests at once, and returns when all have ended. Afterwards the Matrix does not
// change, and may be read from several goroutines.
//
// # Errors
//
// Measure returns the error of its context. It returns no error if packets pass although policy
// blocks them, or if packets that policy allows get no answer. The method Differences of the Matrix
// returns these cases.
package connectivity
