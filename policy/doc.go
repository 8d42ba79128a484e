// SPDX-License-Identifier: Apache-2.0

// Package policy holds the desired state that Wayleave works from: the kinds of
// resource, their keys and updates, JSON form, defaults and validation.
//
//	kind              key             what it is
//	Policy            namespace/name  what the endpoints that it selects may receive and send;
//	                  or name         global where it has no namespace
//	StagedPolicy      the same        a Policy that is explained and decides nothing
//	Tier              name            an ordered group of policies, and what happens at its end
//	Profile           name            labels that endpoints inherit, and rules for where no tier decides
//	NetworkSet        namespace/name  networks with labels, for rules to select
//	                  or name
//	WorkloadEndpoint  namespace/name  the interface of a container, pod or virtual machine
//	                  or name
//	HostEndpoint      name            an interface of a node itself
//	IPPool            name            a range that workloads get their addresses from
//	Block             CIDR            a part of a pool that a node has
//	Node              name            a machine, with its addresses and the ends of its tunnels
//	ServiceBackends   namespace/name  addresses and ports behind a service, or a part of them
//
// The values are plain data. They follow the public Calico v3 API in field names
// and enums where that API has them, so that those who know it need not learn
// another vocabulary.
//
// HostConfig is no resource: it says what one node does beside policy.
//
// # Usage
//
// A producer (a datastore, a converter, a test) makes resources and hands them
// on as updates; a nil Resource in an Update means that the object is absent:
//
//	p := &policy.Policy{Namespace: "shop", Name: "allow-web", Selector: `app == "web"`,
//		Ingress: []policy.Rule{{Action: policy.Allow, Protocol: policy.ProtocolTCP,
//			Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80)}}}}}
//	u := policy.Update{Key: p.Key(), Resource: p}
//
// Decode reads one resource from JSON, as in
//
//	{"kind": "Policy", "namespace": "shop", "name": "allow-web", "selector": "app == 'web'",
//	 "ingress": [{"action": "Allow", "protocol": "TCP", "destination": {"ports": [80]}}]}
//
// and refuses fields it does not know, null, and members given twice; Encode writes it. Reading
// these types with encoding/json alone would be lenient where Decode is not. Validate reports every
// problem of a resource with the path of the field. Neither ever "repairs" an object: one that
// cannot be understood whole is absent.
//
// A policy is absent only if its scope is not understood: its selectors, tier, order or types. An
// error in a rule closes that rule, and the policy is in force. A closed Allow or Log matches
// nothing; any other closed rule denies everything from its place on (see Rule.Close). Decode
// closes rules that it cannot read, Update.Admit rules that are invalid. Policy.Doubts and the
// *DoubtError of Admit list the fields in doubt. A receiver of updates calls Admit and uses the
// result:
//
//	r, err := u.Admit()
//	// r == nil, err != nil: absent, a *ValidationError
//	// r != nil, err != nil: in force with rules in doubt, a *DoubtError
//
// In a rule, a list without entries is the same as one that is not given: no limit. So a
// program that makes rules from lists must leave out the rule, not just the field, when a
// list runs empty.
//
// Names, of namespaces, tiers, nodes, services and profiles too, are 1 to 265 letters, digits and
// -_.:@+~ (no slash, no space).
//
// # Defaults
//
// Fields are never filled in: a resource says what its author said. What an absent field means is
// at the field, and where that takes more than a comparison with the zero value, a method says it,
// all of them in one place: Policy.AppliesTo (types), Policy.TierName, Tier.Action, BuiltinTier,
// ServiceMatch.In (namespace), EncapMode.Encapsulates, and HostConfig.WithDefaults.
//
// # Canonical values
//
// Addresses and prefixes are net/netip values. On reading JSON a bare address
// becomes a full-length prefix, host bits are cleared (12.1.0.0/8 is 12.0.0.0/8) and
// IPv4-mapped IPv6 forms are unmapped. Code that builds resources directly should
// do the same; Canonical does it for a whole resource, and Validate refuses a prefix or an
// address that is not canonical. The addresses of a Node keep their host bits: they
// are addresses, and the length says which subnet they are in.
//
// # Deviations
//
// What differs from the Calico v3 API (its types, and what its validation accepts):
//
//   - Objects are flat, without apiVersion, metadata and spec. Policy stands for NetworkPolicy and
//     GlobalNetworkPolicy, StagedPolicy for their staged kinds without a stagedAction, NetworkSet
//     for NetworkSet and GlobalNetworkSet. A WorkloadEndpoint has interface and addresses for
//     interfaceName and ipNetworks, a Node addresses for bgp.ipv4Address and bgp.ipv6Address. Block
//     and ServiceBackends are not in that API; they say what a reader of its IPAM blocks, and of
//     EndpointSlices, needs.
//   - Fields are missing that are not about packets or not supported, http above all: they are
//     unknown: a rule that has one is in doubt, any other object refused whole. An IPPool has no
//     blockSize, so its size is not checked.
//   - Types, protocols: read without regard to case. Names of objects may have capitals and
//     -_.:@+~. Names of labels are whatever a selector can write, up to 512 bytes, their values any
//     text up to 4 KiB. The name of a port has at least one letter, so that "80-90" is an error.
//   - Wider: a rule may mix prefixes of both families, and its ipVersion may contradict its
//     prefixes or its ICMP protocol (it then matches nothing). A named port needs no protocol.
//     global() may stand in any selector and inside longer ones.
//   - notNets that hold prefixes of one family alone exclude nothing in the other: such a rule
//     matches all of its addresses.
//   - A namespaceSelector or serviceAccountSelector that is true without a label, as env != "prod",
//     matches what has no namespace or no account too: host endpoints and global network sets.
//   - Wider: a rule has DSCP and NotDSCP, which that API does not have.
//   - Narrower: icmp needs a type, notICMP a protocol. Ports beside services are refused in the
//     source too. A serviceAccounts that names nothing is refused, as is every null. Rules of
//     profiles obey the same rules as those of policies, also on which side services may stand. A
//     built-in tier cannot have another order or default action.
//   - A HostEndpoint without interfaceName and expectedIPs is valid and inert. None can be of
//     interface "lo". Names of interfaces may have @+~= too.
//   - An IPPool may not hold multicast or loopback addresses either.
//   - PreDNAT and DoNotTrack are as there: both need applyOnForward, exclude each other and are for
//     global policies, and egress rules or types beside preDNAT make the policy invalid. They are
//     not dropped to save the rest.
//
// # Errors
//
// Decode returns a *DecodeError, Validate a *ValidationError, Update.Admit that or a *DoubtError.
// They name the object and hold every problem with the path of its field, as in
// "egress[2].destination.ports[0]"; their text shows the first few. The Parse functions return
// plain errors.
//
// # Concurrency
//
// A resource that has been handed on in an Update must not be changed any more by
// anyone; readers may then share it freely. Clone makes a copy to edit.
package policy
