// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"unique"
)

// Compact is the labels of one object in a compact form, for programs that hold the labels of many
// objects. It takes 24 bytes, and 16 more for each label. Names and values are interned by package
// unique: all objects and selectors of the process share them.
//
// A name or value that only one object uses takes about 250 bytes, because it is interned. If a
// third or more of the labels have such a name or value, a Map is smaller.
//
// Selector.Match is fastest with a Compact, because it compares interned strings by address. A
// lookup is linear in the number of labels: Compact is for objects with up to some dozens of
// labels.
//
// A nil or zero Compact has no labels. A Compact never changes and is safe for concurrent use.
type Compact struct {
	strings []handle // the sorted names, then the values in the same order
}

// handle is an interned string. Equal strings have equal handles.
type handle = unique.Handle[string]

var _ Labels = (*Compact)(nil)

// NewCompact returns the labels in compact form. It copies the map and its strings.
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

// Get returns the value of a label, and whether the label is present. It allocates nothing.
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

// All iterates over the names and values of the labels, sorted by name.
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
