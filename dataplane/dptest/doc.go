// SPDX-License-Identifier: Apache-2.0

// Package dptest has what tests of dataplanes, and of whatever feeds them, need: a strict dataplane
// in memory, fault injection, and a conformance kit for backends.
//
// # Usage
//
// Mirror takes the batches of a graph and refuses any that break a promise of
// dataplane.Batch. It then says what it holds and how it judges packets:
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
// Run is the conformance kit, for all that dataplane.Dataplane promises, as far as the harness lets
// it look; a backend passes it with a harness over a kernel of the test's own:
//
//	dptest.Run(t, func(t *testing.T) dptest.Harness {
//		return dptest.Harness{Open: ..., Dump: ...}
//	})
//
// # Concurrency
//
// Mirror and Faulty are safe for concurrent use. The kit calls a dataplane from one goroutine.
//
// # Errors
//
// Mirror returns *PlayError, which names the event at fault. The kit fails the test.
package dptest
