// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"hash/maphash"
	"math"

	"github.com/wayleave/wayleave/internal/idtable"
)

// store is the index on numbers instead of the caller's ids. It collects changes of matches, which
// the Index reports.
//
// A query is a distinct selector, which has one or more ids.
type store struct {
	vocabulary
	itemIDs *idtable.IDs // allocated by the Index
	item    idtable.Column[item]
	parents idtable.Map[string, parent]
	queries idtable.Map[string, query] // by canonical form
	loose   set                        // queries that are filed under no term

	changes []change
	view    view
	epoch   uint64
	matches int
	evals   uint64
	refiled uint64

	// Buffers of the current call.
	incoming, candidates, ids []uint32
	changed                   []uint32 // names that may have another value, sorted
	changedPairs              []uint32 // pairs with queries that were added or removed
	refileQueue               []uint32 // queries whose miss limit is reached
}

// item is a labelled object.
type item struct {
	labels  list // own pairs, sorted
	parents list // in the order of the caller
}

// parent has the labels that items inherit from it. It is stored as long as it exists or an item
// names it.
type parent struct {
	labels list // pairs, sorted
	items  set  // items that name it
	exists bool
}

// change is a match that started or stopped. From the high bits down, it has 31 bits of the query,
// 32 bits of the item, and one more bit. This bit is set if the match started. So sorting the
// numbers sorts by query, then item.
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

// nextEpoch returns a new epoch, in which nothing is marked as seen yet.
func (s *store) nextEpoch() uint64 {
	s.epoch++
	return s.epoch
}

// maxBuffer is the capacity, in elements, up to which buffers are kept between calls.
const maxBuffer = 1024

// releaseBuffers resets the buffers of a call, and frees those that are large.
func (s *store) releaseBuffers() {
	buffers := []*[]uint32{&s.incoming, &s.candidates, &s.ids, &s.changed, &s.changedPairs, &s.refileQueue}
	for _, buffer := range buffers {
		if cap(*buffer) > maxBuffer {
			*buffer = nil
		}
	}
	if cap(s.changes) > maxBuffer {
		s.changes = nil
	}
	s.changes = s.changes[:0]
	s.view.own, s.view.parents = nil, nil
}
