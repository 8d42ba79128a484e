// SPDX-License-Identifier: Apache-2.0

package ruleset

import "time"

// Table is the desired state of one nftables table. Sets, flowtables and chains are sorted by name
// (see Normalize); rules are in the order of evaluation.
type Table struct {
	Family Family
	Name   string
	Sets   []*Set
	// Flowtables stay as they are while the table is there: no operation adds, changes or deletes one.
	Flowtables []*Flowtable
	Chains     []*Chain
}

// Family is the address family of a table.
type Family uint8

// The families of tables, with their nft names.
const (
	FamilyINet   Family = iota // inet: IPv4 and IPv6
	FamilyIPv4                 // ip
	FamilyIPv6                 // ip6
	FamilyBridge               // bridge
)

// Chain is a list of rules: a base chain where Hook is set, otherwise one to jump or go to.
type Chain struct {
	Name  string
	Hook  *Hook
	Rules []Rule
}

// Hook attaches a base chain to the packet path.
type Hook struct {
	Type     HookType
	Point    HookPoint
	Priority int
	// Policy is the verdict at the end of the chain: Accept or Drop.
	Policy Verdict
}

// HookType is what a base chain may do besides filtering.
type HookType uint8

// The types of base chains, with their nft names.
const (
	HookFilter HookType = iota // filter
	HookRoute                  // route: at Output, routes again packets whose mark or addresses it changes
	HookNAT                    // nat: sees the first packet of a connection and may translate it
)

// HookPoint is a netfilter hook, numbered as in the kernel.
type HookPoint uint8

// The hooks.
const (
	Prerouting HookPoint = iota
	Input
	Forward
	Output
	Postrouting
)

// Rule is a list of matches, all of which must hold, then statements, in their order. Only the last
// statement may be a verdict, a FlowAdd, or another one that ends the rule.
type Rule struct {
	Matches    []Match
	Statements []Statement
	// Comment is kept in the rule's userdata, at most 128 bytes, as nft does.
	Comment string
}

// Set is a named set; a verdict map where Verdicts is set; or a map to values where Data is not
// empty.
type Set struct {
	Name string
	// Key is the type of an element's key: one field type, or several for a concatenation.
	Key []Type
	// Data is the type of the values of a map: one type, or several for a concatenation (an address and a port).
	Data []Type
	// Interval is set if elements may be ranges or prefixes. Elements must be disjoint. Interval
	// sets of a concatenation change slowly in the kernel: 25 ms for each deletion at 10,000
	// elements.
	Interval bool
	// Verdicts makes the set a verdict map.
	Verdicts bool
	// Counter gives every element a counter of packets and bytes (Linux 5.7).
	Counter bool
	// Timeouts is set if elements may have a timeout. It is implied by Timeout and GCInterval.
	Timeouts bool
	// Timeout is how long elements without a Timeout of their own stay, in whole milliseconds; zero
	// means forever. The kernel removes them without a notification; the State keeps them.
	Timeout time.Duration
	// GCInterval is how often the kernel removes expired elements; zero means its default.
	GCInterval time.Duration
	// Size limits the number of elements; zero means no limit.
	Size uint32
	// DeleteAfterGrace makes the applier wait for a grace period before it deletes the set, because
	// the kernel empties a deleted set at once. Set it if a lookup depends on an earlier one, by a
	// value in skb->priority or skb->mark: a packet may be between the two. It is not part of the
	// kernel's set or of the text.
	DeleteAfterGrace bool
	// Comment is at most 128 bytes (Linux 5.10).
	Comment  string
	Elements []Element
}

// Element is one element of a set or map.
type Element struct {
	Key []Value
	// Last is nil unless the element of a set with one key field is a range (inclusive); a prefix is a range from
	// its first to its last address.
	Last Value
	// Ends are the inclusive ends of an element in an interval set of a concatenation: nil, or one
	// for each field of the key, which is the value itself where the field is no range.
	Ends []Value
	// Verdict of an element of a verdict map.
	Verdict *Verdict
	// Data is the value of an element of another map.
	Data []Value
	// Comment is at most 128 bytes.
	Comment string
	// Timeout is how long the element stays after it is added, in whole milliseconds. Zero means
	// the Timeout of its Set.
	Timeout time.Duration
}

// Verdict decides about a packet, or leads it to another chain.
type Verdict struct {
	Kind VerdictKind
	// Chain to jump or go to.
	Chain string
}

// VerdictKind is the kind of a verdict.
type VerdictKind uint8

// The verdicts.
const (
	Accept VerdictKind = iota + 1
	Drop
	Return
	Jump
	Goto
)

// Value is one value of a field in the kernel's form: host byte order if Type.HostOrder reports it
// (marks, states of connections), 16 bytes padded with zeros for interface names, otherwise network
// byte order.
type Value []byte

// Timed reports whether elements of the set may have timeouts.
func (s *Set) Timed() bool { return s.Timeouts || s.Timeout != 0 || s.GCInterval != 0 }

// Number returns the kernel's number of the family (NFPROTO_...).
func (f Family) Number() uint8 {
	switch f {
	case FamilyINet:
		return 1
	case FamilyIPv4:
		return 2
	case FamilyBridge:
		return 7
	case FamilyIPv6:
		return 10
	default:
		return 0
	}
}

// String returns the family's nft name.
func (f Family) String() string {
	switch f {
	case FamilyINet:
		return "inet"
	case FamilyIPv4:
		return "ip"
	case FamilyIPv6:
		return "ip6"
	case FamilyBridge:
		return "bridge"
	default:
		return "?"
	}
}

// String returns the nft name of the type.
func (t HookType) String() string {
	switch t {
	case HookFilter:
		return "filter"
	case HookRoute:
		return "route"
	case HookNAT:
		return "nat"
	default:
		return "?"
	}
}

// String returns the hook's nft name.
func (p HookPoint) String() string {
	names := [...]string{"prerouting", "input", "forward", "output", "postrouting"}
	if int(p) < len(names) {
		return names[p]
	}
	return "?"
}
