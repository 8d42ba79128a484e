// SPDX-License-Identifier: Apache-2.0

package labelindex

// Stats counts what an Index holds and has done.
//
// It is a plain value, a copy that the index does not change.
type Stats struct {
	// Items, Parents and Selectors count what is held under an id. Parents that items name count
	// also before they exist.
	Items, Parents, Selectors int
	// Queries counts the distinct selectors, and LooseQueries those of them that no label helps to
	// find: every new item is compared with each.
	Queries, LooseQueries int
	// Names counts the distinct label names of items, parents and selectors, Pairs the distinct
	// names with a value.
	Names, Pairs int
	// Matches counts the pairs of an item and a distinct selector that matches it.
	Matches int
	// Evaluations counts how often an item was compared with a selector, since the index was made.
	Evaluations uint64
	// Refilings counts how often a selector was filed anew, since the label it was filed under had
	// become common.
	Refilings uint64
}

// Stats returns how much the index holds and has done. It takes constant time.
func (x *Index[I, S]) Stats() Stats {
	s := &x.store
	return Stats{
		Items: x.items.Len(), Parents: s.parents.Len(), Selectors: x.selectors.Len(),
		Queries: s.queries.Len(), LooseQueries: int(s.loose.n),
		Names: s.names.Len(), Pairs: s.pairs.Len(),
		Matches: s.matches, Evaluations: s.evals, Refilings: s.refiled,
	}
}
