// SPDX-License-Identifier: Apache-2.0

package ruleset

// Delta says what becomes different in a table. What it points to must not change any more once it has been
// handed over. Deleting what is not there does nothing.
type Delta struct {
	// Chains come in the place of those of the same name, or are new.
	Chains       []*Chain
	DeleteChains []string
	// Sets likewise, with all their elements.
	Sets       []*Set
	DeleteSets []string
	// Elements change in sets that stay: at most one ElementDelta a set, none for a set in Sets or DeleteSets.
	Elements []ElementDelta
	// Apart is set if each packet looks up at most one of the changes, and that only once. Early and
	// Late elements do not count. So the changes need not take effect at one moment.
	Apart bool
}

// ElementDelta changes the elements of one set. Deleted are those with the same key (and end, if
// they are ranges), whatever verdict, data or comment is given. An added one comes in the place of
// one with the same key. A key may be deleted and added at once, which puts the element in anew. It
// is plain data.
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

// Op is one operation on a table. A list of them is one transaction, and each means the table as
// the ones before it left it. It is plain data, and shares what it points to with the Delta or the
// tables it was made from.
type Op struct {
	Kind   OpKind
	Family Family
	Table  string
	// Chain of AddChain and DeleteChain; of ChangePolicy and the rules' operations as it will be in the end.
	Chain *Chain
	// Set of the operations on sets and elements: as it will be in the end, or was, where it is deleted. Its
	// Elements are not to be looked at.
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
