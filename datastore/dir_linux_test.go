// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

// folder is a directory under test, with the errors that were reported.
type folder struct {
	t        *testing.T
	path     string
	rejected chan string // "file: error"
	config   datastore.DirConfig
}

func newFolder(t *testing.T) *folder {
	f := &folder{t: t, path: filepath.Join(t.TempDir(), "d"), rejected: make(chan string, 10000)}
	require.NoError(t, os.Mkdir(f.path, 0o755))
	f.config = datastore.DirConfig{
		Path:     f.path,
		Rejected: func(file string, err error) { f.rejected <- file + ": " + err.Error() },
		Recheck:  5 * time.Millisecond,
	}
	return f
}

// start runs a Dir on the folder and returns its receiver when that is in sync.
func (f *folder) start() *receiver {
	f.t.Helper()
	dir, err := datastore.NewDir(f.config)
	require.NoError(f.t, err)
	r := newReceiver()
	start(f.t, dir, r)
	r.waitInSync(f.t)
	return r
}

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

func (f *folder) write(name, text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(f.file(name), []byte(text), 0o644))
}

func (f *folder) rename(from, to string) {
	f.t.Helper()
	require.NoError(f.t, os.Rename(f.file(from), f.file(to)))
}

// expectRejected waits for the next rejection, which must have all these parts.
func (f *folder) expectRejected(parts ...string) {
	f.t.Helper()
	select {
	case line := <-f.rejected:
		for _, part := range parts {
			require.Contains(f.t, line, part)
		}
	case <-time.After(waitTimeout):
		require.Fail(f.t, "nothing rejected", "%v", parts)
	}
}

func (f *folder) expectNoRejection() {
	f.t.Helper()
	select {
	case line := <-f.rejected:
		require.Fail(f.t, "rejected", line)
	default:
	}
}

func doc(name, value string) string {
	return fmt.Sprintf(`{"kind": "Profile", "name": %q, "labelsToApply": {"v": %q}}`, name, value)
}

func TestDirReplaysThenStreams(t *testing.T) {
	f := newFolder(t)
	f.write("1.json", doc("a", "1"))
	f.write("2.json", doc("b", "1"))
	r := f.start()
	require.Equal(t, "a=1 b=1", r.text())
	f.write("3.json", doc("c", "1"))
	r.wait(t, "a=1 b=1 c=1")
	f.write("1.json", doc("a", "2")) // in place
	r.wait(t, "a=2 b=1 c=1")
	f.write(".tmp", doc("b", "2"))
	f.rename(".tmp", "2.json") // atomically
	r.wait(t, "a=2 b=2 c=1")
	f.write("3.json", doc("d", "1")) // another object in the same file
	r.wait(t, "a=2 b=2 d=1")
	require.NoError(t, os.Remove(f.file("1.json")))
	r.wait(t, "b=2 d=1")
	require.NoError(t, os.Link(f.file("2.json"), f.file("link"))) // ignored: no extension
	require.NoError(t, os.Remove(f.file("2.json")))
	r.wait(t, "d=1")
	f.rename("link", "4.json")
	r.wait(t, "b=2 d=1")
	require.Equal(t, []string{"a=1 b=1", "in sync", "c=1", "a=2", "b=2", "-c d=1", "-a", "-b", "b=2"}, r.take())
	f.expectNoRejection()
}

func TestDirEmptyIsInSync(t *testing.T) {
	f := newFolder(t)
	r := f.start()
	f.write("1.json", doc("a", "1"))
	r.wait(t, "a=1")
	require.Contains(t, r.take(), "in sync")
}

// Content that stays the same, and a renamed file, cause no update.
func TestDirSendsOnlyDifferences(t *testing.T) {
	f := newFolder(t)
	f.write("1.json", doc("a", "1"))
	r := f.start()
	r.wait(t, "a=1")
	f.write("1.json", doc("a", "1")+"\n")
	f.rename("1.json", "2.json")
	require.NoError(t, os.Chmod(f.file("2.json"), 0o600))
	f.write("mark.json", doc("mark", "1"))
	r.wait(t, "a=1 mark=1")
	require.Equal(t, []string{"a=1", "in sync", "mark=1"}, r.take())
	f.expectNoRejection()
}

// Objects of a file that is renamed never disappear, even if it is renamed while it is being read.
func TestDirRenames(t *testing.T) {
	f := newFolder(t)
	f.write("a0.json", doc("a", "1"))
	r := f.start()
	n := 0
	for i := range 20 {
		f.write(fmt.Sprintf("a%d.json", n), doc("a", "1"))
		for range 3 {
			f.rename(fmt.Sprintf("a%d.json", n), fmt.Sprintf("a%d.json", n+1))
			n++
		}
		f.write("mark.json", doc("mark", fmt.Sprint(i)))
		r.wait(t, fmt.Sprint("a=1 mark=", i))
	}
	require.NotContains(t, strings.Join(r.take(), " "), "-a")
	f.expectNoRejection()
}

// If a file becomes invalid, its objects are removed. Those of other files stay.
func TestDirBrokenFiles(t *testing.T) {
	f := newFolder(t)
	f.config.MaxSize = 1000
	f.write("1.json", doc("a", "1"))
	f.write("2.json", doc("b", "1")[:20])
	r := f.start()
	r.wait(t, "a=1")
	f.expectRejected("2.json: policy: decode")
	f.write("2.json", doc("b", "1"))
	r.wait(t, "a=1 b=1")
	f.write("1.json", strings.Replace(doc("a", "2"), "labelsToApply", "labels", 1)) // an unknown field
	r.wait(t, "b=1")
	f.expectRejected("1.json: policy: decode Profile/a", "labels")
	f.write("1.json", "")
	f.expectRejected("1.json: ")
	f.write("1.json", doc("a", "3")+strings.Repeat(" ", 1000))
	f.expectRejected("1.json: datastore: read 1.json: longer than 1000 bytes")
	require.NoError(t, os.Chmod(f.file("1.json"), 0o600)) // might have made it readable
	f.expectRejected("1.json: datastore: read 1.json: longer than 1000 bytes")
	require.NoError(t, os.Mkdir(f.file("3.json"), 0o755))
	f.expectRejected("3.json: datastore: read 3.json: not a regular file")
	require.NoError(t, unix.Mkfifo(f.file("fifo"), 0o600))
	f.rename("fifo", "4.json")
	f.expectRejected("4.json: datastore: read 4.json: not a regular file")
	f.write("1.json", doc("a", "4"))
	r.wait(t, "a=4 b=1")
	f.expectNoRejection()
}

// A file that is being written is read when it is closed, not before.
func TestDirWaitsForClose(t *testing.T) {
	f := newFolder(t)
	r := f.start()
	file, err := os.Create(f.file("1.json"))
	require.NoError(t, err)
	text := doc("a", "1")
	_, err = file.WriteString(text[:10])
	require.NoError(t, err)
	require.NoError(t, file.Chmod(0o600))
	f.write("mark.json", doc("mark", "1"))
	r.wait(t, "mark=1")
	f.expectNoRejection()
	_, err = file.WriteString(text[10:])
	require.NoError(t, err)
	require.NoError(t, file.Close())
	r.wait(t, "a=1 mark=1")
	f.expectNoRejection()
}

func TestDirIgnoresOtherNames(t *testing.T) {
	f := newFolder(t)
	f.config.Extensions = []string{".json", ".policy"}
	f.write("README", "hello")
	f.write("0.json~", doc("backup", "1"))
	r := f.start()
	for _, name := range []string{".1.json", ".#1.json", "1.json.swp", "#1.json#", "1.JSON", "json", "4913"} {
		f.write(name, doc("temporary", "1"))
	}
	f.write("1.policy", doc("a", "1"))
	r.wait(t, "a=1")
	require.Equal(t, []string{"in sync", "a=1"}, r.take())
	f.expectNoRejection()
}

// If several files have an object, the first by name is used, whichever was written first.
func TestDirSameObjectInTwoFiles(t *testing.T) {
	f := newFolder(t)
	f.write("m.json", doc("a", "m"))
	r := f.start()
	r.wait(t, "a=m")
	f.write("z.json", doc("a", "z"))
	f.expectRejected("z.json: datastore: Profile/a is already in m.json")
	f.write("b.json", doc("a", "b"))
	r.wait(t, "a=b")
	f.expectRejected("m.json: datastore: Profile/a is already in b.json")
	f.write("mark.json", doc("mark", "1"))
	r.wait(t, "a=b mark=1")
	f.expectNoRejection() // nothing is reported twice
	require.NoError(t, os.Remove(f.file("b.json")))
	r.wait(t, "a=m mark=1")
	require.NoError(t, os.Remove(f.file("m.json")))
	r.wait(t, "a=z mark=1")
	f.write("m.json", doc("a", "m"))
	f.expectRejected("z.json: datastore: Profile/a is already in m.json")
	f.write("m.json", "broken") // its objects are removed
	r.wait(t, "a=z mark=1")
	f.expectRejected("m.json: policy: decode")

	restarted := f.start()
	restarted.wait(t, "a=z mark=1")
}

// Decode may return several resources and several errors for one file.
func TestDirDecodeHook(t *testing.T) {
	f := newFolder(t)
	f.config.Extensions = []string{".txt"}
	f.config.Decode = func(file string, data []byte) (resources []policy.Resource, errs []error) {
		for line := range bytes.Lines(data) {
			name, value, ok := strings.Cut(strings.TrimSpace(string(line)), "=")
			switch {
			case ok:
				resources = append(resources, profile(name, value))
			case name == "nil":
				resources = append(resources, (*policy.Profile)(nil), nil)
			default:
				errs = append(errs, fmt.Errorf("in %s: %q", file, name))
			}
		}
		return resources, errs
	}
	f.write("1.txt", "a=1\nbad\nb=1\nworse\na=2\nnil")
	r := f.start()
	r.wait(t, "a=1 b=1")
	for _, want := range []string{
		`1.txt: in 1.txt: "bad"`, `1.txt: in 1.txt: "worse"`, "1.txt: datastore: Profile/a is already in 1.txt",
		"1.txt: datastore: the decoder returned a nil resource",
		"1.txt: datastore: the decoder returned a nil resource",
	} {
		f.expectRejected(want)
	}
	f.write("1.txt", "b=2\nc=1")
	r.wait(t, "b=2 c=1")
	require.Equal(t, []string{"a=1 b=1", "in sync", "-a b=2 c=1"}, r.take())
}

func TestDirAbsentAtStart(t *testing.T) {
	f := newFolder(t)
	f.write("file", "")
	for path, want := range map[string]error{f.file("nowhere"): fs.ErrNotExist, f.file("file"): unix.ENOTDIR} {
		dir, err := datastore.NewDir(datastore.DirConfig{Path: path})
		require.NoError(t, err)
		r := newReceiver()
		err = dir.Run(t.Context(), r)
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, "datastore: watch "+path)
		require.Empty(t, r.take())
	}
}

// The name of a file cannot begin a new line in a log, nor write control characters to a terminal.
func TestDirErrorsArePrintable(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"1\n\x1b[2J.json", "2\n\x1b[2J.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(doc("a", "1")), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "3\n\x1b[2J.json"), 0o700))
	var errs []string
	d, err := datastore.NewDir(datastore.DirConfig{Path: dir, Rejected: func(_ string, err error) {
		errs = append(errs, err.Error())
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, d.Run(ctx, untilSync(cancel)), context.Canceled)
	require.Equal(t, []string{
		`datastore: read "3\n\x1b[2J.json": not a regular file`, `datastore: Profile/a is already in "1\n\x1b[2J.json"`,
	}, errs)
}

// untilSync is a receiver that cancels a context once all is in sync.
type untilSync context.CancelFunc

func (untilSync) Update(context.Context, []policy.Update) error { return nil }

func (u untilSync) InSync(context.Context) error {
	u()
	return nil
}

// If the directory is moved away, its objects stay until another one is at the path.
func TestDirMovedAway(t *testing.T) {
	f := newFolder(t)
	f.write("1.json", doc("a", "1"))
	f.write("2.json", doc("b", "1"))
	r := f.start()
	r.wait(t, "a=1 b=1")
	require.NoError(t, os.Rename(f.path, f.path+".old"))
	f.expectRejected(".: datastore: directory lost", "objects stay as they are")
	require.NoError(t, os.WriteFile(f.path+".old/1.json", []byte(doc("a", "elsewhere")), 0o644))

	next := f.path + ".next"
	require.NoError(t, os.Mkdir(next, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(next, "2.json"), []byte(doc("b", "2")), 0o644))
	require.NoError(t, os.Rename(next, f.path))
	r.wait(t, "b=2")
	f.write("3.json", doc("c", "1")) // the new one is watched
	r.wait(t, "b=2 c=1")
	require.Equal(t, []string{"a=1 b=1", "in sync", "-a b=2", "c=1"}, r.take())
	f.expectNoRejection()
}

// If the directory is removed with all its files, it has no objects. A new one is read.
func TestDirRemovedAndRecreated(t *testing.T) {
	f := newFolder(t)
	f.write("1.json", doc("a", "1"))
	r := f.start()
	r.wait(t, "a=1")
	require.NoError(t, os.RemoveAll(f.path))
	r.wait(t, "")
	f.expectRejected(".: datastore: directory lost")
	require.NoError(t, os.Mkdir(f.path, 0o755))
	f.write("1.json", doc("a", "2"))
	r.wait(t, "a=2")
}

// The path may be a symbolic link that is changed. The kernel sends no event for it.
func TestDirLinkSwitched(t *testing.T) {
	f := newFolder(t)
	other, link := f.path+".other", f.path+".link"
	require.NoError(t, os.Mkdir(other, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(other, "1.json"), []byte(doc("a", "2")), 0o644))
	f.write("1.json", doc("a", "1"))
	require.NoError(t, os.Symlink(f.path, link))
	f.config.Path = link
	r := f.start()
	r.wait(t, "a=1")
	require.NoError(t, os.Symlink(other, link+".new"))
	require.NoError(t, os.Rename(link+".new", link))
	r.wait(t, "a=2")
	f.expectRejected(".: datastore: directory lost: another directory is at")
	require.NoError(t, os.Remove(filepath.Join(other, "1.json")))
	r.wait(t, "")
}

// In a mounted ConfigMap, files are links through "..data", which is replaced as a whole.
func TestDirConfigMap(t *testing.T) {
	f := newFolder(t)
	for _, version := range []string{"1", "2"} {
		require.NoError(t, os.Mkdir(f.file("..v"+version), 0o755))
		f.write("..v"+version+"/1.json", doc("a", version))
	}
	require.NoError(t, os.Symlink("..v1", f.file("..data")))
	require.NoError(t, os.Symlink("..data/1.json", f.file("1.json")))
	r := f.start()
	r.wait(t, "a=1")
	require.NoError(t, os.Symlink("..v2", f.file("..tmp")))
	f.rename("..tmp", "..data")
	r.wait(t, "a=2")
	require.NoError(t, os.Symlink("..data/nowhere", f.file("2.json"))) // a dangling link: the file is absent
	require.NoError(t, os.Symlink("1.json", f.file("0.json")))
	f.expectRejected("1.json: datastore: Profile/a is already in 0.json")
	f.expectNoRejection()
}

// If the receiver blocks until the kernel's event queue overflows, the directory is read again.
func TestDirOverflow(t *testing.T) {
	f := newFolder(t)
	f.write("1.json", doc("a", "1"))
	f.write("2.json", doc("b", "1"))
	dir, err := datastore.NewDir(f.config)
	require.NoError(t, err)
	r := newReceiver()
	r.gate = make(chan struct{}, 1)
	r.gate <- struct{}{}
	start(t, dir, r)
	r.waitInSync(t)
	f.write("1.json", doc("a", "2")) // the run blocks on sending this
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	require.NoError(t, err)
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	for i := range limit + 100 { // two names alternately: the kernel merges equal events in a row
		require.NoError(t, os.WriteFile(f.file(fmt.Sprintf("noise%d", i%2)), nil, 0o644))
	}
	require.NoError(t, os.Remove(f.file("2.json")))
	f.write("3.json", doc("c", "1"))
	close(r.gate)
	r.wait(t, "a=2 c=1")
	f.write("4.json", doc("d", "1"))
	r.wait(t, "a=2 c=1 d=1")
	f.expectNoRejection()
}

func TestDirReceiverFails(t *testing.T) {
	f := newFolder(t)
	dir, err := datastore.NewDir(f.config)
	require.NoError(t, err)
	r := newReceiver()
	r.fail = errors.New("full")
	require.ErrorIs(t, dir.Run(t.Context(), r), r.fail)
	f.write("1.json", doc("a", "1"))
	require.ErrorIs(t, dir.Run(t.Context(), r), r.fail)
	require.Equal(t, []string{"in sync", "a=1"}, r.take())
}

// Run ends at once when its context ends: while it waits, without a directory, and while a receiver
// blocks. Two runs are independent.
func TestDirStops(t *testing.T) {
	f := newFolder(t)
	f.config.Recheck = time.Hour
	f.write("1.json", doc("a", "1"))
	dir, err := datastore.NewDir(f.config)
	require.NoError(t, err)
	one, two, blocked := newReceiver(), newReceiver(), newReceiver()
	blocked.gate = make(chan struct{})
	stopOne, stopTwo, stopBlocked := start(t, dir, one), start(t, dir, two), start(t, dir, blocked)
	one.wait(t, "a=1")
	two.wait(t, "a=1")
	require.ErrorIs(t, stopOne(), context.Canceled)
	require.ErrorIs(t, stopBlocked(), context.Canceled)
	f.write("1.json", doc("a", "2"))
	two.wait(t, "a=2")
	require.NoError(t, os.Rename(f.path, f.path+".old"))
	f.expectRejected(".: datastore: directory lost")
	require.ErrorIs(t, stopTwo(), context.Canceled)
	require.Equal(t, "a=1", one.text())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, dir.Run(ctx, newReceiver())) // of the missing directory, or of ctx
}

// No descriptor stays open, however often the directory is lost and read again.
func TestDirLeaksNoDescriptors(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	f := newFolder(t)
	before := count()
	dir, err := datastore.NewDir(f.config)
	require.NoError(t, err)
	r := newReceiver()
	stop := start(t, dir, r)
	r.waitInSync(t)
	for i := range 20 {
		f.write("1.json", doc("a", fmt.Sprint(i)))
		r.wait(t, "a="+fmt.Sprint(i))
		require.NoError(t, os.Rename(f.path, f.path+fmt.Sprint(i)))
		f.expectRejected(".: datastore: directory lost")
		require.NoError(t, os.Mkdir(f.path, 0o755))
		r.wait(t, "") // the directory was read again
	}
	require.Error(t, stop())
	require.LessOrEqual(t, count(), before+1) // the runtime's network poller may have opened a descriptor
}
