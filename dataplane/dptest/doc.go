// SPDX-License-Identifier: Apache-2.0

// Package dptest has what tests of dataplanes, and of whatever feeds them, need: a strict dataplane
// in memory and fault injection. Package conformance has the tests of a backend's contract and of its
// verdicts. This package imports no test library, so programs may use the Mirror, too.
//
// # Usage
//
// Mirror takes the batches of a graph and refuses any that break a promise of
// dataplane.Batch. It then has their state and judges packets:
//
//	m := dptest.NewMirror()
//	require.NoError(t, m.Play(graph.Flush()))
//	require.Equal(t, want, m.State().String())
//	require.True(t, m.Judge(packet).Allowed())
//	require.Empty(t, m.Unused())
//
// States can also be written by hand; Transition makes the batch that leads from one to another.
//
// Faulty lets chosen calls of any dataplane fail.
//
// # Concurrency
//
// Mirror and Faulty are safe for concurrent use.
//
// # Errors
//
// Mirror returns *PlayError, which names the event at fault.
package dptest
