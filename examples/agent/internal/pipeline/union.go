// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// union makes one source of several, and keeps the objects of each.
//
//	manifests ─▶┐
//	resources ─▶┤ first that has the object ─▶ receiver, one call at a time
//	others    ─▶┘ in sync once all are
//
// An endpoint of a source that yields is left out while its interface belongs to another endpoint.
//
// Most objects are endpoints of other nodes, which are rarely read. So objects are kept packed.
//
// It is safe for concurrent use, and runs once.
type union struct {
	sources []NamedSource
	hooks   unionHooks
	// interfaces is updated before the receiver is called.
	interfaces *interfaceIndex

	mu        sync.Mutex // held while the receiver is called: back-pressure is for all
	bySource  []*packed.Objects
	contested map[policy.Key]struct{} // objects of several sources, except endpoints of workloads
	objects   int                     // the number of objects of the union
	inSync    []bool
	complete  chan struct{} // closed once all are in sync
}

// unionHooks are called while the union is locked, before its receiver. All are required.
type unionHooks struct {
	// updated is called with the changes of the union.
	updated func([]policy.Update)
	// overruled is called for an object of a source that the source named counts has, too. The
	// object of the latter counts.
	overruled func(source string, key policy.Key, counts string)
	// conflict is called with an error when an endpoint becomes absent because its interface
	// belongs to another one, and with nil when that ends.
	conflict func(key policy.Key, err error)
}

func newUnion(sources []NamedSource, index *interfaceIndex, hooks unionHooks) *union {
	u := &union{
		sources: sources, interfaces: index, hooks: hooks, inSync: make([]bool, len(sources)),
		contested: map[policy.Key]struct{}{}, complete: make(chan struct{}),
	}
	for range sources {
		u.bySource = append(u.bySource, &packed.Objects{})
	}
	return u
}

// Run runs all sources until one of them ends; see datastore.Source.
func (u *union) Run(ctx context.Context, r datastore.Receiver) error {
	var tasks []func(context.Context) error
	for i, s := range u.sources {
		tasks = append(tasks, func(ctx context.Context) error { return s.Source.Run(ctx, &sourceReceiver{u, i, r}) })
	}
	if err := Together(ctx, tasks...); err != nil {
		return err
	}
	return ctx.Err()
}

// sourceReceiver receives the updates of one source.
type sourceReceiver struct {
	*union
	index int
	out   datastore.Receiver
}

// Update sends the changes of the union to the receiver.
func (m *sourceReceiver) Update(ctx context.Context, updates []policy.Update) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var changed []policy.Update
	owners := map[policy.Key]policy.Resource{} // objects of the sources that do not yield
	record := func(key policy.Key, before, now packed.Object) {
		m.objects += presence(now) - presence(before)
		if !packed.Equal(before, now) {
			changed = append(changed, policy.Update{Key: key, Resource: packed.Unpack(now)})
		}
	}
	for _, u := range updates {
		before := m.effectiveLocked(u.Key)
		m.setLocked(u)
		if m.sources[m.index].Yields {
			m.setYielding(u)
		} else if declared := m.declaredLocked(u); m.interfaces.concerns(declared) || owners[u.Key] != nil {
			owners[u.Key] = declared.Resource
		}
		record(u.Key, before, m.effectiveLocked(u.Key))
	}
	for _, key := range m.interfaces.setOwners(owners) {
		now := m.interfaces.conflict(key)
		m.hooks.conflict(key, now)
		record(key, m.firstLocked(key, now == nil), m.firstLocked(key, now != nil))
	}
	if len(changed) == 0 {
		return nil
	}
	m.hooks.updated(changed)
	return m.out.Update(ctx, changed)
}

// setLocked records an object of the source.
func (m *sourceReceiver) setLocked(u policy.Update) {
	object := packed.Pack(u.Resource)
	if object != nil {
		m.addContestedLocked(u.Key)
	}
	m.bySource[m.index].Set(u.Key, object)
	if object == nil {
		m.removeContestedLocked(u.Key)
	}
}

// setYielding records the interface of an endpoint of a source that yields.
func (m *sourceReceiver) setYielding(u policy.Update) {
	before := m.interfaces.conflict(u.Key)
	m.interfaces.setYielding(u)
	now := m.interfaces.conflict(u.Key)
	if u.Resource != nil && (before == nil) != (now == nil) {
		m.hooks.conflict(u.Key, now)
	}
}

// declaredLocked returns an object of the sources that do not yield, after an update by this one.
func (m *sourceReceiver) declaredLocked(u policy.Update) policy.Update {
	for i, objects := range m.bySource {
		if o := objects.Get(u.Key); o != nil && !m.sources[i].Yields {
			if i != m.index {
				u.Resource = packed.Unpack(o)
			}
			break
		}
	}
	return u
}

// InSync calls InSync of the receiver once every source is in sync.
func (m *sourceReceiver) InSync(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inSync[m.index] {
		return nil
	}
	m.inSync[m.index] = true
	if slices.Contains(m.inSync, false) {
		return nil
	}
	close(m.complete)
	return m.out.InSync(ctx)
}

// addContestedLocked calls the hook overruled for each other source that has an object which is new
// in this one. The object of the first source counts.
func (m *sourceReceiver) addContestedLocked(key policy.Key) {
	if m.bySource[m.index].Get(key) != nil {
		return
	}
	for other, objects := range m.bySource {
		if objects.Get(key) != nil {
			m.hooks.overruled(m.sources[max(other, m.index)].Name, key, m.sources[min(other, m.index)].Name)
			if key.Kind != policy.KindWorkloadEndpoint {
				m.contested[key] = struct{}{}
			}
		}
	}
}

// removeContestedLocked removes an object from contested if at most one source has it.
func (u *union) removeContestedLocked(key policy.Key) {
	sources := 0
	for _, objects := range u.bySource {
		if objects.Get(key) != nil {
			sources++
		}
	}
	if sources < 2 {
		delete(u.contested, key)
	}
}

// effectiveLocked returns an object as the union has it; nil if the union does not have it.
func (u *union) effectiveLocked(key policy.Key) packed.Object {
	return u.firstLocked(key, u.interfaces.conflict(key) != nil)
}

// firstLocked returns an object of the first source that has it. If the object is in conflict, it
// skips the sources that yield.
func (u *union) firstLocked(key policy.Key, conflict bool) packed.Object {
	for i, objects := range u.bySource {
		if o := objects.Get(key); o != nil && !(conflict && u.sources[i].Yields) {
			return o
		}
	}
	return nil
}

// presence returns 1 for an object, and 0 for nil.
func presence(o packed.Object) int {
	if o == nil {
		return 0
	}
	return 1
}

// objectsOf returns all objects of a source, nil if they are not known. It is for a union that has
// ended.
func (u *union) objectsOf(source string) *packed.Objects {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, s := range u.sources {
		if s.Name == source && u.inSync[i] {
			return u.bySource[i]
		}
	}
	return nil
}

// count returns how many objects there are.
func (u *union) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.objects
}

// world returns the objects of all sources except those of the given names.
func (u *union) world(without ...string) verdict.World {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.worldLocked(u.interfaces, without)
}

// worldLocked returns the same without the endpoints that are in conflict by the given index.
func (u *union) worldLocked(index *interfaceIndex, without []string) verdict.World {
	world := verdict.World{}
	for i, objects := range slices.Backward(u.bySource) {
		if slices.Contains(without, u.sources[i].Name) {
			continue
		}
		for key, o := range objects.All() {
			if !u.sources[i].Yields || index.conflict(key) == nil {
				world[key] = o.Unpack()
			}
		}
	}
	return world
}

// worldWith is like world, but with some objects before those of the sources.
func (u *union) worldWith(first verdict.World, without ...string) verdict.World {
	u.mu.Lock()
	defer u.mu.Unlock()
	index := newInterfaceIndex(u.interfaces.node, u.interfaces.logger, u.interfaces.read)
	declared, yielding := verdict.World{}, []policy.Update(nil)
	for i, objects := range slices.Backward(u.bySource) {
		if slices.Contains(without, u.sources[i].Name) {
			continue
		}
		for key, o := range objects.All() {
			if key.Kind != policy.KindWorkloadEndpoint && key.Kind != policy.KindHostEndpoint {
				continue
			}
			if u.sources[i].Yields {
				yielding = append(yielding, policy.Update{Key: key, Resource: o.Unpack()})
			} else {
				declared[key] = o.Unpack()
			}
		}
	}
	maps.Copy(declared, first)
	index.setOwners(declared)
	index.setYielding(yielding...)
	world := u.worldLocked(index, without)
	maps.Copy(world, first)
	return world
}

// has reports whether a source has an object, except those of the given names.
func (u *union) has(key policy.Key, without ...string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, objects := range u.bySource {
		if objects.Get(key) != nil && !slices.Contains(without, u.sources[i].Name) {
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
