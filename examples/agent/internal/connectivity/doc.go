// SPDX-License-Identifier: Apache-2.0

// Package connectivity measures who reaches whom and holds it against what the policy evaluator says.
//
// # Usage
//
//	cfg := connectivity.Config{Parties: n.Parties, Evaluator: verdict.New(world), Ask: ask}
//	m, err := connectivity.Measure(ctx, cfg)
//	...
//	fmt.Print(m)
//	for _, d := range m.Differences() { ... }
//
// A party does not probe itself: such traffic does not pass the node.
//
// # Measured again
//
// What got no answer although policy allows it is measured again, with more patience: machines
// are slow at times. What got through although policy blocks it is never measured again.
//
// # Concurrency
//
// Measure asks many questions at once, and returns when all are answered. A Matrix does not change
// afterwards and may be read from several goroutines.
//
// # Errors
//
// Measure returns the error of its context. That a cell differs is no error but what one wants to
// know.
package connectivity
