// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/wayleave/wayleave/dataplane"

// maxHistory limits the number of events and set members in a history.
const maxHistory = 50_000

// history has the last batches, for a client that reconnects.
type history struct {
	// generation is the number of the state after the last batch.
	generation uint64
	batches    []dataplane.Batch
	// size is the number of events and set members in batches.
	size int
}

// add appends a batch, and returns the generation of the state after it. A batch without events
// does not change the generation.
func (h *history) add(b dataplane.Batch) uint64 {
	if b.Empty() {
		return h.generation
	}
	h.generation++
	h.batches = append(h.batches, b)
	h.size += sizeOf(b)
	for h.size > maxHistory {
		h.size -= sizeOf(h.batches[0])
		h.batches[0] = dataplane.Batch{} // the array keeps the element, so release the batch
		h.batches = h.batches[1:]
	}
	return h.generation
}

// reset removes all batches. Afterwards, since finds no batches for an earlier generation.
func (h *history) reset() {
	*h = history{generation: h.generation + 1}
}

// since returns the batches after a generation, if the history has them.
func (h *history) since(generation uint64) (batches []dataplane.Batch, ok bool) {
	first := h.generation - uint64(len(h.batches)) // the generation before the first batch
	if generation < first || generation > h.generation {
		return nil, false
	}
	return h.batches[generation-first:], true
}

// sizeOf returns the number of events and members of a batch.
func sizeOf(b dataplane.Batch) int {
	size := 0
	for _, e := range b.Events {
		size++
		switch e := e.(type) {
		case *dataplane.IPSetUpdate:
			size += len(e.Members)
		case *dataplane.IPSetDelta:
			size += len(e.Added) + len(e.Removed)
		}
	}
	return size
}
