// SPDX-License-Identifier: Apache-2.0

package ruleset

// Table is the desired state of one nftables table. Sets and chains are kept sorted by
// name (see Normalize); rules are in the order of evaluation. It is plain data: reading it
// concurrently is safe as long as nobody changes it.
type Table struct {
	Family Family
	Name   string
	Sets   []*Set
	Chains []*Chain
}

// Family is the address family of a table.
type Family uint8

// The families supported so far.
const (
	// FamilyINet sees IPv4 and IPv6.
	FamilyINet Family = iota
)

// Chain is a list of rules: a base chain where Hook is set, otherwise one to jump or go to.
type Chain struct {
	Name  string
	Hook  *Hook
	Rules []Rule
}

// Hook attaches a base chain to the packet path. Type is always filter so far.
type Hook struct {
	Point    HookPoint
	Priority int
	// Policy is the verdict at the end of the chain: Accept or Drop.
	Policy Verdict
}

// HookPoint is a netfilter hook.
type HookPoint uint8

// The hooks, numbered as in the kernel (enum nf_inet_hooks).
const (
	Prerouting HookPoint = iota
	Input
	Forward
	Output
	Postrouting
)

// Rule is a list of matches, all of which must hold, then statements. The last statement may be a
// verdict.
type Rule struct {
	Matches    []Match
	Statements []Statement
	// Comment is kept in the rule's userdata, at most 128 bytes, as nft does.
	Comment string
}

// Set is a named set or, where Verdicts is set, a verdict map.
type Set struct {
	Name string
	// Key is the type of an element's key: one field type, or several for a concatenation.
	Key []Type
	// Interval says that elements may be ranges or prefixes. Not for concatenations. Elements must
	// be disjoint.
	Interval bool
	// Verdicts makes the set a verdict map.
	Verdicts bool
	Elements []Element
}

// Type is the data type of a key's part.
type Type uint8

// The types, with their nft names.
const (
	TypeIPv4       Type = iota + 1 // ipv4_addr
	TypeIPv6                       // ipv6_addr
	TypeProto                      // inet_proto
	TypeService                    // inet_service
	TypeIfname                     // ifname
	TypeICMP                       // icmp_type
	TypeICMPv6                     // icmpv6_type
	TypeICMPCode                   // icmp_code
	TypeICMPv6Code                 // icmpv6_code
	TypeNFProto                    // nf_proto
	TypeCtState                    // ct_state
)

// Element is one element of a set or map. Last is nil unless the element is a range (inclusive); a prefix is
// a range from its first to its last address.
type Element struct {
	Key     []Value
	Last    Value
	Verdict *Verdict
}

// Field is what a match looks at.
type Field uint8

// The fields, with their nft names. A field that belongs to one family or protocol
// does not by itself limit the rule to it: the renderer of a rule puts the matches on NFProto and L4Proto
// that make the field meaningful before it, and String leaves out those that nft implies.
const (
	IIFName    Field = iota + 1 // iifname
	OIFName                     // oifname
	NFProto                     // meta nfproto
	L4Proto                     // meta l4proto
	IPSaddr                     // ip saddr
	IPDaddr                     // ip daddr
	IP6Saddr                    // ip6 saddr
	IP6Daddr                    // ip6 daddr
	Sport                       // th sport
	Dport                       // th dport
	ICMPType                    // icmp type
	ICMPCode                    // icmp code
	ICMPv6Type                  // icmpv6 type
	ICMPv6Code                  // icmpv6 code
	CtState                     // ct state
)

// Match is a condition of a rule: Compare, Lookup or In. The set is closed.
type Match interface{ match() }

// Compare holds if the field equals (or, negated, does not equal) the value, or is in the inclusive
// range from Value to Last where Last is given. A Value of IIFName or OIFName that is
// shorter than IfnameSize holds for every interface whose name begins with it. A Value of CtState holds if
// the packet's state is one of its bits.
type Compare struct {
	Field Field
	Not   bool
	Value Value
	Last  Value
}

// Lookup holds if the concatenation of the fields is in the named set, or negated, is not.
type Lookup struct {
	Fields []Field
	Not    bool
	Set    string
}

// In holds if the concatenation of the fields is in an anonymous set of these elements.
type In struct {
	Fields   []Field
	Not      bool
	Elements []Element
}

// Statement is what a rule does: Verdict, VMap, Log or Counter. The set is closed.
type Statement interface{ statement() }

// VMap looks the fields up in a verdict map: the named one, or an anonymous one of Elements. No
// element, no verdict.
type VMap struct {
	Fields   []Field
	Map      string
	Elements []Element
}

// Log writes a line to the kernel log, at most 127 bytes of Prefix before it.
type Log struct{ Prefix string }

// Counter counts packets and bytes.
type Counter struct{}

// Verdict decides, or goes to another chain.
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

// Value is the kernel's form of one value of a field: network byte order for addresses, ports and ICMP,
// one byte for protocols, 16 bytes with zeros at the end for interface names, host byte order
// (4 bytes) for ct state.
type Value []byte

func (Compare) match()     {}
func (Lookup) match()      {}
func (In) match()          {}
func (Verdict) statement() {}
func (VMap) statement()    {}
func (Log) statement()     {}
func (Counter) statement() {}
