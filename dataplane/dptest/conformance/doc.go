// SPDX-License-Identifier: Apache-2.0

// Package conformance is a kit that tests dataplanes. A dataplane must keep the contract of
// dataplane.Dataplane, and must allow and deny the packets that policy allows and denies.
//
// # Usage
//
// A Harness opens the dataplane on a kernel that only the test uses (for example a network
// namespace). It lists the programmed objects, and reports whether the dataplane lets a packet
// pass:
//
//	conformance.Run(t, func(t *testing.T) conformance.Harness {
//		return conformance.Harness{Open: ..., Dump: ..., Judge: ...}
//	})
//
// Open and Dump are required. They are enough for these checks:
//
//   - A repeated call changes nothing.
//   - If two sequences of batches lead to the same desired state, the dataplane programs the same
//     objects for both.
//   - After a restart, the dataplane adopts the objects in the kernel.
//   - Objects are removed in the right order.
//   - Teardown removes everything.
//
// Run makes more checks if the harness has optional functions, or if the dataplane implements
// dataplane.Planner or dataplane.Watcher. The log of a test names the checks that were skipped.
//
// # Verdicts
//
// A dataplane can pass all other checks and still allow or deny the wrong packets. So set
// Harness.Judge if the dataplane enforces policy. This function reports the verdict of the
// dataplane on a packet. It may simulate the programmed rules, run an eBPF program on a packet, or
// send a packet. In two subtests, the kit compares these verdicts with the verdicts of a reference,
// dptest.State.Judge. The subtests use worlds: a world is all resources of a cluster at one moment.
//
//   - "judge cases" has small worlds that were written by hand. The name of each begins with the
//     number of a case in docs/semantics.md, as in "S24: Pass skips the rest of the policy and of
//     the tier".
//   - "judge worlds" has random worlds of package policy/worlds. The kit applies each world in
//     three batches. The packets have the first and last values of the world's prefixes and ranges,
//     and the values next to them. Some packets differ from each other in one field only, and have
//     different verdicts.
//
// A failure shows the packet, both verdicts, the policy or profile that decided in the reference,
// and the desired state. To run one random world again, use its seed, here 7:
//
//	go test -run 'TestConformance/judge_worlds/seed_7$'
//
// Each packet is the first of a connection that the node forwards. The kit does not check packets
// of established connections, packets of the host's own processes, or policy of host endpoints.
//
// # Bad objects
//
// If a dataplane cannot program an object, it must report that object, and program all others. To
// check this, set Harness.Spoil. It adds an object to a state. The object must be valid in a batch,
// but this dataplane must be unable to program it. Examples are an endpoint with an interface name
// that the kernel does not accept, and a policy that is too long for one eBPF program:
//
//	Spoil: func(s dptest.State) policy.Key {
//		key := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "test", Name: "bad"}
//		s.Endpoints[key] = &dataplane.Endpoint{Interface: "no/interface"}
//		return key
//	},
//
// The kit applies states with and without the object, in several orders. It expects:
//
//   - While the state has the object, each Apply and Resync returns an error that reports this
//     object alone. The error has one *dataplane.ApplyError, whose Object is the key.
//   - Dump returns the same, whether the dataplane receives this object first or the others first.
//   - Once the object is removed, Dump has no trace of it.
//
// The kit calls Spoil for different states, so Spoil must not depend on the content of the state.
// If the dataplane can program every object, do not set Spoil.
//
// # Asynchronous dataplanes
//
// A dataplane may program objects after Apply or Resync has returned. Then the method returns an
// error, which lists these objects as Pending. The kit waits until Watch reports a Drift, and calls
// Apply with an empty batch. It repeats this until no object is pending, and only then checks the
// state.
//
// # Concurrency
//
// Each subtest calls the methods of the dataplane from one goroutine, except Watch.
//
// # Errors
//
// Run returns no errors: it fails the test.
package conformance
