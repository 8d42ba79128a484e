// SPDX-License-Identifier: Apache-2.0

// Package dptest helps to test dataplanes, and programs that send batches to dataplanes. It has a
// strict dataplane in memory (Mirror) and fault injection (Faulty). The subpackage named
// conformance has tests for dataplanes: they check that a dataplane does what the interface
// dataplane.Dataplane requires, and that its verdicts are right. Package dptest itself imports no
// test library, so programs may use the Mirror, too.
//
// # Usage
//
// A Mirror receives batches, for example those that a calcgraph.Graph computes, and stores the
// state that results from the batches. A Mirror has these methods, among others:
//
//   - Play applies a batch to the state. It refuses a batch that breaks a rule in the documentation
//     of dataplane.Batch.
//   - State returns the state.
//   - Judge returns whether policy in this state allows a packet.
//   - Unused returns the sets and profiles to which nothing in this state refers. A Graph removes
//     them, so after the batches of a Graph, the result must be empty.
//
// For example:
//
//	m := dptest.NewMirror()
//	require.NoError(t, m.Play(graph.Flush()))
//	require.Equal(t, want, m.State().String())
//	require.True(t, m.Judge(packet).Allowed())
//	require.Empty(t, m.Unused())
//
// A test can also write a State by hand. Transition returns the batch that leads from one State to
// another.
//
// Faulty wraps a dataplane. The test chooses which calls of the dataplane fail.
//
// # Concurrency
//
// Mirror and Faulty are safe for concurrent use.
//
// # Errors
//
// A Mirror returns a *PlayError, which names the event that it refused.
package dptest
