// SPDX-License-Identifier: Apache-2.0

package policy

// Rule is one step of a policy or profile. All its fields must match (AND); the entries
// of one list are alternatives (OR); a negated field must match none of its entries.
// A rule with no criterion matches every packet. A list without entries is the same as
// none, everywhere. Readers may share a Rule that nobody changes.
type Rule struct {
	// Action to take. Required: a rule without an action is invalid.
	Action Action `json:"action"`
	// IPVersion limits the rule to IPv4 (4) or IPv6 (6). 0 means both; JSON leaves the field
	// out for that.
	IPVersion int `json:"ipVersion,omitempty"`
	// Protocol of the packet, by name or number. ICMP counts for IPv4 only, ICMPv6 for
	// IPv6 only. 0 means any.
	Protocol Protocol `json:"protocol,omitzero"`
	// NotProtocol excludes a protocol. 0 means none.
	NotProtocol Protocol `json:"notProtocol,omitzero"`
	// ICMP limits the rule to an ICMP type, or type and code. It needs Protocol ICMP or ICMPv6. Nil
	// means every type.
	ICMP *ICMP `json:"icmp,omitempty"`
	// NotICMP excludes an ICMP type, or just one code of a type. It needs Protocol ICMP or
	// ICMPv6. Nil means none.
	NotICMP *ICMP `json:"notICMP,omitempty"`
	// HeaderMatch has the fields that match the packet's IP header. In JSON they are members of the
	// rule.
	HeaderMatch
	// Source of the packet. The zero value means any.
	Source EntityRule `json:"source,omitzero"`
	// Destination of the packet, after destination NAT but for policies that are PreDNAT or
	// DoNotTrack. The zero value means any.
	Destination EntityRule `json:"destination,omitzero"`
	// Metadata is carried along for the reader; it never changes a verdict. Nil means none.
	Metadata *RuleMetadata `json:"metadata,omitempty"`
	// Doubts are the reasons for which the rule was closed, see Close; a rule that is understood
	// has none. Their fields are paths in the object that the rule was written in. Only rules of
	// policies may have doubts.
	Doubts []Problem `json:"doubts,omitempty"`
}

// Action is what a rule does with a packet that it matches. Action is a plain value; it
// is safe for concurrent use.
type Action string

// The actions.
const (
	// Allow lets the packet go on; final for the direction.
	Allow Action = "Allow"
	// Deny drops the packet; final.
	Deny Action = "Deny"
	// Pass leaves the tier: the next tier decides, after the last one the profiles.
	Pass Action = "Pass"
	// Log writes a kernel log line and goes on with the next rule.
	Log Action = "Log"
)

// ICMP is a type, or a type and code, of ICMP or ICMPv6. Readers may share one that
// nobody changes.
type ICMP struct {
	// Type, 0 to 254. Required; type 0 is a real value (echo reply).
	Type *int `json:"type,omitempty"`
	// Code, 0 to 255. Nil means every code of the type.
	Code *int `json:"code,omitempty"`
}

// EntityRule says which packets match on one side, source or destination. Readers may
// share one that nobody changes.
type EntityRule struct {
	// Nets that the address must be in one of. Empty means no limit. Prefixes of both
	// families may be mixed: the rule then counts, per family, with the prefixes of that
	// family, and not at all for a family that has none. 0.0.0.0/0 is any IPv4 address,
	// not any address.
	Nets Nets `json:"nets,omitempty"`
	// NotNets that the address must be in none of. Empty means no limit. Prefixes of the other
	// family than the packet's exclude nothing: a rule with notNets 10.0.0.0/8 alone matches every
	// IPv6 address.
	NotNets Nets `json:"notNets,omitempty"`
	// Selector over the labels of endpoints and network sets: the address must be that
	// of one that matches. Empty means no limit. In a namespaced policy it sees only
	// objects of the same namespace unless NamespaceSelector is given.
	Selector string `json:"selector,omitempty"`
	// NotSelector excludes the addresses of matching endpoints and network sets. Empty means
	// none.
	//
	// With Selector, NamespaceSelector or ServiceAccounts beside it, or in a namespaced
	// policy (which by itself limits the peers to its namespace), the two are one set:
	// those who match the rest and not this. On its own in a global policy it
	// excludes nobody but those who match: an address that is no endpoint's passes.
	NotSelector string `json:"notSelector,omitempty"`
	// NamespaceSelector over the labels of namespaces: only endpoints and network sets
	// in matching namespaces count. "all()" means in any namespace, "global()" means not
	// namespaced, as host endpoints are. Empty means the policy's own namespace where a
	// selector is given, or no limit in a global policy.
	//
	// One that is true without a label (env != "prod", !has(env)) matches what has no namespace
	// too: host endpoints, global network sets, and with them perhaps the whole internet. With
	// "all() &&" before it, it does not.
	NamespaceSelector string `json:"namespaceSelector,omitempty"`
	// ServiceAccounts limits the endpoints by their service account. Nil means no limit;
	// a value that names nothing is invalid.
	ServiceAccounts *ServiceAccounts `json:"serviceAccounts,omitempty"`
	// Services limits the peer to the backends of a service. It stands in the source of ingress
	// rules, where it means their addresses alone, and in the destination of egress rules, where
	// it means their addresses, protocols and ports; elsewhere it is invalid. Nil means no limit.
	//
	// It excludes Nets, NotNets, Selector, NotSelector, NamespaceSelector, ServiceAccounts, Ports
	// and NotPorts on the same side. The rule needs no Protocol for it; where one is given, both
	// must match, as with every other field.
	Services *ServiceMatch `json:"services,omitempty"`
	// Ports that the packet's port must be one of: numbers, ranges and names. Empty means no
	// limit. Numbers and ranges need a Protocol that has ports; a name alone brings its own.
	Ports []Port `json:"ports,omitempty"`
	// NotPorts that the packet's port must be none of. Empty means no limit. Numbers need a
	// Protocol as with Ports.
	NotPorts []Port `json:"notPorts,omitempty"`
}

// IsZero reports whether e limits nothing.
func (e EntityRule) IsZero() bool { return e.equal(&EntityRule{}) }

// ServiceAccounts selects endpoints by service account. Both fields must match where
// both are given; one must be. Readers may share a value that nobody changes.
type ServiceAccounts struct {
	// Names of service accounts, any of which will do. Empty means any name.
	Names []string `json:"names,omitempty"`
	// Selector over the labels of service accounts. Empty means any. One that is true without a
	// label (role != "bot") matches what has no account too: host endpoints and network sets.
	Selector string `json:"selector,omitempty"`
}

// ServiceMatch names a service, whose backends (see ServiceBackends) a rule then matches. A
// service without backends matches nothing. Readers may share a value that nobody changes.
type ServiceMatch struct {
	// Name of the service. Required.
	Name string `json:"name"`
	// Namespace of the service. Empty means the namespace of the policy; required in a
	// policy without one, and in profiles.
	Namespace string `json:"namespace,omitempty"`
}

// RuleMetadata is information about a rule for people and tools. Readers may share one
// that nobody changes.
type RuleMetadata struct {
	// Annotations are free keys and values, shown in explanations.
	Annotations map[string]string `json:"annotations,omitempty"`
}
