// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"hash/maphash"
	"math"

	"github.com/wayleave/wayleave/internal/idtable"
)

// store is the index without the caller's keys: items, parents and queries are known by number.
//
// A query is a selector that is held under one or more ids. Changes of matches are collected in
// changes, for the Index to report.
type store struct {
	vocabulary
	itemIDs *idtable.IDs // handed out by the Index
	item    idtable.Column[item]
	parents idtable.Map[string, parent]
	queries idtable.Map[string, query] // by canonical form
	loose   set                        // queries that are filed nowhere

	changes []change
	view    view
	epoch   uint64
	matches int
	evals   uint64
	refiled uint64

	// Room to work in, of the call in progress.
	incoming, candidates, ids []uint32
	changed                   []uint32 // names that may have other values, sorted
	gone                      []uint32 // pairs that came or went under which queries are filed
	refileQueue               []uint32 // queries that may move
}

// item is a labelled object.
type item struct {
	labels  list // pairs of its own, sorted
	parents list // in the order given
}

// parent has labels for the items that name it. It is kept as long as it exists or is named.
type parent struct {
	labels list // pairs, sorted
	items  set  // that name it
	exists bool
}

// change is one match that started or stopped: from the high bits down 31 bits of the query, 32 of
// the item, and one for whether it started. So changes sort as numbers.
type change uint64

func newChange(queryID, itemID uint32, started bool) change {
	c := change(queryID)<<33 | change(itemID)<<1
	if started {
		c |= 1
	}
	return c
}

func (c change) query() uint32 { return uint32(c >> 33) }

func (c change) item() uint32 { return uint32(c >> 1 & math.MaxUint32) }

func (c change) started() bool { return c&1 != 0 }

func newStore(seed maphash.Seed, itemIDs *idtable.IDs) store {
	return store{
		vocabulary: vocabulary{names: newMap[string, name](seed), pairs: newMap[pairKey, pair](seed)},
		itemIDs:    itemIDs,
		parents:    newMap[string, parent](seed),
		queries:    newMap[string, query](seed),
	}
}

// newest returns a new epoch, in which nothing has been seen yet.
func (s *store) newest() uint64 {
	s.epoch++
	return s.epoch
}

// maxRoom is how many words of room to work in stay between calls.
const maxRoom = 1024

// tidy gives back the room that a large call has taken.
func (s *store) tidy() {
	for _, room := range []*[]uint32{&s.incoming, &s.candidates, &s.ids, &s.changed, &s.gone, &s.refileQueue} {
		if cap(*room) > maxRoom {
			*room = nil
		}
	}
	if cap(s.changes) > maxRoom {
		s.changes = nil
	}
	s.changes = s.changes[:0]
	s.view.own, s.view.parents = nil, nil
}
