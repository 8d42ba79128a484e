// SPDX-License-Identifier: Apache-2.0

package packed

import (
	"iter"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// Index is a map from the keys of objects to values. If many keys have the same namespace, it takes
// half of the memory of a map[policy.Key]V. The zero Index is empty. An Index is not safe for
// concurrent use.
type Index[V any] struct {
	scopes map[scope]map[string]V
}

// scope is the part that many keys have in common.
type scope struct {
	kind      policy.Kind
	namespace string
}

// Get returns the value of a key, and whether there is one.
func (x *Index[V]) Get(key policy.Key) (V, bool) {
	v, ok := x.scopes[scope{key.Kind, key.Namespace}][key.Name]
	return v, ok
}

// Set sets the value of a key. The Index then refers to the memory of the string key.Name until the
// next Set or Delete of an equal key.
func (x *Index[V]) Set(key policy.Key, v V) {
	s := scope{key.Kind, key.Namespace}
	names := x.scopes[s]
	if names == nil {
		if x.scopes == nil {
			x.scopes = map[scope]map[string]V{}
		}
		names = map[string]V{}
		x.scopes[s] = names
	}
	names[key.Name] = v
}

// Delete deletes the value of a key, if there is one.
func (x *Index[V]) Delete(key policy.Key) {
	s := scope{key.Kind, key.Namespace}
	names := x.scopes[s]
	if delete(names, key.Name); len(names) == 0 {
		delete(x.scopes, s)
	}
}

// All returns the keys and their values, in no order.
func (x *Index[V]) All() iter.Seq2[policy.Key, V] {
	return func(yield func(policy.Key, V) bool) {
		for s, names := range x.scopes {
			for name, v := range names {
				if !yield(policy.Key{Kind: s.kind, Namespace: s.namespace, Name: name}, v) {
					return
				}
			}
		}
	}
}

// Keys returns the keys that have a value, sorted.
func (x *Index[V]) Keys() []policy.Key {
	var keys []policy.Key
	for key := range x.All() {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, policy.Key.Compare)
	return keys
}
