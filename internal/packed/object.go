// SPDX-License-Identifier: Apache-2.0

package packed

import "github.com/wayleave/wayleave/policy"

// Object contains a resource. The resource is packed if that saves memory. Other packages cannot
// implement Object. An Object never changes, so it is safe for concurrent use.
type Object interface {
	// Key returns the key of the resource.
	Key() policy.Key
	// Unpack returns a resource that is equal to the packed one. Do not change it: other callers
	// may share it.
	Unpack() policy.Resource

	object()
}

// Pack packs a resource into an Object. If the resource is nil or a nil pointer, it returns nil. Do
// not change the resource afterwards.
func Pack(r policy.Resource) Object {
	if policy.Equal(r, nil) {
		return nil
	}
	if w, ok := r.(*policy.WorkloadEndpoint); ok {
		return pack(w)
	}
	return plain{r}
}

// Unpack returns the resource of an object. It returns nil for nil.
func Unpack(o Object) policy.Resource {
	if o == nil {
		return nil
	}
	return o.Unpack()
}

// Equal reports whether two objects have equal resources; see policy.Equal. Two nil objects are
// equal.
func Equal(a, b Object) bool {
	x, packed := a.(*endpoint)
	y, both := b.(*endpoint)
	if packed && both {
		return *x == *y // equal endpoints have the same packed form
	}
	return policy.Equal(Unpack(a), Unpack(b))
}

// plain is a resource that is not packed.
type plain struct{ resource policy.Resource }

// Key returns the key of the resource.
func (p plain) Key() policy.Key { return p.resource.Key() }

// Unpack returns the resource itself.
func (p plain) Unpack() policy.Resource { return p.resource }

func (plain) object()     {}
func (*endpoint) object() {}
