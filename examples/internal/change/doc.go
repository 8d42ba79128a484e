// SPDX-License-Identifier: Apache-2.0

// Package change finds what one world would change about another: which flows between which parties
// would be judged otherwise.
//
// # Usage
//
//	run := change.Run{Before: before, After: after, Parties: groups, Ports: plan.Ports}
//	err := run.Each(ctx, func(p change.Pair) error { fmt.Print(p); return nil })
//
// It is verdict.DiffEvaluators over all pairs of parties and ports; what changes in the same way
// between the same two parties comes as one, with one of its flows as the example.
//
// # Concurrency
//
// Each works on all processors, and calls back from the goroutine that called it, in the order of
// the parties.
//
// # Errors
//
// Each returns the error of its context, or the first that the callback returns.
package change
