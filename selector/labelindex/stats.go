// SPDX-License-Identifier: Apache-2.0

package labelindex

// Stats has counts of the contents and the work of an Index.
type Stats struct {
	// Items, Parents and Selectors count ids. Parents includes parents that items name and that do
	// not exist.
	Items, Parents, Selectors int
	// Queries counts distinct selectors. LooseQueries counts the distinct selectors that require no
	// particular label: each of them is evaluated for every new item.
	Queries, LooseQueries int
	// Names counts the distinct label names of items, parents and selectors. Pairs counts the
	// distinct pairs of name and value.
	Names, Pairs int
	// Matches counts pairs of an item and a distinct selector that matches it.
	Matches int
	// Evaluations counts the evaluations of a selector for an item since New.
	Evaluations uint64
	// Refilings counts how often a selector was moved from one label to another, because the first
	// one had become common.
	Refilings uint64
}

// Stats returns the current counts. It takes constant time.
func (x *Index[I, S]) Stats() Stats {
	s := &x.store
	return Stats{
		Items: x.items.Len(), Parents: s.parents.Len(), Selectors: x.selectors.Len(),
		Queries: s.queries.Len(), LooseQueries: int(s.loose.n),
		Names: s.names.Len(), Pairs: s.pairs.Len(),
		Matches: s.matches, Evaluations: s.evals, Refilings: s.refiled,
	}
}
