// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"
)

// State is a table that changes. It keeps the chains as they were given, and stores the elements of
// sets in a form that takes little memory. Prepare checks a change and computes the operations that
// it consists of. The time for this is proportional to the change. Commit applies the change.
//
// Only one goroutine at a time may use a State.
type State struct {
	family       Family
	name         string
	chains, sets map[string]*object
	flowtables   []*Flowtable // normalized
	generation   uint64
}

// object is a chain or a set of a State.
type object struct {
	name  string
	chain *Chain // nil for a set
	set   *Set   // nil for a chain; without elements
	store *store
	// verdicts has the verdicts of a verdict map, numbered.
	verdicts verdictTable
	// extras has the rare attributes of elements, by the id of the element's record.
	extras map[string]extra
	// refs counts the references to this object: those of the rules of each chain, and those of the
	// distinct verdicts of each map.
	refs map[*object]int32
	// level is at least the greatest number of jumps that lead to the object. A deletion of rules
	// does not lower it, until a level gets too high.
	level int32
}

// extra has attributes that few elements have, besides key and data.
type extra struct {
	comment string
	timeout time.Duration
}

func (e *Element) extra() extra { return extra{e.Comment, e.Timeout} }

// verdictTable numbers the verdicts of a map, and counts the elements with each verdict.
type verdictTable struct {
	entries []verdictEntry
	numbers map[Verdict]uint32
	free    []uint32
}

type verdictEntry struct {
	verdict Verdict
	count   int
}

// count returns the number of elements with the verdict.
func (t *verdictTable) count(v Verdict) int {
	if n, ok := t.numbers[v]; ok {
		return t.entries[n].count
	}
	return 0
}

// add counts another element with the verdict, and returns the number of the verdict.
func (t *verdictTable) add(v Verdict) uint32 {
	n, ok := t.numbers[v]
	if !ok {
		if t.numbers == nil {
			t.numbers = map[Verdict]uint32{}
		}
		if last := len(t.free) - 1; last >= 0 {
			n, t.free = t.free[last], t.free[:last]
			t.entries[n] = verdictEntry{verdict: v}
		} else {
			n = uint32(len(t.entries))
			t.entries = append(t.entries, verdictEntry{verdict: v})
		}
		t.numbers[v] = n
	}
	t.entries[n].count++
	return n
}

// drop counts one element less with the verdict of number n.
func (t *verdictTable) drop(n uint32) {
	e := &t.entries[n]
	if e.count--; e.count == 0 {
		delete(t.numbers, e.verdict)
		*e = verdictEntry{}
		t.free = append(t.free, n)
	}
}

func (t *verdictTable) clone() verdictTable {
	return verdictTable{slices.Clone(t.entries), maps.Clone(t.numbers), slices.Clone(t.free)}
}

// verdictNumber returns the number of the verdict in a record of a verdict map.
func verdictNumber(rec []byte) uint32 { return binary.NativeEndian.Uint32(rec[len(rec)-verdictLen:]) }

// NewState returns the state of an empty table.
func NewState(family Family, name string) *State {
	return &State{family: family, name: name, chains: map[string]*object{}, sets: map[string]*object{}}
}

// StateOf returns the state of a table.
//
// Errors: those of Validate.
func StateOf(t *Table) (*State, error) {
	s, c, err := t.prepare()
	if err != nil {
		return nil, err
	}
	s.Commit(c)
	return s, nil
}

// prepare returns the state of an empty table, and the change that adds all objects of t.
func (t *Table) prepare() (*State, *Change, error) {
	s := NewState(t.Family, t.Name)
	s.flowtables = normalFlowtables(t.Flowtables)
	c, err := s.Prepare(&Delta{Chains: t.Chains, Sets: t.Sets})
	return s, c, err
}

// Family returns the family of the table.
func (s *State) Family() Family { return s.family }

// Chain returns the chain with the name, or nil. The caller must not change it.
func (s *State) Chain(name string) *Chain {
	if o := s.chains[name]; o != nil {
		return o.chain
	}
	return nil
}

// Set returns the set with the name, without its elements, or nil. The caller must not change it.
func (s *State) Set(name string) *Set {
	if o := s.sets[name]; o != nil {
		return o.set
	}
	return nil
}

// Len returns the number of elements of the set with the name.
func (s *State) Len(set string) int {
	if o := s.sets[set]; o != nil {
		return o.store.n
	}
	return 0
}

// Table returns the state as a normalized table. It shares flowtables and chains with the state.
func (s *State) Table() *Table {
	t := &Table{Family: s.family, Name: s.name, Flowtables: slices.Clone(s.flowtables), Chains: s.Chains()}
	for _, o := range s.sets {
		set := *o.set
		set.Elements = o.elements()
		t.Sets = append(t.Sets, &set)
	}
	slices.SortFunc(t.Sets, func(a, b *Set) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(t.Chains, func(a, b *Chain) int { return cmp.Compare(a.Name, b.Name) })
	return t
}

// elements returns the set's elements in order.
func (o *object) elements() []Element {
	if o.store.n == 0 {
		return nil
	}
	st, recs := o.store, o.store.sorted()
	out := make([]Element, 0, st.n)
	for at := 0; at < len(recs); at += st.stride {
		out = append(out, o.element(recs[at:at+st.stride]))
	}
	return out
}

// element returns the element that a record stands for.
func (o *object) element(rec []byte) Element {
	e := o.store.element(rec)
	if o.store.verdicts {
		v := o.verdicts.entries[verdictNumber(rec)].verdict
		e.Verdict = &v
	}
	if x, ok := o.extras[string(rec[:o.store.id])]; ok {
		e.Comment, e.Timeout = x.comment, x.timeout
	}
	return e
}

// Clone returns an independent copy. The copy has its own elements of sets. It shares with the
// state only what never changes: chains, flowtables, and sets without their elements.
func (s *State) Clone() *State {
	c := NewState(s.family, s.name)
	c.flowtables = s.flowtables
	copies := make(map[*object]*object, len(s.chains)+len(s.sets))
	for from, to := range map[*map[string]*object]map[string]*object{&s.chains: c.chains, &s.sets: c.sets} {
		for name, o := range *from {
			n := *o
			n.verdicts, n.extras = o.verdicts.clone(), maps.Clone(o.extras)
			if o.store != nil {
				n.store = o.store.clone()
			}
			to[name], copies[o] = &n, &n
		}
	}
	for o, n := range copies {
		n.refs = make(map[*object]int32, len(o.refs))
		for from, count := range o.refs {
			n.refs[copies[from]] = count
		}
	}
	return c
}
