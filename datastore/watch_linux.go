// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What to be told of. Not of each write: only a file that was closed, or moved or linked into
// place, is taken to be whole.
const watchMask = unix.IN_CREATE | unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE |
	unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// settle is how long to wait, once a file is gone, for more events: a rename tells of the
// old name first, and editors put the new version in place just after removing the old.
const settle = 20 * time.Millisecond

// watch is one directory, held open, with the kernel's notices of what happens in it. All files are
// opened relative to it, so that what is read is always of this directory, also while
// another one takes its place at the path.
type watch struct {
	path   string
	wants  func(file string) bool
	dir    *os.File
	info   os.FileInfo
	notice *os.File
	stop   func() bool
	buffer []byte
}

// changes is what happened since the last look.
type changes struct {
	names    map[string]uint32   // kinds of event by file
	missing  map[string]struct{} // files that went away and have not come back
	overflow bool                // events were lost, or the files changed in one go: look at all of them
	access   bool                // who may read the directory may have changed
	moved    bool                // the directory went elsewhere; what happened to its files since is left out
}

// newWatch opens the directory and begins to watch it for files that are wanted. When ctx is done a
// wait returns at once.
func newWatch(ctx context.Context, path string, wants func(file string) bool) (*watch, error) {
	fail := func(err error) (*watch, error) {
		return nil, fmt.Errorf("datastore: watch %s: %w", path, err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return fail(err)
	}
	info, err := dir.Stat()
	if err != nil {
		dir.Close()
		return fail(err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		dir.Close()
		return fail(fmt.Errorf("inotify: %w", err))
	}
	notice := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, path, watchMask); err != nil {
		notice.Close()
		dir.Close()
		return fail(fmt.Errorf("inotify: %w", err))
	}
	w := &watch{path: path, wants: wants, dir: dir, info: info, notice: notice, buffer: make([]byte, 64<<10)}
	w.stop = context.AfterFunc(ctx, func() { notice.Close() })
	if err := w.check(); err != nil { // the directory that was opened must be the one that is watched
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *watch) close() {
	w.stop()
	w.notice.Close()
	w.dir.Close()
}

// check fails if the path does not lead to this directory any more.
func (w *watch) check() error {
	info, err := os.Stat(w.path)
	if err != nil {
		return fmt.Errorf("datastore: directory lost: %w", err)
	}
	if !os.SameFile(w.info, info) {
		return fmt.Errorf("datastore: directory lost: another one is at %s", w.path)
	}
	return nil
}

// wait returns what has happened, as soon as something has and at the latest after the time given.
// An error means that the watch is broken.
func (w *watch) wait(atMost time.Duration) (changes, error) {
	c := changes{names: map[string]uint32{}, missing: map[string]struct{}{}}
	more, err := w.receive(&c, time.Now().Add(atMost))
	for deadline := time.Now().Add(settle); err == nil && more && !c.moved && len(c.missing) > 0; {
		more, err = w.receive(&c, deadline)
	}
	return c, err
}

// receive adds one read's worth of events, and reports whether there were any before the deadline.
func (w *watch) receive(c *changes, deadline time.Time) (bool, error) {
	if err := w.notice.SetReadDeadline(deadline); err != nil {
		return false, fmt.Errorf("datastore: watch %s: %w", w.path, err)
	}
	n, err := w.notice.Read(w.buffer)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("datastore: watch %s: %w", w.path, err)
	}
	w.parse(c, w.buffer[:n])
	return true, nil
}

// hasEvents reports whether there are events to receive, or whether that cannot be told.
func (w *watch) hasEvents() bool {
	raw, err := w.notice.SyscallConn()
	if err != nil {
		return true
	}
	var size int
	ctlErr := raw.Control(func(fd uintptr) { size, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return ctlErr != nil || err != nil || size > 0
}

// parse reads a sequence of struct inotify_event: watch, mask, cookie and length of the name, four
// bytes each, then the name, padded with zero bytes.
func (w *watch) parse(c *changes, events []byte) {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(events[4:])
		size := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[unix.SizeofInotifyEvent:]
		if size > len(events) {
			c.overflow = true // cannot be, but would mean that we know nothing
			return
		}
		name := strings.TrimRight(string(events[:size]), "\x00")
		events = events[size:]
		switch {
		case mask&unix.IN_MOVE_SELF != 0:
			c.moved = true
			return
		case name == "" && mask&unix.IN_ATTRIB != 0:
			c.access = true
		case mask&unix.IN_Q_OVERFLOW != 0, name == "..data": // the link by which a ConfigMap changes as a whole
			c.overflow = true
		case name != "" && w.wants(name):
			c.add(name, mask&^unix.IN_ISDIR)
		}
	}
}

func (c *changes) add(name string, mask uint32) {
	c.names[name] |= mask
	switch {
	case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		c.missing[name] = struct{}{}
	case mask&(unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO) != 0:
		delete(c.missing, name)
	}
}

// list returns the names of all that is in the directory.
func (w *watch) list() ([]string, error) {
	if _, err := w.dir.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("datastore: list %s: %w", w.path, err)
	}
	names, err := w.dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("datastore: list %s: %w", w.path, err)
	}
	return names, nil
}

// errNotRegular is returned for a name that is a directory, a pipe, a socket or a device.
var errNotRegular = errors.New("not a regular file")

// read returns the content of a regular file of at most that many bytes. It never blocks on a pipe,
// and opens no device: for some, opening is an action.
func (w *watch) read(name string, atMost int64) ([]byte, error) {
	fail := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("datastore: read %s: %w", printable(name), err)
	}
	var stat unix.Stat_t
	if err := unix.Fstatat(int(w.dir.Fd()), name, &stat, 0); err == nil && stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return fail(errNotRegular)
	}
	file, err := w.open(name)
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fail(err)
	}
	if !info.Mode().IsRegular() { // another one since
		return fail(errNotRegular)
	}
	data, err := io.ReadAll(io.LimitReader(file, max(atMost, atMost+1))) // the latter may be negative
	if err != nil {
		return fail(err)
	}
	if int64(len(data)) > atMost {
		return fail(fmt.Errorf("longer than %d bytes", atMost))
	}
	return data, nil
}

// open opens a file for reading.
func (w *watch) open(name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	for {
		fd, err := unix.Openat(int(w.dir.Fd()), name, flags, 0)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), name), nil
		case unix.EINTR:
		default:
			return nil, err
		}
	}
}

// isWhole reports whether a regular file has content and is known not to be open for writing.
func (w *watch) isWhole(name string) bool {
	if stat, err := w.lstat(name); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Size == 0 {
		return false
	}
	file, err := w.open(name)
	if err != nil {
		return false
	}
	defer file.Close() // which also ends the lease
	// The kernel grants such a lease only while nobody can write to the file.
	_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return err == nil
}

// appearsWhole reports whether a name has its content from the start: anything but a regular file,
// such as a symbolic link, a pipe or a device, and each further name of a file.
func (w *watch) appearsWhole(name string) bool {
	stat, err := w.lstat(name)
	return err == nil && (stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink > 1)
}

// exists reports whether a name is there, be it a link that leads nowhere.
func (w *watch) exists(name string) bool {
	_, err := w.lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

func (w *watch) lstat(name string) (stat unix.Stat_t, err error) {
	err = unix.Fstatat(int(w.dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return stat, err
}
