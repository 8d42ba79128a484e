// SPDX-License-Identifier: Apache-2.0

// Package felix measures the calculation graph of Felix, the agent of Calico, with the benchmarks
// of Wayleave.
//
// The package has only tests. BenchmarkFelix has sub-benchmarks with the names of ours without the
// word Benchmark, and with the same units. So one script can measure both on one machine:
//
//	BenchmarkFelix/W1/eps=250k/pols=10k    BenchmarkW1/eps=250k/pols=10k
//
// It has a benchmark for each row of docs/benchmarks.md with a figure of Felix.
//
// # Usage
//
//	GOWORK=off go test .                                                   # checks of the workloads, seconds
//	GOWORK=off go test . -run '^$' -bench 'Felix/^W4$' -benchtime 1x       # a tenth of the size
//	GOWORK=off go test . -run '^$' -bench 'Felix/^W4$' -benchtime 1x -full # the size of the figures
//
// Run each load in a process of its own, as for our benchmarks: memory in use slows down the
// garbage collections of the next load. The module is not in the Go workspace, because it has the
// dependencies of Calico.
//
// # Version
//
// The commit is on branch release-v3.28 (August 2025, after 3.28.5). The figures do not apply to
// later releases, which have another graph. In this version, a set has all addresses of its
// selector, also those within a prefix of the set.
//
// Calico builds its API from a folder; go.mod requires the API's version of July 2024.
//
// # What runs
//
// Everything that calc.NewCalculationGraph makes with the default configuration runs:
//
//   - the dispatchers
//   - the calculator of active rules
//   - the rule scanner
//   - the index of sets
//   - the index of services
//   - the policy resolver
//   - the decoder of profiles
//   - the resolver of encapsulations
//   - the config batcher
//   - the passthrough of data of hosts
//   - the metrics that these update
//
// The graph's messages go to a calc.EventSequencer. Its callback counts each message and drops it.
//
// Updates are pairs of key and value of libcalico-go, made before the clock runs. The graph gets
// them one by one, as in Felix's process. A flush is CalcGraph.Flush, then EventSequencer.Flush.
//
// # What is left out
//
// Each of these takes time in Felix's process, and none in the benchmarks:
//
//   - The syncer, which reads the datastore and converts its objects, and Typha.
//   - calc.ValidationFilter. Our graph validates updates itself, and its figures include that.
//   - calc.AsyncCalcGraph: its goroutine, its channels and its metrics of each update.
//   - calc.StatsCollector and the health aggregator.
//   - The dataplane drivers.
//   - Log lines: the logger's level is panic. By default, Felix logs changes of sets and of local
//     endpoints.
//
// calc.AsyncCalcGraph also flushes at most 100 times a second, and not at all if no update came. So
// in the process, changes that come fast share a flush, as in the benchmarks with 500 changes a
// flush. The other benchmarks of changes flush after each change. For fast changes, their figures
// can be above those of the process. A flush with nothing to do never happens there.
//
// Two resolvers are off in the default configuration. The resolver of routes needs VXLAN, WireGuard
// or eBPF, and the VXLAN resolver needs VXLAN. Our graph sends a route for each local endpoint.
//
// # How the objects correspond
//
// The objects have the names, labels, addresses and selectors of ours, and come in the same order.
// Package workload of our module also has W1. It is not imported, because Go would then choose
// newer versions of Calico's dependencies. The differences are:
//
//   - A profile is two updates: its labels and its rules. Felix's syncer also sends a third one,
//     which the graph ignores.
//   - Addresses have 4 bytes. Felix's own benchmark writes IPv4 addresses into 16 bytes, and Felix
//     reads them as IPv6.
//   - Policies list their types. Without them, Felix applies a policy in both directions, and our
//     graph only in those that have rules.
//   - In W4, Felix's syncer would add a term for the namespace to the selectors, and a label to
//     each pod. Both are left out here. Our graph adds the term itself. Felix sends a message for
//     each namespace of the cluster; our graph does so only with Config.Names.
//   - In the benchmarks of the index, each item has one address. The index of sets counts the
//     endpoints of each address of a set. Our index only reports matches.
//   - Felix sends a local endpoint again after each update of it, whether or not the message
//     differs.
//   - There is no heap-with-batch-MB: Felix sends messages one by one, so no batch exists.
//
// # Concurrency
//
// Sub-benchmarks and tests run one after the other.
//
// # Errors
//
// A benchmark of a load fails if its counts of messages, members and references differ from those
// of the workload. A benchmark of a change compares all counts but those of references.
package felix
