// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/datastore"
)

// With Wait, the directory may be created after Run has begun, be removed, and be created again.
// Unreadable reports each change.
func TestDirWaits(t *testing.T) {
	f := newFolder(t)
	lost := make(chan error, 1000)
	f.config.Wait = true
	f.config.Unreadable = func(cause error) { lost <- cause }
	expect := func(want error) {
		t.Helper()
		select {
		case cause := <-lost:
			require.ErrorIs(t, cause, want)
		case <-time.After(waitTimeout):
			require.Fail(t, "not reported")
		}
	}
	require.NoError(t, os.Remove(f.path))
	dir, err := datastore.NewDir(f.config)
	require.NoError(t, err)
	r := newReceiver()
	stop := start(t, dir, r)
	expect(fs.ErrNotExist)
	f.expectRejected(".: datastore: watch ", "no objects are read until it exists")
	require.NoError(t, os.WriteFile(f.path, nil, 0o644))
	expect(unix.ENOTDIR)
	f.expectRejected(".: datastore: watch ")
	require.Empty(t, r.take(), "an empty directory would be in sync")
	require.NoError(t, os.Remove(f.path))
	expect(fs.ErrNotExist)
	f.expectRejected(".: datastore: watch ")

	next := f.path + ".next"
	require.NoError(t, os.Mkdir(next, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(next, "1.json"), []byte(doc("a", "1")), 0o644))
	require.NoError(t, os.Rename(next, f.path))
	r.waitInSync(t)
	require.Equal(t, []string{"a=1", "in sync"}, r.take())
	expect(nil)
	require.NoError(t, os.Rename(f.path, next))
	expect(fs.ErrNotExist)
	f.expectRejected(".: datastore: directory lost", "objects stay as they are")
	require.NoError(t, os.Rename(next, f.path))
	for cause := error(fs.ErrNotExist); cause != nil; cause = <-lost { // the message of a later attempt differs
		require.ErrorIs(t, cause, fs.ErrNotExist)
	}
	f.write("1.json", doc("a", "2"))
	r.wait(t, "a=2")

	// Run returns when its context ends while it waits.
	require.ErrorIs(t, stop(), context.Canceled)
	require.NoError(t, os.RemoveAll(f.path))
	stop = start(t, dir, newReceiver())
	expect(fs.ErrNotExist)
	require.ErrorIs(t, stop(), context.Canceled)
}
