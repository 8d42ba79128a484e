// SPDX-License-Identifier: Apache-2.0

// Package policy holds the desired state that Wayleave works from: the kinds of
// resource, their keys and updates, JSON form, defaults and validation.
//
// The values are plain data. They follow the public Calico v3 API in field names
// and enums where that API has them, so that those who know it need not learn
// another vocabulary. Deviations are named at the field.
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
// and refuses fields it does not know, null, and members given twice; Encode writes it. A
// staged policy has the kind "StagedPolicy". Reading these types with encoding/json alone would be lenient
// where Decode is not. Validate reports every problem of a resource with the path of
// the field. Neither ever "repairs" an object: one that cannot be understood whole must
// be treated as absent.
//
// In a rule, a list without entries is the same as one that is not given: no limit. So a
// program that makes rules from lists must leave out the rule, not just the field, when a
// list runs empty.
//
// Names, of namespaces, tiers, nodes and profiles too, are 1 to 265 letters, digits and
// -_.:@+~ (no slash, no space).
//
// # Canonical values
//
// Addresses and prefixes are net/netip values. On reading JSON a bare address
// becomes a full-length prefix, host bits are cleared (12.1.0.0/8 is 12.0.0.0/8) and
// IPv4-mapped IPv6 forms are unmapped. Code that builds resources directly should
// do the same; Canonical does it for a whole resource.
//
// # Errors
//
// Decode returns a *DecodeError, Validate a *ValidationError. Both name the object and hold
// every problem with the path of its field, as in
// "egress[2].destination.ports[0]"; their text shows the first few. The Parse functions
// return plain errors.
//
// # Concurrency
//
// A resource that has been handed on in an Update must not be changed any more by
// anyone; readers may then share it freely. Clone makes a copy to edit.
package policy
