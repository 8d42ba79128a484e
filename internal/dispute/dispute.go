// SPDX-License-Identifier: Apache-2.0

package dispute

import (
	"maps"
	"time"
)

const (
	// Changes is the number of changes within Window that make an object disputed.
	Changes = 5
	// Window is the time, from an object's first change on, in which its changes are counted.
	Window = 30 * time.Second
	// Quiet is the time without a change after which an object is no longer disputed.
	Quiet = 2 * time.Minute
	// maxObjects is the maximum number of objects of a Tracker.
	maxObjects = 1000
)

// Tracker counts the changes that other processes make to objects of type K. The zero value is
// ready for use. It is not safe for concurrent use.
type Tracker[K comparable] struct {
	objects map[K]*object
}

// object has the recent changes of one object.
type object struct {
	first, last time.Time // of the changes in the window
	changes     int
	disputed    bool
}

// over reports whether the changes of an object are too old to count.
func (o *object) over(now time.Time) bool {
	if o.disputed {
		return now.Sub(o.last) >= Quiet
	}
	return now.Sub(o.first) >= Window
}

// Record counts a change of an object. An object becomes disputed with its fifth change within 30
// s, and stays disputed until it has not changed for 2 min. Record reports whether the object is
// disputed, and whether the dispute begins with this change. A Tracker holds at most 1,000 objects,
// and ignores changes of further objects.
func (t *Tracker[K]) Record(key K, now time.Time) (disputed, begins bool) {
	if t.objects == nil {
		t.objects = map[K]*object{}
	}
	o := t.objects[key]
	if o == nil || o.over(now) {
		if o == nil && len(t.objects) >= maxObjects {
			t.removeOld(now)
			if len(t.objects) >= maxObjects {
				return false, false
			}
		}
		o = &object{first: now}
		t.objects[key] = o
	}
	o.changes++
	o.last = now
	begins = !o.disputed && o.changes >= Changes
	o.disputed = o.disputed || begins
	return o.disputed, begins
}

// removeOld removes the objects whose changes are too old to count.
func (t *Tracker[K]) removeOld(now time.Time) {
	maps.DeleteFunc(t.objects, func(_ K, o *object) bool { return o.over(now) })
}

// Disputed returns the disputed objects in any order. Before that, it removes all objects whose
// changes are too old to count.
func (t *Tracker[K]) Disputed(now time.Time) []K {
	t.removeOld(now)
	var keys []K
	for key, o := range t.objects {
		if o.disputed {
			keys = append(keys, key)
		}
	}
	return keys
}

// Any reports whether any object is disputed.
func (t *Tracker[K]) Any(now time.Time) bool {
	for _, o := range t.objects {
		if o.disputed && !o.over(now) {
			return true
		}
	}
	return false
}
