// SPDX-License-Identifier: Apache-2.0

package routes

import "github.com/wayleave/wayleave/internal/rtnl"

// observed is the observed state of an object in the kernel.
type observed struct {
	// present means that the kernel has an object of ours, on the interface with this index.
	present bool
	index   int
	// reported is the number of the event that reported it; 0 if none did.
	reported uint64
	// dirty means that the desired and the observed state may differ; the store lists the object
	// then.
	dirty bool
	// uncertain means that the kernel may have removed the object together with all others of its
	// interface. Another process may also have added it since.
	uncertain bool
	// lost means that another process removed or changed the object.
	lost bool
	// foreign means that the kernel has refused an addition since the last dump, because another
	// process has an object in its place.
	foreign bool
	// madeByOther means that another process made an identical object, and ours is not needed. The
	// field ceded means that this object has been deleted since. Then ours is not added until it is
	// desired with other values or its interface comes back (case S172 of docs/semantics.md).
	madeByOther, ceded bool
}

// observeOther records what another process did in the place of our object: it deleted its own if
// gone is set, and otherwise added one.
func (o *observed) observeOther(gone bool) {
	o.foreign = o.foreign && !gone
	o.ceded = gone && (o.madeByOther || o.ceded)
	o.madeByOther = false
}

// setInKernel records that the kernel has the object, on the interface with the index.
func (o *observed) setInKernel(index int) {
	o.present, o.lost, o.foreign, o.madeByOther, o.ceded = true, false, false, false, false
	o.index, o.reported, o.uncertain = index, 0, false
}

// slot has the desired and the observed state of one object.
type slot[K, V comparable] struct {
	state      observed
	key        K
	desired    bool
	want, have V
}

// store has the desired and the observed state of all objects of one kind. K is the identity of an
// object in the kernel, V its other fields.
type store[K, V comparable] struct {
	slots map[K]*slot[K, V]
	dirty []*slot[K, V]
}

func newStore[K, V comparable]() *store[K, V] { return &store[K, V]{slots: map[K]*slot[K, V]{}} }

// markDirty makes the next pass compare the states of a slot.
func (s *store[K, V]) markDirty(o *slot[K, V]) {
	if !o.state.dirty {
		o.state.dirty = true
		s.dirty = append(s.dirty, o)
	}
}

// takeDirty returns the dirty slots and marks them as clean. It deletes the slots of objects that
// are neither desired nor present.
func (s *store[K, V]) takeDirty() (dirty []*slot[K, V]) {
	dirty, s.dirty = s.dirty, nil
	kept := dirty[:0]
	for _, o := range dirty {
		if o.state.dirty = false; o.desired || o.state.present {
			kept = append(kept, o)
		} else {
			delete(s.slots, o.key)
		}
	}
	return kept
}

func (s *store[K, V]) slot(key K) *slot[K, V] {
	o := s.slots[key]
	if o == nil {
		o = &slot[K, V]{key: key}
		s.slots[key] = o
	}
	return o
}

// change adds an object to the desired state or replaces it. If remove is set, it removes the
// object.
func (s *store[K, V]) change(key K, v V, remove bool) {
	o := s.slots[key]
	switch {
	case !remove && (o == nil || !o.desired || o.want != v):
		o = s.slot(key)
		o.desired, o.want, o.state.ceded = true, v, false
		s.markDirty(o)
	case remove && o != nil && o.desired:
		o.desired, o.state.ceded = false, false
		s.markDirty(o)
	}
}

// copyTo copies the desired state to another store.
func (s *store[K, V]) copyTo(other *store[K, V]) {
	for key, o := range s.slots {
		if o.desired {
			other.change(key, o.want, false)
		}
	}
}

// begin begins a list of the kernel's objects.
func (s *store[K, V]) begin() {
	for _, o := range s.slots {
		o.state.present, o.state.lost, o.state.foreign, o.state.madeByOther = false, false, false, false
	}
}

// read records one object of the kernel.
func (s *store[K, V]) read(key K, index int, v V) {
	o := s.slot(key)
	o.state.present, o.state.index, o.have, o.state.reported, o.state.uncertain = true, index, v, 0, false
}

// end ends the list.
func (s *store[K, V]) end() {
	for _, o := range s.slots {
		if !o.state.present || !o.desired || o.have != o.want {
			s.markDirty(o)
		}
	}
}

// observe records an event: another process added, changed or deleted an object. The parameter
// number is the number of the event, and ours means that the object has our protocol number or is
// on our device.
func (s *store[K, V]) observe(key K, index int, v V, number uint64, ours, gone bool) {
	o := s.slots[key]
	switch {
	case ours && !gone:
		lost := o != nil && o.desired && v != o.want &&
			(o.state.lost || o.state.present && o.state.index == index && v != o.have)
		s.read(key, index, v)
		o = s.slots[key]
		o.state.reported, o.state.lost = number, lost
		s.markDirty(o)
	case o == nil:
	case o.state.present && o.state.index == index: // it was deleted, or another process replaced it
		o.state.present, o.state.lost = false, true
		s.markDirty(o)
	default:
		o.state.observeOther(gone)
		s.markDirty(o)
	}
}

// kernelChange is one change to an object in the kernel.
type kernelChange[K, V comparable] struct {
	slot *slot[K, V]
	// index is that of the object's interface. The object with this value is deleted if remove is
	// set, and otherwise added.
	index  int
	value  V
	remove bool
	// replace means that the kernel has an object of ours, which the addition replaces.
	replace bool
}

// objectKind is implemented by the identity of each kind of object. Its methods make the rtnetlink
// messages that add and delete such an object.
type objectKind[K, V comparable] interface {
	comparable
	compare(other K) int
	object(v V) Object
	validate(v V) error
	// device returns the name of the interface that the object is on. needed is false if it is on
	// none.
	device() (name string, needed bool)
	// missing reports whether an object that the observed state does not have must be added.
	missing(p *pass, index int) (bool, error)
	encode(c *kernelChange[K, V], b *rtnl.Batch, protocol uint8)
	// refused handles an addition that the kernel refused. It returns nil if it made the addition
	// in another way, errMadeByOther if no addition is needed, and otherwise the error.
	refused(p *pass, c *kernelChange[K, V], err error) error
	// text returns the change as a command line of ip or bridge.
	text(p *pass, c *kernelChange[K, V]) string
}
