// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"unique"
)

// Compact is the labels of one object in little memory, for programs that keep the labels of many:
// 24 bytes and 16 more a label. Names and values are interned by package unique, so that all
// objects and selectors of the process share them, and they go with the last that has them.
//
// A string that no other object or selector has costs some 250 bytes, so that a Map is smaller
// where a third of the labels and more are of that kind.
//
// Selector.Match is fastest on it: it compares interned strings by their addresses. It is made for
// objects of up to some dozens of labels, as the time of a look-up grows with their number.
//
// A nil Compact, like a zero one, has no labels. A Compact never changes; it is safe for concurrent
// use.
type Compact struct {
	strings []handle // the names, sorted, then the values in the same order
}

// handle stands for an interned string: equal strings have equal handles.
type handle = unique.Handle[string]

var _ Labels = (*Compact)(nil)

// NewCompact returns the labels in compact form. It keeps neither the map nor the memory of its
// strings.
func NewCompact(labels map[string]string) *Compact {
	all := make([]handle, 2*len(labels))
	names, values := all[:0], all[len(labels):]
	for name := range labels {
		names = append(names, unique.Make(name))
	}
	slices.SortFunc(names, func(a, b handle) int { return strings.Compare(a.Value(), b.Value()) })
	for i, name := range names {
		values[i] = unique.Make(labels[name.Value()])
	}
	return &Compact{all}
}

// parts returns the names and the values.
func (c *Compact) parts() (names, values []handle) {
	if c == nil {
		return nil, nil
	}
	n := len(c.strings) / 2
	return c.strings[:n], c.strings[n:]
}

// Get returns the value of a label, and whether it is there. It allocates nothing.
func (c *Compact) Get(name string) (string, bool) {
	names, values := c.parts()
	for i, n := range names {
		if n.Value() == name {
			return values[i].Value(), true
		}
	}
	return "", false
}

// Len returns the number of labels.
func (c *Compact) Len() int {
	names, _ := c.parts()
	return len(names)
}

// All yields the names and values of the labels, sorted by name.
func (c *Compact) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		names, values := c.parts()
		for i, name := range names {
			if !yield(name.Value(), values[i].Value()) {
				return
			}
		}
	}
}

// Map returns a copy of the labels as a Map.
func (c *Compact) Map() Map { return maps.Collect(c.All()) }
