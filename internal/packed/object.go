// SPDX-License-Identifier: Apache-2.0

package packed

import "github.com/wayleave/wayleave/policy"

// Object is a resource, in less memory where that pays. The set is closed. An Object never changes;
// it is safe for concurrent use.
type Object interface {
	// Key returns the identity that the resource's own fields give it.
	Key() policy.Key
	// Unpack returns a resource that is equal to the one that was packed, which others may have
	// too: nobody must change it.
	Unpack() policy.Resource

	object()
}

// Pack returns a resource as an object; nil for none, and for a nil pointer. Nobody must change the
// resource any more.
func Pack(r policy.Resource) Object {
	if policy.Equal(r, nil) {
		return nil
	}
	if w, ok := r.(*policy.WorkloadEndpoint); ok {
		return pack(w)
	}
	return plain{r}
}

// Unpack returns the resource that an object is; nil for none.
func Unpack(o Object) policy.Resource {
	if o == nil {
		return nil
	}
	return o.Unpack()
}

// Equal reports whether two objects are equal resources, see policy.Equal. Two nil objects are
// equal.
func Equal(a, b Object) bool {
	x, packed := a.(*endpoint)
	y, both := b.(*endpoint)
	if packed && both {
		return *x == *y // there is one way to pack an endpoint
	}
	return policy.Equal(Unpack(a), Unpack(b))
}

// plain is a resource as it came.
type plain struct{ resource policy.Resource }

// Key returns the identity of the resource.
func (p plain) Key() policy.Key { return p.resource.Key() }

// Unpack returns the resource itself.
func (p plain) Unpack() policy.Resource { return p.resource }

func (plain) object()     {}
func (*endpoint) object() {}
