// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

func profile(name, value string) *policy.Profile {
	return &policy.Profile{Name: name, LabelsToApply: map[string]string{"v": value}}
}

func set(name, value string) policy.Update {
	p := profile(name, value)
	return policy.Update{Key: p.Key(), Resource: p}
}

func unset(name string) policy.Update { return policy.Update{Key: profile(name, "").Key()} }

func update(t testing.TB, store *etcd.Store, updates ...policy.Update) {
	t.Helper()
	require.NoError(t, store.Update(t.Context(), updates))
}

// fill writes n profiles p0000... with the value, in large transactions.
func fill(t testing.TB, store *etcd.Store, n int, value string) {
	t.Helper()
	var updates []policy.Update
	for i := range n {
		updates = append(updates, set(fmt.Sprintf("p%04d", i), value))
	}
	for chunk := range slices.Chunk(updates, etcd.MaxWrites) {
		update(t, store, chunk...)
	}
}

// receiver records what it receives. With a gate, it waits for a token before each update.
type receiver struct {
	changes
	gate chan struct{}

	mu      sync.Mutex
	state   map[string]string // profile name -> value
	log     []string          // "a=1 b=2 -c", and "in sync"
	inSync  bool
	largest int // of the batches
	removed map[string]int
	fail    error
	onBatch func([]policy.Update)
}

func newReceiver() *receiver {
	return &receiver{state: map[string]string{}, removed: map[string]int{}}
}

func (r *receiver) Update(ctx context.Context, updates []policy.Update) error {
	if r.gate != nil {
		select {
		case <-r.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer r.notify()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.largest = max(r.largest, len(updates))
	var words []string
	for _, u := range updates {
		if u.Resource == nil {
			delete(r.state, u.Key.Name)
			r.removed[u.Key.Name]++
			words = append(words, "-"+u.Key.Name)
			continue
		}
		p, ok := u.Resource.(*policy.Profile)
		if !ok {
			words = append(words, u.Key.String())
			continue
		}
		r.state[u.Key.Name] = p.LabelsToApply["v"]
		words = append(words, u.Key.Name+"="+p.LabelsToApply["v"])
	}
	r.log = append(r.log, strings.Join(words, " "))
	if r.onBatch != nil {
		r.onBatch(updates)
	}
	return r.fail
}

func (r *receiver) InSync(context.Context) error {
	defer r.notify()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inSync = true
	r.log = append(r.log, "in sync")
	return r.fail
}

// take returns the log so far and clears it.
func (r *receiver) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log
	r.log = nil
	return log
}

func (r *receiver) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var words []string
	for _, name := range slices.Sorted(maps.Keys(r.state)) {
		words = append(words, name+"="+r.state[name])
	}
	return strings.Join(words, " ")
}

func (r *receiver) value(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state[name]
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.state)
}

// wait blocks until the receiver has exactly this state, written as "a=1 b=2".
func (r *receiver) wait(t testing.TB, want string) {
	t.Helper()
	r.await(t, want, func() bool { return r.text() == want })
}

func (r *receiver) waitInSync(t testing.TB) {
	t.Helper()
	r.await(t, "in sync", r.isInSync)
}

func (r *receiver) isInSync() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inSync
}

// witness records the calls of a Source's hooks.
type witness struct {
	changes
	mu        sync.Mutex
	lost      []error
	found     int
	rejected  []string
	revisions []etcd.Revision
}

func (w *witness) hooks() etcd.SourceHooks {
	return etcd.SourceHooks{
		Rejected: func(err error) {
			defer w.notify()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.rejected = append(w.rejected, err.Error())
		},
		Lost: func(err error) {
			defer w.notify()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.lost = append(w.lost, err)
		},
		Found: func() {
			defer w.notify()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.found++
		},
		Delivered: func(r etcd.Revision, _ *etcd.History) {
			defer w.notify()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.revisions = append(w.revisions, r)
		},
	}
}

// waitLost waits until Lost is called with an error for which holds returns true, and removes it
// and all earlier ones.
func (w *witness) waitLost(t testing.TB, what string, holds func(error) bool) {
	t.Helper()
	w.await(t, "lost: "+what, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.IndexFunc(w.lost, holds)
		if i >= 0 {
			w.lost = w.lost[i+1:]
		}
		return i >= 0
	})
}

func (w *witness) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost, w.found, w.rejected = nil, 0, nil
}

func (w *witness) isFound() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found > 0
}

// rejections returns the rejections so far, and removes them.
func (w *witness) rejections() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rejected
	w.rejected = nil
	return r
}

// quick returns a configuration with short times, for tests.
func quick(c *etcd.Client, w *witness) etcd.SourceConfig {
	cfg := etcd.SourceConfig{Client: c, MaxBackOff: 100 * time.Millisecond, Heartbeat: 100 * time.Millisecond}
	if w != nil {
		cfg.Hooks = w.hooks()
	}
	return cfg
}

// start runs a source until the test ends, or until the returned function is called, which returns
// Run's error.
func start(t testing.TB, cfg etcd.SourceConfig, r *receiver) (source *etcd.Source, stop func() error) {
	t.Helper()
	source, err := etcd.NewSource(cfg)
	require.NoError(t, err)
	return source, background(t, func(ctx context.Context) error { return source.Run(ctx, r) })
}
