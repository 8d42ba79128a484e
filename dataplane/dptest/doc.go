// SPDX-License-Identifier: Apache-2.0

// Package dptest helps to test dataplanes, and programs that send batches to dataplanes. It has a
// strict dataplane in memory (Mirror) and fault injection (Faulty). Package conformance tests that
// a backend keeps the contract, and that its verdicts are right. This package imports no test
// library, so programs may use the Mirror, too.
//
// # Usage
//
// A Mirror receives the batches of a graph, and refuses a batch that breaks a promise of
// dataplane.Batch. It has the state after these batches, and can judge packets by it:
//
//	m := dptest.NewMirror()
//	require.NoError(t, m.Play(graph.Flush()))
//	require.Equal(t, want, m.State().String())
//	require.True(t, m.Judge(packet).Allowed())
//	require.Empty(t, m.Unused())
//
// A State can also be written by hand. Transition returns the batch that leads from one State to
// another.
//
// Faulty makes chosen calls of any dataplane fail.
//
// # Concurrency
//
// Mirror and Faulty are safe for concurrent use.
//
// # Errors
//
// Mirror returns *PlayError, which names the event at fault.
package dptest
