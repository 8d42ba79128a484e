// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
)

// waitTimeout is how long the kit waits for a Watcher.
const waitTimeout = 20 * time.Second

// watching is a Watch that runs, and its reports.
type watching struct {
	node   *node
	stop   context.CancelFunc
	ended  chan error
	drifts chan dataplane.Drift
	// label is the pprof label of all goroutines of the Watch.
	label string
}

// watch checks the method of a Watcher. Changes by another program are repaired, by the Watcher
// itself or by the Resync that it requests. Changes by the dataplane itself are not reported. After
// its context is done, a Watch leaves no goroutine.
func (k kit) watch(t *testing.T) {
	n := k.start(t)
	if _, ok := n.dp.(dataplane.Watcher); lacks(t, ok, "dataplane.Watcher") {
		return
	}
	w := n.watch(t)
	n.reach(t, fullWorld(n.Interfaces))
	if !lacks(t, n.Damage != nil, "Harness.Damage") {
		w.repaired(t)
		w.checkOwnChanges(t)
	}
	w.end(t)
}

// watch begins to watch, as a Driver does: before the first batch.
func (n *node) watch(t *testing.T) *watching {
	ctx, stop := context.WithCancel(t.Context())
	w := &watching{
		node: n, stop: stop, ended: make(chan error, 1), drifts: make(chan dataplane.Drift, 10000), label: t.Name(),
	}
	n.watching = w
	watcher := n.dp.(dataplane.Watcher)
	go pprof.Do(ctx, pprof.Labels("dptest-watch", w.label), func(ctx context.Context) {
		w.ended <- watcher.Watch(ctx, func(d dataplane.Drift) { w.drifts <- d })
	})
	t.Cleanup(stop)
	return w
}

// repaired does damage, and waits until the damage is repaired. It returns how often the Watcher
// requested a Resync until then.
func (w *watching) repaired(t *testing.T) (drifts int) {
	t.Helper()
	want := w.node.Dump(t)
	w.node.Damage(t)
	for deadline := time.Now().Add(w.node.waitTimeout); w.node.Dump(t) != want; runtime.Gosched() {
		select {
		case d := <-w.drifts:
			if !w.onlyFaults(t, d) {
				drifts++
				require.NoError(t, w.node.resync(t))
			}
		case err := <-w.ended:
			t.Fatalf("Watch ended: %v", err)
		default:
		}
		require.False(t, time.Now().After(deadline), "a change by another program is neither reported nor repaired")
	}
	for len(w.drifts) > 0 { // requests for a Resync that came meanwhile
		if !w.onlyFaults(t, <-w.drifts) {
			drifts++
		}
	}
	return drifts
}

// onlyFaults reports whether nothing has to be programmed. It then calls Apply as a Driver does,
// which tries again after an error.
func (w *watching) onlyFaults(t *testing.T, d dataplane.Drift) bool {
	if d.OnlyFaults {
		_ = w.node.dp.Apply(t.Context(), dataplane.Batch{})
	}
	return d.OnlyFaults
}

// checkOwnChanges checks that the Watcher does not report the dataplane's own changes. It counts
// the reports for ten damages, and for ten damages that each follow own changes: the counts must be
// about equal. When the Watcher reports a damage, it has also processed the changes before.
func (w *watching) checkOwnChanges(t *testing.T) {
	const rounds = 10
	without, with := 0, 0
	for range rounds {
		without += w.repaired(t)
	}
	for range rounds {
		w.node.reach(t, otherWorld(w.node.Interfaces))
		w.node.reach(t, fullWorld(w.node.Interfaces))
		with += w.repaired(t)
	}
	require.Less(t, with, without+rounds/2, "changes by the dataplane itself are reported as drift")
}

// end ends the Watch.
func (w *watching) end(t *testing.T) {
	w.stop()
	w.node.watching = nil
	select {
	case err := <-w.ended:
		require.ErrorIs(t, err, context.Canceled, "Watch returns the error of its context")
	case <-time.After(w.node.waitTimeout):
		t.Fatal("Watch does not end with its context")
	}
	for deadline := time.Now().Add(w.node.waitTimeout); ; runtime.Gosched() {
		left := w.goroutines(t)
		if left == "" {
			return
		}
		require.False(t, time.Now().After(deadline), "goroutines remain after Watch has ended:\n%s", left)
	}
}

// goroutines returns the stacks of the goroutine that calls Watch and of all goroutines that it
// started: these inherit its label.
func (w *watching) goroutines(t *testing.T) string {
	var all bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&all, 1))
	label := fmt.Sprintf("%q:%q", "dptest-watch", w.label)
	var left []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, label) {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}
