// SPDX-License-Identifier: Apache-2.0

package ruleset

import "time"

// Table is the desired state of one nftables table. Sets, flowtables and chains are sorted by name
// (see Normalize). Rules are in the order of evaluation.
type Table struct {
	Family Family
	Name   string
	Sets   []*Set
	// Flowtables stay the same as long as the table exists: no operation adds, changes or deletes
	// one.
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

// Chain is a list of rules. If Hook is set, it is a base chain; otherwise rules jump or go to it.
type Chain struct {
	Name  string
	Hook  *Hook
	Rules []Rule
}

// Hook attaches a base chain to a hook of the packet path.
type Hook struct {
	Type     HookType
	Point    HookPoint
	Priority int
	// Policy is the verdict at the end of the chain: Accept or Drop.
	Policy Verdict
}

// HookType is the type of a base chain. All types can filter.
type HookType uint8

// The types of base chains, with their nft names.
const (
	HookFilter HookType = iota // filter
	HookRoute                  // route: in the hook output, packets whose mark or addresses it changes are routed again
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

// Rule has matches and statements. If a packet satisfies all matches, the statements run in order.
// Only the last statement may be a verdict, a FlowAdd, or another statement that ends the rule.
type Rule struct {
	Matches    []Match
	Statements []Statement
	// Comment is at most 128 bytes. The applier stores it in the rule's userdata, as nft does.
	Comment string
}

// Set is a named set or map. If Verdicts is set, it is a verdict map. If Data is not empty, it is a
// map of keys to values.
type Set struct {
	Name string
	// Key is the type of the keys: one type, or several for a concatenation.
	Key []Type
	// Data is the type of the values of a map: one type, or several for a concatenation (an address
	// and a port).
	Data []Type
	// Interval is set if elements may be ranges or prefixes. Elements must be disjoint. The kernel
	// is slow at changes of an interval set with several key fields: with 10,000 elements, each
	// deletion takes 25 ms.
	Interval bool
	// Verdicts makes the set a verdict map.
	Verdicts bool
	// Counter adds a counter of packets and bytes to every element (Linux 5.7).
	Counter bool
	// Timeouts is set if elements may have a timeout. If Timeout or GCInterval is set, Timeouts
	// need not be set.
	Timeouts bool
	// Timeout is how long an element without a Timeout of its own stays, in whole milliseconds.
	// Zero means forever. The kernel removes expired elements without a notification; a State keeps
	// them.
	Timeout time.Duration
	// GCInterval is the interval at which the kernel removes expired elements. Zero means the
	// kernel's default.
	GCInterval time.Duration
	// Size limits the number of elements; zero means no limit.
	Size uint32
	// DeleteAfterGrace makes the applier wait for a grace period before it deletes the set. Set it
	// if rules look up a packet twice. A first lookup writes a value to skb->priority or skb->mark.
	// This value is the key for a second lookup, in this set. The kernel empties a deleted set at
	// once. So without the grace period, a packet between the two lookups would find nothing. This
	// property is only for the applier: neither the kernel's set nor the text of the table has it.
	DeleteAfterGrace bool
	// Comment is at most 128 bytes (Linux 5.10).
	Comment  string
	Elements []Element
}

// Element is one element of a set or map.
type Element struct {
	Key []Value
	// Last is used only in interval sets with one key field. If the element is a range, Last is the
	// inclusive end of the range. Otherwise it is nil. A prefix is a range from its first to its
	// last address.
	Last Value
	// Ends is used only in interval sets with several key fields. If a field of the element is a
	// range, Ends has the inclusive end of each field. The end of a field that is not a range is
	// the value itself, or nil. If no field is a range, Ends may be nil.
	Ends []Value
	// Verdict is set for an element of a verdict map.
	Verdict *Verdict
	// Data is the value of an element of a map. It is nil in sets and verdict maps.
	Data []Value
	// Comment is at most 128 bytes.
	Comment string
	// Timeout is the time for which the element stays after it is added, in whole milliseconds.
	// Zero means the Timeout of its Set.
	Timeout time.Duration
}

// Verdict accepts or drops a packet, or continues in another chain.
type Verdict struct {
	Kind VerdictKind
	// Chain is the name of the chain to jump or go to.
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

// Value has the bytes of one value of a field, as the kernel stores them. If Type.HostOrder is true
// (marks, states of connections), the bytes are in host byte order. An interface name has 16 bytes,
// padded with zeros. All other values are in network byte order.
type Value []byte

// Timed reports whether elements of the set may have timeouts.
func (s *Set) Timed() bool { return s.Timeouts || s.Timeout != 0 || s.GCInterval != 0 }

// Number returns the kernel's number of the family (NFPROTO_...).
func (f Family) Number() uint8 {
	if f > FamilyBridge {
		return 0
	}
	return [...]uint8{FamilyINet: 1, FamilyIPv4: 2, FamilyIPv6: 10, FamilyBridge: 7}[f]
}

// String returns the family's nft name.
func (f Family) String() string { return nameOf(f, "inet", "ip", "ip6", "bridge") }

// String returns the nft name of the type.
func (t HookType) String() string { return nameOf(t, "filter", "route", "nat") }

// String returns the hook's nft name.
func (p HookPoint) String() string {
	return nameOf(p, "prerouting", "input", "forward", "output", "postrouting")
}

// nameOf returns the name of a constant: the names are in the order of the constants, from zero on.
// For an unknown number, it returns "?".
func nameOf[T ~uint8](n T, names ...string) string {
	if int(n) < len(names) {
		return names[n]
	}
	return "?"
}
