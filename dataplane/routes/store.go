// SPDX-License-Identifier: Apache-2.0

package routes

import "github.com/wayleave/wayleave/internal/rtnl"

// slot is what is wanted and known of one object.
type slot[K, V comparable] struct {
	key    K
	wanted bool
	want   V
	// present means that the kernel has one of ours, on the interface of this index.
	present bool
	index   int
	have    V
	// heard is the number of the event that told of it; 0 if none did.
	heard uint64
	// stale, lost and foreign as in routeSlot.
	stale, lost, foreign bool
}

// store has what is wanted and known of the objects of one kind: of each, K is the identity in the
// kernel and V the rest.
type store[K, V comparable] struct {
	slots map[K]*slot[K, V]
	stale []*slot[K, V]
}

func newStore[K, V comparable]() *store[K, V] { return &store[K, V]{slots: map[K]*slot[K, V]{}} }

// touch has a slot looked at in the next pass.
func (s *store[K, V]) touch(o *slot[K, V]) {
	if !o.stale {
		o.stale = true
		s.stale = append(s.stale, o)
	}
}

// take returns the stale slots. They are stale no more; those of which nothing is wanted or known
// go.
func (s *store[K, V]) take() (stale []*slot[K, V]) {
	stale, s.stale = s.stale, nil
	kept := stale[:0]
	for _, o := range stale {
		if o.stale = false; o.wanted || o.present {
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

func (s *store[K, V]) set(key K, v V) {
	if o := s.slot(key); !o.wanted || o.want != v {
		o.wanted, o.want = true, v
		s.touch(o)
	}
}

func (s *store[K, V]) unset(key K) {
	if o := s.slots[key]; o != nil && o.wanted {
		o.wanted = false
		s.touch(o)
	}
}

// copyTo makes another store want the same.
func (s *store[K, V]) copyTo(other *store[K, V]) {
	for key, o := range s.slots {
		if o.wanted {
			other.set(key, o.want)
		}
	}
}

// begin starts a reading of everything.
func (s *store[K, V]) begin() {
	for _, o := range s.slots {
		o.present, o.lost, o.foreign = false, false, false
	}
}

// read takes in one object of the kernel.
func (s *store[K, V]) read(key K, index int, v V) {
	o := s.slot(key)
	o.present, o.index, o.have, o.heard = true, index, v, 0
}

// end concludes a reading.
func (s *store[K, V]) end() {
	for _, o := range s.slots {
		if !o.present || !o.wanted || o.have != o.want {
			s.touch(o)
		}
	}
}

// hear takes in the event of a number: what somebody else did to an object. ours means that it is
// ours by its protocol or device.
func (s *store[K, V]) hear(key K, index int, v V, number uint64, ours, gone bool) {
	o := s.slots[key]
	switch {
	case ours && !gone:
		lost := o != nil && o.wanted && v != o.want && (o.lost || o.present && o.index == index && v != o.have)
		s.read(key, index, v)
		o = s.slots[key]
		o.heard, o.lost = number, lost
		s.touch(o)
	case o == nil:
	case o.present && o.index == index: // it went, or is another's now
		o.present, o.lost = false, true
		s.touch(o)
	default: // there may be room now, or another's that was as good as ours is no more
		o.foreign = o.foreign && !gone
		s.touch(o)
	}
}

// kernelChange is one change to an object in the kernel.
type kernelChange[K, V comparable] struct {
	slot *slot[K, V]
	// index of the interface, and value: of what is to be deleted if gone, otherwise of what is to
	// be there.
	index int
	value V
	gone  bool
	// replace means that the kernel has one of ours.
	replace bool
}

// kernelKey is the identity of an object that is made and deleted by a message of rtnetlink.
type kernelKey[K, V comparable] interface {
	comparable
	compare(other K) int
	// kindName is what errors call the kind.
	kindName() string
	object(v V) Object
	validate(v V) error
	// device is the name of the interface that the object is on; needed is false if it is on none.
	device() (name string, needed bool)
	// missing reports whether an object that is not known is not there.
	missing(p *pass, index int) (bool, error)
	encode(c *kernelChange[K, V], b *rtnl.Batch, protocol uint8)
	// refused deals with an addition that the kernel refused, and returns what is wrong; nil if it
	// has been made, and errAsGood if it need not be.
	refused(p *pass, c *kernelChange[K, V], err error) error
	// text returns the change as a command line of ip or bridge.
	text(p *pass, c *kernelChange[K, V]) string
}
