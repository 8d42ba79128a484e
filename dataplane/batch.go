// SPDX-License-Identifier: Apache-2.0

package dataplane

// Empty reports whether the batch has no events.
func (b Batch) Empty() bool { return len(b.Events) == 0 }

// CarriesInSync reports whether the batch is the first complete one: its last event is InSync.
func (b Batch) CarriesInSync() bool {
	if b.Empty() {
		return false
	}
	_, ok := b.Events[len(b.Events)-1].(*InSync)
	return ok
}
