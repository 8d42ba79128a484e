// SPDX-License-Identifier: Apache-2.0

// Package conformance tests that a dataplane keeps the contract of dataplane.Dataplane, and that it
// allows and denies the packets that policy allows and denies.
//
// # Usage
//
// A Harness opens the dataplane over a kernel of the test's own, lists what is programmed, and says
// what the dataplane does with a packet:
//
//	conformance.Run(t, func(t *testing.T) conformance.Harness {
//		return conformance.Harness{Open: ..., Dump: ..., Judge: ...}
//	})
//
// Open and Dump are required. They are enough for idempotent calls, the same result on every path,
// adoption after a restart, order of removal and Teardown. More checks run with each optional
// function, and with a dataplane that is a Planner or a Watcher. The log of a test names the checks
// that were left out.
//
// # Verdicts
//
// A dataplane can keep every other promise and still filter wrongly, so one that enforces policy needs
// Harness.Judge. It may simulate what is programmed, run a program of the kernel on a packet, or send
// one. Judge is compared with dptest.State.Judge:
//
//   - "judge cases" are small worlds written by hand. The name of each begins with the number of a
//     case in docs/semantics.md, as in "S24: Pass skips the rest of the policy and of the tier".
//   - "judge worlds" are random worlds of package policy/worlds, with several batches each. Their
//     packets are chosen from what the policy of the world tells apart: the ends of its prefixes and
//     ranges and what is next to them, and packets that differ in one field and have different verdicts.
//
// A failure shows the packet, both verdicts, who decided in the reference, and the desired state. One
// world runs again with
//
//	go test -run 'TestConformance/judge_worlds/seed_7$'
//
// All packets are the first of a connection and are forwarded. Connection tracking, host endpoints,
// and the traffic of the host's own processes are not judged.
//
// # Bad objects
//
// An object that a dataplane cannot program must not hold up the others, and must be reported.
// Harness.Spoil adds such an object to a state. The object keeps the contract, so the batch is valid,
// but this dataplane refuses it. Examples are an endpoint with an interface name that the kernel does
// not take, and a policy with more rules than a program may have:
//
//	Spoil: func(s dptest.State) policy.Key {
//		key := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "test", Name: "bad"}
//		s.Endpoints[key] = &dataplane.Endpoint{Interface: "no/interface"}
//		return key
//	},
//
// The kit applies states with and without the object, in several orders. It expects an error that
// holds one *dataplane.ApplyError, whose Object is the key, from each Apply and Resync with the object;
// the same Dump whichever came first, the object or the others; and nothing of the object once it is
// removed. Spoil is called for different states, so it must not depend on their content. Leave it out
// if the dataplane can program every object.
//
// # Concurrency
//
// The kit calls a dataplane from one goroutine, except Watch.
//
// # Errors
//
// The kit fails the test.
package conformance
