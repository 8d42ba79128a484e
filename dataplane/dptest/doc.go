// SPDX-License-Identifier: Apache-2.0

// Package dptest helps to test two things: dataplanes, and the senders of their batches. It has
// these parts:
//
//   - Mirror is a dataplane in memory that refuses wrong batches.
//   - Faulty wraps a dataplane. The test chooses which calls fail.
//   - Delayed makes a dataplane asynchronous.
//   - The subpackage conformance has tests that check a dataplane and its verdicts.
//
// Package dptest imports no test library, so programs may use it, too.
//
// # Usage
//
// This test plays the first batch of a calcgraph.Graph to a Mirror. Then it checks the state, the
// verdict on a packet, and that the Graph left no unused sets and profiles:
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
// # Concurrency
//
// Mirror, Faulty and Delayed are safe for concurrent use.
//
// # Errors
//
// A Mirror returns a *PlayError, which names the event that it refused.
package dptest
