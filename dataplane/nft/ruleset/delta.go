// SPDX-License-Identifier: Apache-2.0

package ruleset

// Delta is a change of a table. After Prepare, the caller must not change the objects to which the
// Delta points. A deletion of an object that does not exist has no effect.
type Delta struct {
	// Chains are new, or replace chains with the same names.
	Chains       []*Chain
	DeleteChains []string
	// Sets are new, or replace sets with the same names. Each of them has all the elements of its
	// new state.
	Sets       []*Set
	DeleteSets []string
	// Elements changes the elements of sets that stay. It has at most one ElementDelta for each
	// set, and none for a set in Sets or DeleteSets.
	Elements []ElementDelta
	// Apart is a promise of the caller about the elements in ElementDelta.Add and Delete. The
	// promise is that each packet looks up at most one of these elements, and looks it up at most
	// once. Then the elements may change one after another, instead of all at the same moment. The
	// promise does not concern the elements in ElementDelta.Early and Late.
	Apart bool
	// whole is set by DeltaTo: the delta describes a whole table, which must have these flowtables
	// (normalized).
	whole      bool
	flowtables []*Flowtable
}

// ElementDelta changes the elements of one set. It adds the elements in Add and Early, and deletes
// those in Delete and Late. An added element replaces an element with the same key. A deleted
// element is identified by its key, and a deleted range also by its end. The verdict, data and
// comment of a deleted element are ignored.
//
// The elements in Add and Delete change at the same moment as the rest of the Delta. Early is for
// elements that no packet looks up before this moment: they are added first. Late is for elements
// that no packet looks up after this moment: they are deleted last.
//
// A key may be in both Add and Delete: the result is a new element. Otherwise, a key may be in only
// one of the four lists.
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
	DeleteTable           // with all its objects
	AddSet                // without elements
	DeleteSet             // with its elements
	AddElements           // none of the elements is in the set before
	DeleteElements        // all of the elements are in the set before
	AddChain              // without rules
	DeleteChain           // with its rules
	ChangePolicy          // of a base chain, whose rules stay
	InsertRule            // before the rule at Index, or at the end
	DeleteRule
	ReplaceRule
)

// Op is one operation on a table. A list of operations is one transaction. The operations apply in
// order, each to the result of the one before it. An Op shares memory with the Delta or the tables
// from which it was made.
type Op struct {
	Kind   OpKind
	Family Family
	Table  string
	// Chain is nil, except for operations on a chain or a rule. DeleteChain has the chain in its
	// old state. All other such operations have the chain in its state after the transaction.
	Chain *Chain
	// Set is nil, except for operations on a set or on elements. AddSet has the new set, and
	// DeleteSet the deleted one. AddElements and DeleteElements have the set that they change.
	// Set.Elements is not used: the elements to add or delete are in the field Elements below.
	Set *Set
	// Elements are the elements that AddElements adds or DeleteElements deletes.
	Elements []Element
	// Unseen means that no packet looks up the elements: they come from ElementDelta.Early or
	// ElementDelta.Late.
	Unseen bool
	// Apart is copied from the Delta.
	Apart bool
	// Index is the position of the rule of InsertRule, DeleteRule and ReplaceRule, counted from
	// zero.
	Index int
	// Rule is the new rule of InsertRule and ReplaceRule. For DeleteRule it is the deleted rule,
	// which an applier need not use.
	Rule Rule
}
