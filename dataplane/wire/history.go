// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/parts"
)

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
	h.size += parts.Size(b)
	for h.size > maxHistory {
		h.size -= parts.Size(h.batches[0])
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
