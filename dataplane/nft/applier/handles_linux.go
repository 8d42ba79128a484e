// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"slices"
)

// echoes limits the new rules of a transaction that requests echoes. Each echo costs the kernel a
// page until the commit.
const echoes = 64

// slot is one rule of a chain while a transaction is being written. If the rule has no handle yet,
// the sequence number of its message identifies it.
type slot struct {
	handle uint64
	id     uint32
}

// handles keeps the handles of rules. The kernel assigns a handle to each rule. It returns the
// handles of a small transaction in echoes. After a large one, the handles of a chain are read when
// they are needed. known has all handles of a chain in order, for each chain whose handles are
// known.
type handles struct {
	known map[string][]uint64
	// work has the chains that the current transaction changes, in their new state. doomed has the
	// chains that it deletes.
	work   map[string][]slot
	doomed []string
	read   func(chain string) ([]uint64, error)
}

func newHandles(read func(string) ([]uint64, error)) *handles {
	return &handles{known: map[string][]uint64{}, work: map[string][]slot{}, read: read}
}

// chain returns the slots of a chain.
func (h *handles) chain(name string) ([]slot, error) {
	if slots, ok := h.work[name]; ok {
		return slots, nil
	}
	known, ok := h.known[name]
	if !ok {
		var err error
		if known, err = h.read(name); err != nil {
			return nil, err
		}
		h.known[name] = known
	}
	slots := make([]slot, len(known), len(known)+1)
	for i, handle := range known {
		slots[i].handle = handle
	}
	h.work[name] = slots
	return slots, nil
}

// add records a new chain without rules.
func (h *handles) add(chain string) { h.work[chain] = nil }

func (h *handles) insert(chain string, index int, s slot) {
	h.work[chain] = slices.Insert(h.work[chain], index, s)
}

func (h *handles) remove(chain string, index int) {
	h.work[chain] = slices.Delete(h.work[chain], index, index+1)
}

func (h *handles) replace(chain string, index int, s slot) { h.work[chain][index] = s }

// drop records that a chain is deleted.
func (h *handles) drop(chain string) {
	delete(h.work, chain)
	h.doomed = append(h.doomed, chain)
}

// commit records the effects of the committed transaction. echoed has the handles of new rules, by
// the sequence numbers of their messages.
func (h *handles) commit(echoed map[uint32]uint64) {
	for _, chain := range h.doomed {
		delete(h.known, chain)
	}
	for chain, slots := range h.work {
		known, ok := slices.Grow(h.known[chain][:0], len(slots)), true
		for _, s := range slots {
			if s.handle == 0 {
				s.handle = echoed[s.id]
			}
			ok = ok && s.handle != 0
			known = append(known, s.handle)
		}
		if ok {
			h.known[chain] = known
		} else {
			delete(h.known, chain)
		}
	}
	h.forget()
}

// forget discards the changes of a transaction that was written but not committed. Every
// transaction begins with it.
func (h *handles) forget() {
	clear(h.work)
	h.doomed = h.doomed[:0]
}

// reset replaces all handles by those that were read with the table.
func (h *handles) reset(known map[string][]uint64) {
	h.forget()
	h.known = known
}
