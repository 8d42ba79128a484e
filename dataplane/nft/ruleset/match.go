// SPDX-License-Identifier: Apache-2.0

package ruleset

import "slices"

// Match is a condition of a rule: a Compare, Lookup, In or Raw. Other packages cannot define
// matches.
type Match interface{ match() }

// Compare matches if the field equals Value. If Last is set, it matches values from Value to Last,
// inclusive. With a Mask, only the bits of the mask are compared. If Not is set, the result is
// negated.
//
// If the field is an interface name, a Value of IfnameSize bytes (see Ifname) matches only that
// name. A shorter Value (see IfnamePrefix) matches all names that begin with it.
//
// The types of some fields consist of bits (Type.Bits: ct state, ct status, tcp flags). For such a
// field and without a Mask, Compare matches if the field and Value have at least one bit in common.
// With Not, it matches if they have none in common.
type Compare struct {
	Field Field
	Not   bool
	Value Value
	Last  Value
	// Mask is nil, or has the length of Value. Value has no bit outside the mask. A range has no
	// Mask.
	Mask Value
}

// Whole reports whether there is a Mask with all bits set.
func (c *Compare) Whole() bool {
	return c.Mask != nil && !slices.ContainsFunc(c.Mask, func(b byte) bool { return b != 0xff })
}

// Lookup matches if the concatenation of the fields is in the named set. If Not is set, it matches
// if the concatenation is not in the set.
type Lookup struct {
	Fields []Field
	Not    bool
	Set    string
}

// In looks the concatenation of the fields up in an anonymous set of the elements. It matches if
// the concatenation is in this set. If Not is set, it matches if the concatenation is not in the
// set.
type In struct {
	Fields   []Field
	Not      bool
	Elements []Element
}

// Raw is a match or statement for which this package has no type. It has the kernel's expressions
// and their nft syntax. The caller must ensure that the two mean the same. The simulator refuses
// rules with a Raw.
type Raw struct {
	// Text is nft syntax. Without Text, the rule can be programmed, but nft refuses the text that
	// Rule.String returns.
	Text string
	// Expressions are the kernel's expressions, in order. Each is the payload of one NFTA_LIST_ELEM
	// attribute: the attributes NFTA_EXPR_NAME and NFTA_EXPR_DATA. Without Expressions, the rule
	// can be printed but not programmed.
	Expressions [][]byte
	// Sets and Chains are the names of the objects to which the expressions refer. These objects
	// must outlive the rule.
	Sets, Chains []string
}

func (Compare) match() {}
func (Lookup) match()  {}
func (In) match()      {}
func (Raw) match()     {}

// matchFields returns the fields of a match, in order.
func matchFields(m Match) []Field {
	switch m := m.(type) {
	case Compare:
		return []Field{m.Field}
	case Lookup:
		return m.Fields
	case In:
		return m.Fields
	default:
		return nil
	}
}
