// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// union makes one source of several, and remembers what each of them says: the world as it was last told.
//
//	manifests ─▶┐
//	resources ─▶┤ first that has the object ─▶ receiver, one call at a time
//	others    ─▶┘ in sync once all are
//
// It is safe for concurrent use, and runs once.
type union struct {
	sources  []NamedSource
	conflict func(source string, key policy.Key, counts string)
	updated  func([]policy.Update)

	mu        sync.Mutex // held while the receiver is called: back-pressure is for all
	said      []map[policy.Key]policy.Resource
	contested map[policy.Key]struct{} // that several sources have; endpoints of workloads excepted
	objects   int                     // how many different ones
	inSync    []bool
	complete  chan struct{} // closed once all are in sync
}

func newUnion(
	sources []NamedSource, updated func([]policy.Update), conflict func(source string, key policy.Key, counts string),
) *union {
	u := &union{
		sources: sources, conflict: conflict, updated: updated, inSync: make([]bool, len(sources)), contested: map[policy.Key]struct{}{},
		complete: make(chan struct{}),
	}
	for range sources {
		u.said = append(u.said, map[policy.Key]policy.Resource{})
	}
	return u
}

// Run runs all sources until one of them ends; see datastore.Source.
func (u *union) Run(ctx context.Context, r datastore.Receiver) error {
	var tasks []func(context.Context) error
	for i, s := range u.sources {
		tasks = append(tasks, func(ctx context.Context) error { return s.Source.Run(ctx, &member{u, i, r}) })
	}
	if err := Together(ctx, tasks...); err != nil {
		return err
	}
	return ctx.Err()
}

// member receives what one of the sources says.
type member struct {
	*union
	index int
	out   datastore.Receiver
}

// Update passes on what changes in the union.
func (m *member) Update(ctx context.Context, updates []policy.Update) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var changed []policy.Update
	for _, u := range updates {
		before := m.effectiveLocked(u.Key)
		if policy.Equal(u.Resource, nil) {
			delete(m.said[m.index], u.Key)
			m.acquitLocked(u.Key)
		} else {
			m.accuseLocked(u.Key)
			m.said[m.index][u.Key] = u.Resource
		}
		now := m.effectiveLocked(u.Key)
		m.objects += there(now) - there(before)
		if !policy.Equal(before, now) {
			changed = append(changed, policy.Update{Key: u.Key, Resource: now})
		}
	}
	if len(changed) == 0 {
		return nil
	}
	m.updated(changed)
	return m.out.Update(ctx, changed)
}

// InSync passes it on once every source has said it.
func (m *member) InSync(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inSync[m.index] {
		return nil // said before
	}
	m.inSync[m.index] = true
	if slices.Contains(m.inSync, false) {
		return nil
	}
	close(m.complete)
	return m.out.InSync(ctx)
}

// accuseLocked tells of each other source that has an object which is new in this one: of the two the first counts.
func (m *member) accuseLocked(key policy.Key) {
	if _, known := m.said[m.index][key]; known {
		return
	}
	for other, said := range m.said {
		if _, has := said[key]; has {
			m.conflict(m.sources[max(other, m.index)].Name, key, m.sources[min(other, m.index)].Name)
			if key.Kind != policy.KindWorkloadEndpoint {
				m.contested[key] = struct{}{}
			}
		}
	}
}

// acquitLocked forgets that several sources had an object, once it is one at most.
func (u *union) acquitLocked(key policy.Key) {
	sources := 0
	for _, said := range u.said {
		if _, has := said[key]; has {
			sources++
		}
	}
	if sources < 2 {
		delete(u.contested, key)
	}
}

// effectiveLocked returns what counts of an object; nil if no source has it.
func (u *union) effectiveLocked(key policy.Key) policy.Resource {
	for _, said := range u.said {
		if r, ok := said[key]; ok {
			return r
		}
	}
	return nil
}

// there is 1 for an object, and 0 for none.
func there(r policy.Resource) int {
	if r == nil {
		return 0
	}
	return 1
}

// count returns how many objects there are.
func (u *union) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.objects
}

// world returns what all sources but those of the given names say.
func (u *union) world(without ...string) verdict.World {
	u.mu.Lock()
	defer u.mu.Unlock()
	world := verdict.World{}
	for i, said := range slices.Backward(u.said) {
		if slices.Contains(without, u.sources[i].Name) {
			continue
		}
		for key, r := range said {
			world[key] = r
		}
	}
	return world
}

// has reports whether a source has an object, those of the given names aside.
func (u *union) has(key policy.Key, without ...string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, said := range u.said {
		if _, ok := said[key]; ok && !slices.Contains(without, u.sources[i].Name) {
			return true
		}
	}
	return false
}

// waiting returns the names of the sources that are not in sync.
func (u *union) waiting() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	names := []string{}
	for i, s := range u.sources {
		if !u.inSync[i] {
			names = append(names, s.Name)
		}
	}
	return names
}
