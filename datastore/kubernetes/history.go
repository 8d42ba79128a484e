// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// maxHistory is the number of changes that a history has. Each deleted one costs a request after a
// failure.
const maxHistory = 16

// history has the last changes of different objects that a watch has received, in their order. It
// is empty after a list.
type history []lastChange

// lastChange is the last change of an object.
type lastChange struct {
	id types.NamespacedName
	// resourceVersion is "" if the object was deleted.
	resourceVersion string
}

// add adds a change, which replaces an earlier one of the same object.
func (h *history) add(c lastChange) {
	*h = append(slices.DeleteFunc(*h, func(old lastChange) bool { return old.id == c.id }), c)
	if len(*h) > maxHistory {
		*h = slices.Delete(*h, 0, 1)
	}
}

// last returns the last change of an object that was not deleted, and the objects that were deleted
// after it. Without such a change, its resourceVersion is "".
func (h history) last() (last lastChange, deleted []types.NamespacedName) {
	for _, c := range slices.Backward(h) {
		if c.resourceVersion != "" {
			return c, deleted
		}
		deleted = append(deleted, c.id)
	}
	return lastChange{}, nil
}
