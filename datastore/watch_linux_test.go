// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/datastore"
)

// A file may be written under another name, or none, and then be linked into the directory. No
// process closes it under its new name.
func TestDirFileLinkedIntoPlace(t *testing.T) {
	f := newFolder(t)
	r := f.start()
	want := ""
	for i := range 50 {
		name := fmt.Sprintf("%02d", i)
		file, err := os.Create(f.file(".tmp"))
		require.NoError(t, err)
		_, err = file.WriteString(doc(name, "1"))
		require.NoError(t, err)
		if i%2 == 0 {
			require.NoError(t, file.Close())
		}
		require.NoError(t, os.Link(f.file(".tmp"), f.file(name+".json")))
		require.NoError(t, os.Remove(f.file(".tmp")))
		if i%2 != 0 { // as with O_TMPFILE
			require.NoError(t, file.Close())
		}
		want += " " + name + "=1"
	}
	r.wait(t, want[1:])
	f.expectNoRejection()
}

// New permissions of the directory may make its files readable.
func TestDirTriesAgainWithNewPermissions(t *testing.T) {
	f := newFolder(t)
	target := f.path + ".target" // changes of the target cause no event
	require.NoError(t, os.Mkdir(target, 0o755))
	require.NoError(t, os.Symlink(target, f.file("1.json")))
	r := f.start()
	f.expectRejected("1.json: datastore: read 1.json: not a regular file")
	require.NoError(t, os.Remove(target))
	require.NoError(t, os.WriteFile(target, []byte(doc("a", "1")), 0o644))
	require.NoError(t, os.Chmod(f.path, 0o700))
	r.wait(t, "a=1")
	f.expectNoRejection()
}

// After a directory was moved away, changes of its files have no effect, even if the move is
// noticed later.
func TestDirMovedAwayThenEmptied(t *testing.T) {
	f := newFolder(t)
	f.write("1.json", doc("a", "1"))
	f.write("2.json", doc("b", "1"))
	unreadable := make(chan error, 10)
	f.config.Unreadable = func(err error) { unreadable <- err }
	dir, err := datastore.NewDir(f.config)
	require.NoError(t, err)
	r := newReceiver()
	r.gate = make(chan struct{})
	start(t, dir, r)
	r.gate <- struct{}{}
	r.waitInSync(t)
	f.write("2.json", "broken") // the run rejects this, and then blocks on reporting it
	f.expectRejected("2.json: ")
	require.NoError(t, os.Rename(f.path, f.path+".old"))
	require.NoError(t, os.Remove(filepath.Join(f.path+".old", "1.json")))
	r.gate <- struct{}{}
	f.expectRejected(".: datastore: directory lost")
	// The first event reports the loss, the second the next attempt. An update would come in
	// between.
	for range 2 {
		select {
		case r.gate <- struct{}{}:
			require.Fail(t, "an update is sent before there is another directory")
		case <-unreadable:
		case <-time.After(waitTimeout):
			require.Fail(t, "the directory is not read again")
		}
	}
	close(r.gate)
	require.NoError(t, os.Mkdir(f.path, 0o755))
	f.write("4.json", doc("c", "1"))
	r.wait(t, "c=1")
}

func TestDirLargestMaxSize(t *testing.T) {
	f := newFolder(t)
	f.config.MaxSize = math.MaxInt64
	f.write("1.json", doc("a", "1"))
	f.start().wait(t, "a=1")
}

// A pipe, a socket, a link to a device and a device are reported when they appear, as at the start.
func TestDirReportsIrregularFiles(t *testing.T) {
	f := newFolder(t)
	makeAll := func(suffix string) (names []string) {
		for name, create := range map[string]func(path string) error{
			"pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
			"link":   func(path string) error { return os.Symlink("/dev/null", path) },
			"socket": func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
			"device": func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
		} {
			err := create(f.file(name + suffix))
			if name == "device" && errors.Is(err, unix.EPERM) {
				continue // needs a right that root of a user namespace does not have
			}
			require.NoError(t, err)
			names = append(names, name+suffix)
		}
		return names
	}
	expect := func(names []string) {
		for range names {
			f.expectRejected("datastore: read ", ".json: not a regular file")
		}
	}
	names := makeAll("1.json")
	f.write("1.json", doc("a", "1"))
	r := f.start()
	expect(names)
	expect(makeAll("2.json"))
	f.write("2.json", doc("b", "1"))
	r.wait(t, "a=1 b=1")
	f.expectNoRejection()
}
