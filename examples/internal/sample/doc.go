// SPDX-License-Identifier: Apache-2.0

// Package sample finds the ports that are worth trying: one for each part of the ports that the
// policies and pods of some worlds can tell from the rest.
//
// # Usage
//
//	plan := sample.Ports(before, after)
//	for _, port := range plan.Ports {
//		flows = append(flows, port.Flows(from, to)...)
//	}
//
// Every port that a rule, a service or a pod (by name) mentions is tried, of ranges a port of each
// stretch that no other range cuts, and one port of TCP and of UDP that nobody mentions; pings, the
// ICMP types that rules mention and one more of each family; every other protocol that is
// mentioned, and one that is not. That is all there is as far as destinations go: any port not
// tried is judged as one that is. Source ports are not varied; Plan.SourcePorts says whether a rule
// looks at them. policy.Header is always zero.
//
// # Concurrency
//
// Everything here is a plain value; the worlds must not change meanwhile.
//
// # Errors
//
// There are none.
package sample
