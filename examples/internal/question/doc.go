// SPDX-License-Identifier: Apache-2.0

// Package question turns what a person asks, "may shop/web talk to data/db on tcp/5432", into the
// flows that package verdict judges.
//
// # Usage
//
//	book := question.NewBook(world)
//	from, err := book.Find("shop/web")
//	to, err := book.Find("data/db-*")
//	port, err := question.ParsePort("tcp/5432")
//	for _, flow := range port.Flows(from[0], to[0]) {
//		fmt.Println(evaluator.Explain(flow))
//	}
//
// A party is a pod by NAMESPACE/NAME, several pods by a pattern with "*" as in shop/web-*, an IP
// address, or the backends of a service as svc/NAMESPACE/NAME. A port is PROTOCOL/PORT,
// PROTOCOL/NAME or just the NAME of a port of the pod that is asked about, icmp, icmp/TYPE,
// icmp/TYPE/CODE (and icmpv6 likewise) or, for a protocol without ports, ip/NUMBER.
//
// # Concurrency
//
// A Book does not change and may be used from several goroutines, as long as nobody changes its
// world. The others are plain values.
//
// # Errors
//
// Find and ParsePort return an error, for people, for what they cannot make sense of or cannot
// find.
package question
