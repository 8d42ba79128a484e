// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

// waitTimeout limits how long a test waits for an event.
const waitTimeout = 30 * time.Second

// TestMain fails if a goroutine of this package outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	deadline := time.Now().Add(waitTimeout)
	for leaked() != "" && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if stacks := leaked(); stacks != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "leaked goroutines:\n"+stacks)
		code = 1
	}
	os.Exit(code)
}

func leaked() string {
	buffer := make([]byte, 1<<20)
	var found []string
	for _, stack := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "wayleave/datastore.") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

func profile(name, value string) *policy.Profile {
	return &policy.Profile{Name: name, LabelsToApply: map[string]string{"v": value}}
}

func set(name, value string) policy.Update {
	p := profile(name, value)
	return policy.Update{Key: p.Key(), Resource: p}
}

func unset(name string) policy.Update { return policy.Update{Key: profile(name, "").Key()} }

// receiver records what it receives. With a gate, it waits for a token before each update.
type receiver struct {
	mu      sync.Mutex
	state   map[string]string // profile name -> value
	batches []string          // "a=1 b=2 -c", and "in sync"
	changed chan struct{}     // holds a token after a change
	synced  chan struct{}     // closed by InSync
	gate    chan struct{}
	fail    error
}

func newReceiver() *receiver {
	return &receiver{state: map[string]string{}, changed: make(chan struct{}, 1), synced: make(chan struct{})}
}

func (r *receiver) Update(ctx context.Context, updates []policy.Update) error {
	if r.gate != nil {
		select {
		case <-r.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var words []string
	for _, u := range updates {
		if u.Resource == nil {
			delete(r.state, u.Key.Name)
			words = append(words, "-"+u.Key.Name)
			continue
		}
		value := u.Resource.(*policy.Profile).LabelsToApply["v"]
		r.state[u.Key.Name] = value
		words = append(words, u.Key.Name+"="+value)
	}
	r.recordLocked(strings.Join(words, " "))
	return r.fail
}

func (r *receiver) InSync(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recordLocked("in sync")
	if r.fail == nil {
		close(r.synced)
	}
	return r.fail
}

func (r *receiver) recordLocked(batch string) {
	r.batches = append(r.batches, batch)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// take returns the batches so far and removes them.
func (r *receiver) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	batches := r.batches
	r.batches = nil
	return batches
}

// wait blocks until the receiver has exactly this state, written as "a=1 b=2".
func (r *receiver) wait(t testing.TB, want string) {
	t.Helper()
	deadline := time.After(waitTimeout)
	for {
		if r.text() == want {
			return
		}
		select {
		case <-r.changed:
		case <-deadline:
			require.Equal(t, want, r.text(), "timeout")
			return
		}
	}
}

// waitInSync blocks until the receiver is in sync.
func (r *receiver) waitInSync(t testing.TB) {
	t.Helper()
	select {
	case <-r.synced:
	case <-time.After(waitTimeout):
		require.Fail(t, "not in sync")
	}
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

// start runs a source until the test ends, or until the returned function is called, which returns
// Run's error.
func start(t testing.TB, source datastore.Source, r datastore.Receiver) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, r) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return finished(t, done)
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

func finished(t testing.TB, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-time.After(waitTimeout):
		require.Fail(t, "Run does not return")
		return nil
	}
}
