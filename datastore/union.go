// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
)

var _ Source = (*Union)(nil)

// NamedSource is a source of a Union, with a name for people.
type NamedSource struct {
	// Name of the source. Required, and unique in the Union.
	Name string
	// Source of objects. Required.
	Source Source
	// Yields allows UnionConfig.Exclude to leave out objects of this source.
	Yields bool
}

// UnionConfig configures a Union. Its functions are called one at a time, while the Union is
// locked. They must not block and must not call the Union.
type UnionConfig struct {
	// Sources in order of precedence: if several sources have an object, the Union uses the object
	// of the first one. At least one source is required.
	Sources []NamedSource
	// Updated is called with the changes of the union, before the receiver. Optional.
	Updated func(updates []policy.Update)
	// Overruled is called if a source reports a new object that another source already has. Of the
	// two, the Union uses the object of the source that comes first in Sources: the parameter
	// effective names this source. The parameter source names the other one, whose object is not
	// used. Optional.
	Overruled func(source string, key policy.Key, effective string)
	// Exclude decides which objects are left out, for example endpoints whose interface belongs to
	// another endpoint. Only objects of yielding sources can be left out: those are the sources
	// whose field Yields is true. The Union calls Exclude after objects have changed, and before it
	// calls the receiver. The parameter yielding has the changes of the yielding sources. The
	// parameter declared has the changes of all other sources. If several of those other sources
	// have an object, declared has the object of the first one. Exclude returns its new decisions
	// by key: true leaves out the objects of that key, false includes them. If Exclude is nil, no
	// objects are left out.
	Exclude func(declared, yielding []policy.Update) map[policy.Key]bool
}

func (c UnionConfig) withDefaults() UnionConfig {
	c.Sources = slices.Clone(c.Sources)
	if c.Updated == nil {
		c.Updated = func([]policy.Update) {}
	}
	if c.Overruled == nil {
		c.Overruled = func(string, policy.Key, string) {}
	}
	return c
}

func (c UnionConfig) validate() error {
	var errs []error
	if len(c.Sources) == 0 {
		errs = append(errs, errors.New("datastore: UnionConfig.Sources: required"))
	}
	names := map[string]bool{}
	for i, s := range c.Sources {
		if s.Source == nil {
			errs = append(errs, fmt.Errorf("datastore: UnionConfig.Sources[%d].Source: required", i))
		}
		if s.Name == "" || names[s.Name] {
			errs = append(errs,
				fmt.Errorf("datastore: UnionConfig.Sources[%d].Name: %q is empty or not unique", i, s.Name))
		}
		names[s.Name] = true
	}
	return errors.Join(errs...)
}

// Union is a source of the objects of several sources.
//
//	manifests ─▶┐
//	resources ─▶┤ first that has the object ─▶ receiver, one call at a time
//	others    ─▶┘ in sync once all are
//
// The Union sends an object to the receiver from the first source that has the object. If this
// source deletes the object, the Union sends the object of the next source. If the two are equal,
// the receiver gets no update.
//
// A Union keeps the objects of each source. It keeps workload endpoints in a compact form (package
// internal/packed). A Union is safe for concurrent use, and Run can be called once. While the Union
// calls its receiver, all sources and methods wait.
type Union struct {
	cfg     UnionConfig
	started atomic.Bool
	synced  chan struct{} // closed once all sources are in sync

	mu       sync.Mutex // held while the receiver is called, so that all sources wait for a slow receiver
	bySource []*packed.Objects
	inSync   []bool
	several  map[policy.Key]struct{} // objects that several sources have
	excluded map[policy.Key]struct{}
	length   int
}

// NewUnion returns a Union. The error joins all problems of the configuration.
func NewUnion(cfg UnionConfig) (*Union, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	u := &Union{
		cfg: cfg.withDefaults(), synced: make(chan struct{}), inSync: make([]bool, len(cfg.Sources)),
		several: map[policy.Key]struct{}{}, excluded: map[policy.Key]struct{}{},
	}
	for range cfg.Sources {
		u.bySource = append(u.bySource, &packed.Objects{})
	}
	return u, nil
}

// Run runs all sources. When one of them ends, Run cancels the context of the others, and returns
// when all have ended. It implements Source.
//
// Run returns the error of the context, or the error of the source or receiver that failed first.
// Run also returns an error if a source's Run returns nil, or if Run is called twice.
func (u *Union) Run(ctx context.Context, r Receiver) error {
	if u.started.Swap(true) {
		return errors.New("datastore: a Union runs once")
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for i, s := range u.cfg.Sources {
		running.Go(func() {
			err := s.Source.Run(inner, &unionReceiver{u, i, r})
			cancel(cmp.Or(err, fmt.Errorf("datastore: source %s has ended", s.Name)))
		})
	}
	running.Wait()
	return cmp.Or(ctx.Err(), context.Cause(inner))
}

// unionReceiver receives the updates of one source.
type unionReceiver struct {
	*Union
	index int
	out   Receiver
}

// Update sends the changes of the union to the receiver.
func (r *unionReceiver) Update(ctx context.Context, updates []policy.Update) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.applyLocked(r.index, updates)
	if len(changed) == 0 {
		return nil
	}
	r.cfg.Updated(changed)
	return r.out.Update(ctx, changed)
}

// InSync calls InSync of the receiver once every source is in sync.
func (r *unionReceiver) InSync(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inSync[r.index] {
		return nil
	}
	r.inSync[r.index] = true
	if slices.Contains(r.inSync, false) {
		return nil
	}
	close(r.synced)
	return r.out.InSync(ctx)
}

// Barrier calls the Barrier of the Union's receiver.
func (r *unionReceiver) Barrier(ctx context.Context) error { return Barrier(ctx, r.out) }

// applyLocked records the updates of a source, and returns the changes of the union.
func (u *Union) applyLocked(source int, updates []policy.Update) (changed []policy.Update) {
	before := make(map[policy.Key]packed.Object, len(updates))
	keys := make([]policy.Key, 0, len(updates))
	saveBefore := func(key policy.Key) {
		if _, saved := before[key]; !saved {
			before[key] = u.effectiveLocked(key)
			keys = append(keys, key)
		}
	}
	var declared, yielding []policy.Update
	for _, up := range updates {
		saveBefore(up.Key)
		u.setLocked(source, up)
		switch {
		case u.cfg.Exclude == nil:
		case u.cfg.Sources[source].Yields:
			yielding = append(yielding, up)
		default:
			declared = append(declared, u.declaredLocked(source, up))
		}
	}
	if u.cfg.Exclude != nil {
		answers := u.cfg.Exclude(declared, yielding)
		for _, key := range slices.SortedFunc(maps.Keys(answers), policy.Key.Compare) {
			saveBefore(key)
			if delete(u.excluded, key); answers[key] {
				u.excluded[key] = struct{}{}
			}
		}
	}
	for _, key := range keys {
		now := u.effectiveLocked(key)
		u.length += presence(now) - presence(before[key])
		if !packed.Equal(before[key], now) {
			changed = append(changed, policy.Update{Key: key, Resource: packed.Unpack(now)})
		}
	}
	return changed
}

// setLocked records an update of a source. If the source did not have the object before, setLocked
// calls Overruled for each other source that has the object.
func (u *Union) setLocked(source int, up policy.Update) {
	isNew := u.bySource[source].Get(up.Key) == nil
	u.bySource[source].Set(up.Key, packed.Pack(up.Resource))
	has := u.bySource[source].Get(up.Key) != nil
	others := 0
	for other, objects := range u.bySource {
		if other == source || objects.Get(up.Key) == nil {
			continue
		}
		if others++; isNew && has {
			u.several[up.Key] = struct{}{}
			u.cfg.Overruled(u.cfg.Sources[max(other, source)].Name, up.Key, u.cfg.Sources[min(other, source)].Name)
		}
	}
	if !has && others < 2 {
		delete(u.several, up.Key)
	}
}

// declaredLocked returns the update that UnionConfig.Exclude receives as declared, after an update
// of a source without Yields. It has the object that a union of the sources without Yields would
// have.
func (u *Union) declaredLocked(source int, up policy.Update) policy.Update {
	for i, objects := range u.bySource {
		if o := objects.Get(up.Key); o != nil && !u.cfg.Sources[i].Yields {
			if i != source {
				up.Resource = packed.Unpack(o)
			}
			break
		}
	}
	return up
}

// countsLocked reports whether an object of a source may be used. It is false if Exclude leaves the
// object out.
func (u *Union) countsLocked(source int, key policy.Key) bool {
	if !u.cfg.Sources[source].Yields {
		return true
	}
	_, excluded := u.excluded[key]
	return !excluded
}

// effectiveLocked returns the object that is in effect; nil if there is none.
func (u *Union) effectiveLocked(key policy.Key) packed.Object {
	for i, objects := range u.bySource {
		if o := objects.Get(key); o != nil && u.countsLocked(i, key) {
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
