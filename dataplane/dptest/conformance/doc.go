// SPDX-License-Identifier: Apache-2.0

// Package conformance tests that a dataplane keeps the contract of dataplane.Dataplane, and that it
// allows and denies the packets that policy allows and denies.
//
// # Usage
//
// A Harness opens the dataplane over a kernel that only the test uses, lists the programmed objects, and
// reports whether the dataplane lets a packet pass:
//
//	conformance.Run(t, func(t *testing.T) conformance.Harness {
//		return conformance.Harness{Open: ..., Dump: ..., Judge: ...}
//	})
//
// Open and Dump are required. They are enough to check that calls are idempotent, that every path to a
// state gives the same result, adoption after a restart, the order of removal, and Teardown. Each
// optional function allows more checks, and so does a dataplane that is a Planner or a Watcher. The
// log of a test names the checks that were skipped.
//
// # Verdicts
//
// A dataplane can pass all other checks and still give wrong verdicts. So set Harness.Judge if the
// dataplane enforces policy. This function may simulate the programmed rules, run a program of the
// kernel on a packet, or send a packet. The kit compares Judge with dptest.State.Judge:
//
//   - "judge cases" are small worlds written by hand. (A world is all resources of a cluster at one
//     moment.) The name of each begins with the number of a case in docs/semantics.md, as in "S24:
//     Pass skips the rest of the policy and of the tier".
//   - "judge worlds" are random worlds of package policy/worlds, with three batches each. Their packets
//     have the first and last values of the world's prefixes and ranges, and the values next to them.
//     Some packets differ in one field and have different verdicts.
//
// A failure shows the packet, both verdicts, the policy or profile that decided in the reference, and the
// desired state. To run one world again:
//
//	go test -run 'TestConformance/judge_worlds/seed_7$'
//
// All packets are the first of a connection, and the node forwards them. The kit does not check
// verdicts of connection tracking, of host endpoints, or for the traffic of the host's own processes.
//
// # Bad objects
//
// An object that a dataplane cannot program must not hold up the others, and must be reported.
// Harness.Spoil adds such an object to a state. The batch is valid by the contract, but this dataplane
// refuses the object. Examples are an endpoint with an interface name that the kernel does not accept,
// and a policy with more rules than a program may have:
//
//	Spoil: func(s dptest.State) policy.Key {
//		key := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "test", Name: "bad"}
//		s.Endpoints[key] = &dataplane.Endpoint{Interface: "no/interface"}
//		return key
//	},
//
// The kit applies states with and without the object, in several orders. It expects:
//
//   - an error from each Apply and Resync with the object, which holds one *dataplane.ApplyError whose
//     Object is the key;
//   - the same Dump, whether the object or the others came first;
//   - nothing of the object in Dump once it is removed.
//
// The kit calls Spoil for different states, so Spoil must not depend on their content. Omit it if the
// dataplane can program every object.
//
// # Asynchronous dataplanes
//
// While Apply or Resync returns objects that are Pending, the kit waits until Watch reports a
// Drift, and calls Apply with an empty batch. It checks the state only once no object is pending.
//
// # Concurrency
//
// The kit calls a dataplane from one goroutine, except Watch.
//
// # Errors
//
// The kit fails the test.
package conformance
