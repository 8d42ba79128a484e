// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"slices"

	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
)

// Len returns the number of objects of the union.
func (u *Union) Len() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.length
}

// Synced returns a channel that is closed once all sources have been in sync.
func (u *Union) Synced() <-chan struct{} { return u.synced }

// Waiting returns the names of the sources that have not been in sync yet, in their order.
func (u *Union) Waiting() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	names := []string{}
	for i, s := range u.cfg.Sources {
		if !u.inSync[i] {
			names = append(names, s.Name)
		}
	}
	return names
}

// World returns all objects of the union by key. The map belongs to the caller; do not change the
// resources.
func (u *Union) World() map[policy.Key]policy.Resource {
	u.mu.Lock()
	defer u.mu.Unlock()
	world := make(map[policy.Key]policy.Resource, u.length)
	for i, objects := range slices.Backward(u.bySource) {
		for key, o := range objects.All() {
			if u.countsLocked(i, key) {
				world[key] = o.Unpack()
			}
		}
	}
	return world
}

// Objects returns all objects that a source has reported. This includes objects that the Union does
// not use. The Union does not use an object if UnionConfig.Exclude leaves it out, or if an earlier
// source has an object with the same key. If there is no source of this name, Objects returns none.
func (u *Union) Objects(source string) map[policy.Key]policy.Resource {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := map[policy.Key]policy.Resource{}
	for i, s := range u.cfg.Sources {
		if s.Name != source {
			continue
		}
		for key, o := range u.bySource[i].All() {
			all[key] = o.Unpack()
		}
	}
	return all
}

// Versions returns a map from the name of a source to the object that this source has reported for
// the key. Sources that do not have the object are not in the map.
func (u *Union) Versions(key policy.Key) map[string]policy.Resource {
	u.mu.Lock()
	defer u.mu.Unlock()
	versions := map[string]policy.Resource{}
	for i, objects := range u.bySource {
		if o := objects.Get(key); o != nil {
			versions[u.cfg.Sources[i].Name] = o.Unpack()
		}
	}
	return versions
}

// Overruled returns the keys for which the Union does not use the object of the source, because an
// earlier source has a different object. The values are the names of the earlier sources.
func (u *Union) Overruled(source string) map[policy.Key]string {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := map[policy.Key]string{}
	for key := range u.several {
		var counts packed.Object
		var by string
		for i, objects := range u.bySource {
			o := objects.Get(key)
			if o == nil || !u.countsLocked(i, key) {
				continue
			}
			switch name := u.cfg.Sources[i].Name; {
			case counts == nil:
				counts, by = o, name
			case name == source && !packed.Equal(counts, o):
				found[key] = by
			}
		}
	}
	return found
}
