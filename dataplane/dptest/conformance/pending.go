// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
)

// apply applies a batch, and waits until nothing is pending.
func (n *node) apply(t *testing.T, b dataplane.Batch) error {
	t.Helper()
	return n.waitPending(t, n.dp.Apply(t.Context(), b))
}

// resync calls Resync, and waits until nothing is pending.
func (n *node) resync(t *testing.T) error {
	t.Helper()
	return n.waitPending(t, n.dp.Resync(t.Context()))
}

// waitPending waits until an asynchronous dataplane reports that it has programmed the pending
// objects of an error, or failed to. It returns the error afterwards.
func (n *node) waitPending(t *testing.T, err error) error {
	t.Helper()
	if !pending(err) {
		return err
	}
	_, watches := n.dp.(dataplane.Watcher)
	require.True(t, watches, "objects are pending, and the dataplane is not a Watcher: %v", err)
	w := n.watching
	if w == nil {
		w = n.watch(t)
		defer w.end(t)
	}
	for pending(err) {
		select {
		case <-w.drifts:
		case ended := <-w.ended:
			t.Fatalf("Watch ended: %v", ended)
		case <-time.After(n.waitTimeout):
			t.Fatalf("still pending: Watch did not report the result: %v", err)
		}
		err = n.dp.Apply(t.Context(), dataplane.Batch{})
	}
	return err
}

// pending reports whether an error has an object that is pending.
func pending(err error) bool {
	objects, _ := dataplane.ApplyErrors(err)
	for _, e := range objects {
		if e.Pending {
			return true
		}
	}
	return false
}
