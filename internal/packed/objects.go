// SPDX-License-Identifier: Apache-2.0

package packed

import "github.com/wayleave/wayleave/policy"

// Objects is an Index of objects. The zero Objects is empty. An Objects is not safe for concurrent
// use.
type Objects struct{ Index[Object] }

// Get returns the object of a key; nil if there is none.
func (x *Objects) Get(key policy.Key) Object {
	o, _ := x.Index.Get(key)
	return o
}

// Set sets the object of a key, or deletes it if o is nil. The result of o.Key may differ from the
// parameter key.
func (x *Objects) Set(key policy.Key, o Object) {
	if o == nil {
		x.Delete(key)
		return
	}
	if own := o.Key(); own == key {
		key = own // its strings are part of the object
	}
	x.Index.Set(key, o)
}
