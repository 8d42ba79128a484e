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

// watchMask has the events to receive. IN_MODIFY is not among them: a file counts as complete only
// when it was closed, or moved or linked into the directory.
const watchMask = unix.IN_CREATE | unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE |
	unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// renameWindow is the time to wait for more events after a file was removed. A rename sends the
// event of the old name first. Some editors remove the old version just before they write the new
// one.
const renameWindow = 20 * time.Millisecond

// watch is an open directory with an inotify instance. All files are opened relative to the open
// directory. So they are files of this directory, even if the path leads to another one by now.
type watch struct {
	path    string
	matches func(file string) bool
	dir     *os.File
	info    os.FileInfo
	notice  *os.File
	stop    func() bool
	buffer  []byte
}

// changes are the events of one call of wait.
type changes struct {
	names    map[string]uint32   // the inotify mask of each file
	missing  map[string]struct{} // files that were removed and have not been created again
	overflow bool                // events were lost, or all files changed at once: read all of them
	access   bool                // the permissions of the directory may have changed
	moved    bool                // the directory was moved; later events of its files are left out
}

// newWatch opens the directory and begins to watch the files whose names match. When ctx is done, a
// wait returns at once.
func newWatch(ctx context.Context, path string, matches func(file string) bool) (*watch, error) {
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
	w := &watch{path: path, matches: matches, dir: dir, info: info, notice: notice, buffer: make([]byte, 64<<10)}
	w.stop = context.AfterFunc(ctx, func() { notice.Close() })
	if err := w.check(); err != nil { // the path must still lead to the directory that is watched
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

// check returns an error if the path no longer leads to this directory.
func (w *watch) check() error {
	info, err := os.Stat(w.path)
	if err != nil {
		return fmt.Errorf("datastore: directory lost: %w", err)
	}
	if !os.SameFile(w.info, info) {
		return fmt.Errorf("datastore: directory lost: another directory is at %s", w.path)
	}
	return nil
}

// wait returns the changes at the first event, or none at the time limit. An error means that the
// inotify instance or the directory cannot be used any more.
func (w *watch) wait(limit time.Duration) (changes, error) {
	c := changes{names: map[string]uint32{}, missing: map[string]struct{}{}}
	more, err := w.receive(&c, time.Now().Add(limit))
	for deadline := time.Now().Add(renameWindow); err == nil && more && !c.moved && len(c.missing) > 0; {
		more, err = w.receive(&c, deadline)
	}
	return c, err
}

// receive reads events once, and reports whether any arrived before the deadline.
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

// hasEvents reports whether events are queued. It returns true if that is unknown.
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
			c.overflow = true // the kernel never sends this; treat it as lost events
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
		case mask&unix.IN_Q_OVERFLOW != 0, name == "..data": // a ConfigMap replaces this link for all files
			c.overflow = true
		case name != "" && w.matches(name):
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

// list returns the names of all entries of the directory.
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

// errNotRegular is returned for a directory, a pipe, a socket or a device.
var errNotRegular = errors.New("not a regular file")

// read returns the content of a regular file of at most limit bytes. It does not block on a pipe,
// and it does not open a device, because opening some devices has side effects.
func (w *watch) read(name string, limit int64) ([]byte, error) {
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
	if !info.Mode().IsRegular() { // replaced since the first check
		return fail(errNotRegular)
	}
	data, err := io.ReadAll(io.LimitReader(file, max(limit, limit+1))) // limit+1 overflows for the largest limit
	if err != nil {
		return fail(err)
	}
	if int64(len(data)) > limit {
		return fail(fmt.Errorf("longer than %d bytes", limit))
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

// isComplete reports whether a regular file has content and no process has it open for writing.
func (w *watch) isComplete(name string) bool {
	if stat, err := w.lstat(name); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Size == 0 {
		return false
	}
	file, err := w.open(name)
	if err != nil {
		return false
	}
	defer file.Close() // ends the lease, too
	// The kernel grants a read lease only while no process has the file open for writing.
	_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return err == nil
}

// appearsComplete reports whether an entry has its content when it appears. This holds for
// everything but a regular file with one name: symbolic links, pipes, devices, and a file that has
// another name, too.
func (w *watch) appearsComplete(name string) bool {
	stat, err := w.lstat(name)
	return err == nil && (stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink > 1)
}

// exists reports whether an entry exists. A symbolic link need not lead anywhere.
func (w *watch) exists(name string) bool {
	_, err := w.lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

func (w *watch) lstat(name string) (stat unix.Stat_t, err error) {
	err = unix.Fstatat(int(w.dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return stat, err
}
