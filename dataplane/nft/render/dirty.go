// SPDX-License-Identifier: Apache-2.0

package render

import "github.com/wayleave/wayleave/dataplane/nft/internal/reuse"

// dirtySet has the objects of one kind that must be rendered again.
type dirtySet[T comparable] struct{ objects map[T]struct{} }

func newDirtySet[T comparable]() *dirtySet[T] { return &dirtySet[T]{map[T]struct{}{}} }

// mark adds an object.
func (d *dirtySet[T]) mark(object T) { d.objects[object] = struct{}{} }

// unmark removes an object.
func (d *dirtySet[T]) unmark(object T) { delete(d.objects, object) }

// has reports whether an object is in the set.
func (d *dirtySet[T]) has(object T) bool {
	_, ok := d.objects[object]
	return ok
}

func (d *dirtySet[T]) len() int { return len(d.objects) }

// clear removes all objects.
func (d *dirtySet[T]) clear() { d.objects = reuse.Map(d.objects) }

// drain removes each object and calls render for it. render may mark further objects.
func (d *dirtySet[T]) drain(render func(T)) {
	for len(d.objects) > 0 {
		for object := range d.objects {
			delete(d.objects, object)
			render(object)
		}
	}
}
