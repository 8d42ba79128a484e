// SPDX-License-Identifier: Apache-2.0

// Package policy has the resources of the desired state, from which the rest of Wayleave computes
// rules and routes. It also has the keys, updates, JSON form, defaults and validation of resources.
//
//	kind              key             meaning
//	Policy            namespace/name  rules for the endpoints that it selects;
//	                  or name         global if it has no namespace
//	StagedPolicy      the same        a Policy that decides nothing; explanations show its effect
//	Tier              name            an ordered group of policies, with a default action
//	Profile           name            labels that endpoints inherit, and rules if no tier decides
//	NetworkSet        namespace/name  labelled networks, which rules can select
//	                  or name
//	WorkloadEndpoint  namespace/name  the interface of a container, pod or virtual machine
//	                  or name
//	HostEndpoint      name            an interface of a node
//	IPPool            name            a prefix from which workloads get their addresses
//	Block             CIDR            a part of a pool that is assigned to a node
//	Node              name            a machine, with its addresses and those of its tunnel devices
//	ServiceBackends   namespace/name  addresses and ports of a service's backends, or some of them
//
// Resources are plain data. Their fields and enumerations have the names of the public Calico v3
// API, if that API has them.
//
// HostConfig is not a resource. It has the settings of one node that are not in policies, such as
// failsafe ports.
//
// # Usage
//
// A producer (a datastore, a converter, a test) makes resources and sends them as updates. In an
// Update, a nil Resource means that the object does not exist:
//
//	p := &policy.Policy{Namespace: "shop", Name: "allow-web", Selector: `app == "web"`,
//		Ingress: []policy.Rule{{Action: policy.Allow, Protocol: policy.ProtocolTCP,
//			Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80)}}}}}
//	u := policy.Update{Key: p.Key(), Resource: p}
//
// Decode decodes one resource from JSON, as in
//
//	{"kind": "Policy", "namespace": "shop", "name": "allow-web", "selector": "app == 'web'",
//	 "ingress": [{"action": "Allow", "protocol": "TCP", "destination": {"ports": [80]}}]}
//
// Decode is stricter than encoding/json: unknown fields, null and duplicate members are errors.
// Encode encodes a resource. Validate reports all problems of a resource with the paths of the
// fields.
//
// A resource with an error is absent: everything behaves as if it did not exist. For example, a
// policy is absent if the error is in its selectors, tier, order or types.
//
// The exception is a policy whose errors are all in rules. This policy is enforced, but a closed
// rule replaces each rule that has an error. A closed Allow or Log rule matches nothing. Any other
// closed rule denies all packets that no earlier rule has decided about (see Rule.Close).
//
// Decode closes rules that it cannot decode, for example because of an unknown field. Update.Admit
// closes rules that are not valid. The reasons for closing a rule are called doubts, and are in
// Rule.Doubts. Policy.Doubts and the *DoubtError of Admit list the doubts of all rules of a policy.
//
// A receiver of updates calls Admit and uses the result:
//
//	r, err := u.Admit()
//	// r == nil, err != nil: absent; err is a *ValidationError
//	// r != nil, err != nil: enforced, with closed rules; err is a *DoubtError
//
// In a rule, an empty list means the same as a missing list: no limit. So a rule whose list becomes
// empty matches more packets than before. If your program makes rules from lists, leave out the
// whole rule when a list is empty.
//
// A name has 1 to 265 characters: letters, digits and -_.:@+~ (no slash, no space). This holds for
// names of objects, and for the fields that name a namespace, tier, profile, node or service.
//
// # Defaults
//
// Defaults are never stored in fields. The comment of a field says what the zero value means. For
// some fields, the default depends on other values, too. Then a method returns the effective value:
// Policy.AppliesTo (types), Policy.TierName, Tier.Action, BuiltinTier, ServiceMatch.In (namespace),
// EncapMode.Encapsulates, and HostConfig.WithDefaults.
//
// # Canonical values
//
// Addresses and prefixes are net/netip values. Decode converts them to a canonical form. An address
// without a length becomes a full-length prefix, host bits are cleared (12.1.0.0/8 becomes
// 12.0.0.0/8), and IPv4-mapped IPv6 addresses become IPv4 addresses. The addresses of a Node are
// prefixes such as 192.168.0.5/24: they keep their host bits, and have the length of the node's
// subnet. Code that makes resources must also use canonical values; the function Canonical converts
// a resource. Validate refuses values that are not canonical.
//
// # Deviations
//
// These are the differences from the Calico v3 API, its types and its validation. In this list,
// "that API" is the Calico v3 API. "Wider" means that this package accepts more than that API, and
// "narrower" means that it accepts less:
//
//   - Objects are flat, without apiVersion, metadata and spec.
//   - Policy stands for NetworkPolicy and GlobalNetworkPolicy. StagedPolicy stands for the staged
//     kinds of both, without a stagedAction. NetworkSet stands for NetworkSet and GlobalNetworkSet.
//   - The fields interface and addresses of a WorkloadEndpoint are called interfaceName and
//     ipNetworks in that API. The field addresses of a Node replaces bgp.ipv4Address and
//     bgp.ipv6Address.
//   - That API has no Block and no ServiceBackends. A Block has the necessary fields of one of
//     Calico's IPAM blocks. A ServiceBackends has the necessary fields of an EndpointSlice.
//   - Fields that are not about packets and fields that are not supported, such as http, count as
//     unknown fields. A rule with an unknown field is closed. An object with an unknown field
//     outside of rules is refused. An IPPool has no blockSize, so the size of blocks is not
//     checked.
//   - Types and protocols are not case-sensitive. Names of objects may have capitals and -_.:@+~.
//     The name of a label has 1 to 512 letters, digits and _./-, as in selectors. Its value may be
//     any text of up to 4 KiB without control characters. The name of a port has at least one
//     letter, so that "80-90" is an error.
//   - Wider: a rule may have prefixes of both families. Its ipVersion may contradict its prefixes
//     or its ICMP protocol; the rule then matches nothing. A named port needs no protocol. global()
//     may occur in any selector, also as a part of a longer one.
//   - If all prefixes of notNets are of one family, they exclude no address of the other family.
//   - A namespaceSelector or serviceAccountSelector may be true for an object without labels, as
//     env != "prod" is. Such a selector also matches objects without a namespace or account: host
//     endpoints and global network sets.
//   - Wider: a rule has DSCP and NotDSCP, which that API does not have.
//   - Narrower: icmp needs a type. notICMP needs a protocol.
//   - Narrower: an EntityRule with services cannot have ports. That API refuses ports only in the
//     destination; this package refuses them in the source, too.
//   - Narrower: serviceAccounts must have names or a selector, and must not be null.
//   - Narrower: rules of profiles have the same constraints as rules of policies. For example,
//     services are only valid in the source of ingress rules and in the destination of egress
//     rules.
//   - Narrower: a built-in tier cannot have another order or default action.
//   - A HostEndpoint without interfaceName and expectedIPs is valid and has no effect. The
//     interface cannot be "lo". Names of interfaces may have @+~=, too.
//   - Narrower: an IPPool cannot have multicast or loopback addresses.
//
// PreDNAT and DoNotTrack have the same constraints as in that API. Both need applyOnForward, both
// are only for global policies, and a policy cannot have both. If a preDNAT policy has egress rules
// or the type Egress, the whole policy is invalid.
//
// # Errors
//
// Decode returns a *DecodeError, Validate a *ValidationError, and Update.Admit a *ValidationError
// or a *DoubtError. These errors have the key of the object, and all problems with the paths of the
// fields, as in "egress[2].destination.ports[0]". Their text has only the first few problems. The
// Parse functions return other errors.
//
// # Concurrency
//
// Do not change a resource after you have sent it in an Update. Clone returns a copy that you can
// change. All values of the package are safe for concurrent reads.
package policy
