// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Run sends the content of the directory to the receiver, and then each change, as Source
// describes.
//
// Run returns the error of ctx or of the receiver. Without DirConfig.Wait, Run also returns an
// error if the directory cannot be watched or read at the start. This error wraps the cause, such
// as fs.ErrNotExist.
func (d *Dir) Run(ctx context.Context, r Receiver) error {
	run := &dirRun{
		config:     d.config,
		receiver:   r,
		catalog:    newCatalog(d.config.Rejected),
		unreadable: map[string]struct{}{},
		newFiles:   map[string]struct{}{},
	}
	defer run.close()
	if err := run.begin(ctx); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	// Before InSync, the content may arrive in parts. So not all of it is unpacked at the same
	// time.
	if err := run.deliver(ctx, 5000); err != nil {
		return err
	}
	if err := r.InSync(ctx); err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		run.step(ctx)
		if err := run.deliver(ctx, math.MaxInt); err != nil {
			return err
		}
	}
}

// dirRun is one run of a Dir. It belongs to the goroutine of Run.
type dirRun struct {
	config     DirConfig
	receiver   Receiver
	catalog    *catalog
	unreadable map[string]struct{} // files that could not be opened or read; new permissions may make them readable
	// newFiles has new files that their writers have not closed, or that were linked into the
	// directory.
	newFiles      map[string]struct{}
	watch         *watch // nil while the directory cannot be read
	lostCause     string // the cause that was last reported; empty while the directory can be read
	eventsMissing bool   // a file is missing, and the event of its removal has not arrived
}

// open begins to watch the directory at the path, and then reads all of it. In this order, it
// misses no change. Then it reads again the files that changed while it read the directory. If a
// file was renamed at that time, open may have found neither the old nor the new name.
func (r *dirRun) open(ctx context.Context) error {
	w, err := newWatch(ctx, r.config.Path, r.config.matches)
	if err != nil {
		return err
	}
	r.watch = w
	if err = r.scan(); err == nil {
		err = r.loadEvents(renameWindow)
	}
	if err != nil {
		r.close()
		return err
	}
	r.reportUnreadable(nil)
	return nil
}

// begin opens the directory. With DirConfig.Wait it retries until the directory can be read.
func (r *dirRun) begin(ctx context.Context) error {
	err := r.open(ctx)
	for ; err != nil && r.config.Wait && ctx.Err() == nil; err = r.open(ctx) {
		if err.Error() != r.lostCause {
			r.config.Rejected(".", fmt.Errorf("%w (no objects are read until it exists)", err))
		}
		r.reportUnreadable(err)
		select {
		case <-ctx.Done():
		case <-time.After(r.config.Recheck):
		}
	}
	return err
}

// reportUnreadable reports why the directory cannot be read, if the cause has changed. Nil means
// that it can be read.
func (r *dirRun) reportUnreadable(cause error) {
	text := ""
	if cause != nil {
		text = cause.Error()
	}
	if text != r.lostCause {
		r.lostCause = text
		r.config.Unreadable(cause)
	}
}

func (r *dirRun) close() {
	if r.watch != nil {
		r.watch.close()
		r.watch = nil
	}
}

// step waits for an event of the directory or a file in it, or for the next check, and updates the
// catalog. No failure here ends the run.
func (r *dirRun) step(ctx context.Context) {
	if r.watch == nil {
		select {
		case <-ctx.Done():
		case <-time.After(r.config.Recheck):
			if err := r.open(ctx); err != nil && ctx.Err() == nil {
				r.reportUnreadable(err) // the next step tries again
			}
		}
		return
	}
	err := r.loadEvents(r.config.Recheck)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		r.loadNewFiles()
		err = r.watch.check()
	}
	if err != nil {
		r.config.Rejected(".", fmt.Errorf("%w (objects stay as they are until it can be read)", err))
		r.close()
		if r.open(ctx) != nil && ctx.Err() == nil { // the path may already lead to another directory
			r.reportUnreadable(err)
		}
	}
}

// loadEvents waits for events until the time limit, and reads the files that the events name. If a
// file is missing, but no event of its removal has arrived, the file may be in the middle of a
// rename. Then loadEvents waits for more events. It waits only a limited number of times.
func (r *dirRun) loadEvents(limit time.Duration) error {
	const rounds = 10
	for range rounds {
		r.eventsMissing = false
		changes, err := r.watch.wait(limit)
		if err == nil && changes.overflow {
			err = r.scan()
		} else {
			r.loadChanged(changes)
		}
		if err == nil && changes.moved {
			if err = r.watch.check(); err == nil { // moved away and back
				err = r.scan()
			}
		}
		if err != nil || !r.eventsMissing {
			return err
		}
		limit = renameWindow
	}
	return nil
}

// deliver sends the updates of the catalog to the receiver, at most limit in a call.
func (r *dirRun) deliver(ctx context.Context, limit int) error {
	for updates := range r.catalog.flush(limit) {
		if err := r.receiver.Update(ctx, updates); err != nil {
			return err
		}
	}
	return nil
}

// scan reads every file, and removes the objects of files that no longer exist.
func (r *dirRun) scan() error {
	names, err := r.watch.list()
	if err != nil {
		return err
	}
	present := map[string]struct{}{}
	for _, name := range names {
		if r.config.matches(name) {
			present[name] = struct{}{}
		}
	}
	clear(r.unreadable)
	clear(r.newFiles)
	for name := range r.catalog.files {
		if _, ok := present[name]; !ok {
			r.catalog.set(name, nil)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(present)) {
		r.load(name, false)
	}
	return nil
}

// loadChanged reads the files that events named.
func (r *dirRun) loadChanged(changes changes) {
	if changes.access {
		for name := range r.unreadable {
			changes.names[name] |= unix.IN_ATTRIB
		}
	}
	for _, name := range slices.Sorted(maps.Keys(changes.names)) {
		mask := changes.names[name]
		_, unreadable := r.unreadable[name]
		written := mask&^(unix.IN_CREATE|unix.IN_ATTRIB) != 0
		if written || unreadable || r.watch.appearsComplete(name) {
			r.load(name, mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0)
		} else if mask&unix.IN_CREATE != 0 {
			r.newFiles[name] = struct{}{}
		}
		// Otherwise only the permissions of a readable file have changed.
	}
}

// loadNewFiles reads new files that no process has open for writing. For most new files, the kernel
// sends an event when the writer closes them. If a file was made without a name (O_TMPFILE) and
// then linked into the directory, the kernel sends only the event of the link.
func (r *dirRun) loadNewFiles() {
	var complete []string
	for name := range r.newFiles {
		if r.watch.isComplete(name) {
			complete = append(complete, name)
		}
	}
	// The kernel queues the event of a close before it grants a lease of the file. So if a close
	// event is due, it is in the queue now, and the next step processes it.
	if len(complete) == 0 || r.watch.hasEvents() {
		return
	}
	slices.Sort(complete)
	for _, name := range complete {
		r.load(name, false)
	}
}

// load reads the present content of one file into the catalog. If the file is missing, but no event
// of its removal has arrived, its objects stay until that event arrives. If the file was renamed,
// an event of the new name arrives, too.
func (r *dirRun) load(name string, removed bool) {
	data, err := r.watch.read(name, r.config.MaxSize)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing && !removed && !r.watch.exists(name) {
		r.eventsMissing = true
		return
	}
	delete(r.unreadable, name)
	delete(r.newFiles, name)
	if err != nil {
		if !missing {
			r.unreadable[name] = struct{}{}
			r.config.Rejected(name, err)
		}
		r.catalog.set(name, nil)
		return
	}
	resources, errs := r.config.Decode(name, data)
	for _, err := range errs {
		r.config.Rejected(name, err)
	}
	r.catalog.set(name, resources)
}
