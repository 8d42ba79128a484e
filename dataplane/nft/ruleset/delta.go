// SPDX-License-Identifier: Apache-2.0

package ruleset

// Delta is a change of a table. The caller must not change what it points to afterwards. Deleting
// an object that does not exist does nothing.
type Delta struct {
	// Chains replace chains of the same name, or are new.
	Chains       []*Chain
	DeleteChains []string
	// Sets replace sets of the same name, or are new. They have all their elements.
	Sets       []*Set
	DeleteSets []string
	// Elements changes sets that stay: at most one ElementDelta a set, none for a set in Sets or
	// DeleteSets.
	Elements []ElementDelta
	// Apart is set if each packet looks up at most one of the changes, and that only once. Early and
	// Late elements do not count. So the changes need not take effect at one moment.
	Apart bool
	// whole is set by DeltaTo: the table must have these flowtables, which are normalized.
	whole      bool
	flowtables []*Flowtable
}

// ElementDelta changes the elements of one set. A deleted element is identified by its key (and its
// end, for ranges), whatever verdict, data or comment is given. An added element replaces one with
// the same key. A key that is both deleted and added gives a new element.
//
// Early elements are added before all other changes, and Late elements are deleted after them. No
// packet looks up an Early element before the other changes, nor a Late element after them. A key
// may be in both Add and Delete, but in no other two lists.
type ElementDelta struct {
	Set         string
	Add, Delete []Element
	Early, Late []Element
}

// OpKind is the kind of an operation.
type OpKind uint8

// The operations on a table.
const (
	AddTable       OpKind = iota + 1
	DeleteTable           // with all that is in it
	AddSet                // without elements
	DeleteSet             // with its elements
	AddElements           // none of which is there
	DeleteElements        // all of which are there
	AddChain              // without rules
	DeleteChain           // with its rules
	ChangePolicy          // of a base chain, whose rules stay
	InsertRule            // before the rule that has the Index, or at the end
	DeleteRule
	ReplaceRule
)

// Op is one operation on a table. A list of operations is one transaction: each applies to the
// table as the operations before it left it. An Op shares memory with its Delta or tables.
type Op struct {
	Kind   OpKind
	Family Family
	Table  string
	// Chain of AddChain and DeleteChain; of ChangePolicy and of operations on rules, in its new
	// state.
	Chain *Chain
	// Set of the operations on sets and elements, in its new state or, if it is deleted, in its old
	// one. Its Elements are not used.
	Set *Set
	// Elements of AddElements and DeleteElements.
	Elements []Element
	// Unseen is set if no packet looks up the elements: those of ElementDelta.Early and Late.
	Unseen bool
	// Apart is copied from the Delta.
	Apart bool
	// Index of InsertRule, DeleteRule and ReplaceRule, counted from zero.
	Index int
	// Rule of InsertRule and ReplaceRule, and for information of DeleteRule.
	Rule Rule
}
