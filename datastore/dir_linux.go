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

// Run tells the receiver the content of the directory and then its changes, see Source.
//
// It returns the error of ctx or of the receiver, or an error that wraps the cause, such as
// fs.ErrNotExist, where the directory cannot be watched and read at the start and DirConfig.Wait is
// not set.
func (d *Dir) Run(ctx context.Context, r Receiver) error {
	run := &dirRun{
		config:     d.config,
		receiver:   r,
		catalog:    newCatalog(d.config.Rejected),
		unreadable: map[string]struct{}{},
		fresh:      map[string]struct{}{},
	}
	defer run.close()
	if err := run.begin(ctx); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	// before all is in sync the receiver need not have it in one piece, all unpacked
	if err := run.tell(ctx, 5000); err != nil {
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
		if err := run.tell(ctx, math.MaxInt); err != nil {
			return err
		}
	}
}

// dirRun is one run of a Dir. It belongs to the goroutine of Run.
type dirRun struct {
	config     DirConfig
	receiver   Receiver
	catalog    *catalog
	unreadable map[string]struct{} // files that could not even be read: new permissions may mend that
	fresh      map[string]struct{} // new files that are yet to be closed, or were linked into place
	watch      *watch              // nil while the directory is lost
	lost       string              // the cause that was last reported; empty while the directory is there
	behind     bool                // a file is gone of whose removal we have not been told yet
}

// open begins to watch the directory at the path and reads all of it. The watch comes first, so
// that no change falls between the two; what changed while it was being read, as a file that was
// renamed and so missed under both names, still counts as part of it.
func (r *dirRun) open(ctx context.Context) error {
	w, err := newWatch(ctx, r.config.Path, r.config.wants)
	if err != nil {
		return err
	}
	r.watch = w
	if err = r.scan(); err == nil {
		err = r.follow(settle)
	}
	if err != nil {
		r.close()
		return err
	}
	r.reportUnreadable(nil)
	return nil
}

// begin opens the directory, and waits for it if the configuration says so.
func (r *dirRun) begin(ctx context.Context) error {
	err := r.open(ctx)
	for ; err != nil && r.config.Wait && ctx.Err() == nil; err = r.open(ctx) {
		if err.Error() != r.lost {
			r.config.Rejected(".", fmt.Errorf("%w (nothing is known until it is there)", err))
		}
		r.reportUnreadable(err)
		select {
		case <-ctx.Done():
		case <-time.After(r.config.Recheck):
		}
	}
	return err
}

// reportUnreadable reports why the directory cannot be read, or nil once it can; each once.
func (r *dirRun) reportUnreadable(cause error) {
	text := ""
	if cause != nil {
		text = cause.Error()
	}
	if text != r.lost {
		r.lost = text
		r.config.Unreadable(cause)
	}
}

func (r *dirRun) close() {
	if r.watch != nil {
		r.watch.close()
		r.watch = nil
	}
}

// step waits for something to happen in the directory, or to it, and takes it into the catalog.
// Nothing that goes wrong here ends the run.
func (r *dirRun) step(ctx context.Context) {
	if r.watch == nil {
		select {
		case <-ctx.Done():
		case <-time.After(r.config.Recheck):
			if err := r.open(ctx); err != nil && ctx.Err() == nil {
				r.reportUnreadable(err) // tried again in a moment
			}
		}
		return
	}
	err := r.follow(r.config.Recheck)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		r.loadFresh()
		err = r.watch.check()
	}
	if err != nil {
		r.config.Rejected(".", fmt.Errorf("%w (objects stay as they are until it is back)", err))
		r.close()
		if r.open(ctx) != nil && ctx.Err() == nil { // another one may be in its place already
			r.reportUnreadable(err)
		}
	}
}

// follow waits for events, at most that long, and reads the files that they tell of. If the
// directory changes under its eyes it goes on with what is told of that, so that a file that is
// being renamed is not taken to be gone; but not for ever.
func (r *dirRun) follow(atMost time.Duration) error {
	const rounds = 10
	for range rounds {
		r.behind = false
		changes, err := r.watch.wait(atMost)
		if err == nil && changes.overflow {
			err = r.scan()
		} else {
			r.loadChanged(changes)
		}
		if err == nil && changes.moved {
			if err = r.watch.check(); err == nil { // there and back
				err = r.scan()
			}
		}
		if err != nil || !r.behind {
			return err
		}
		atMost = settle
	}
	return nil
}

// tell passes on what the catalog has gathered, at most so many updates at a time.
func (r *dirRun) tell(ctx context.Context, most int) error {
	for updates := range r.catalog.flush(most) {
		if err := r.receiver.Update(ctx, updates); err != nil {
			return err
		}
	}
	return nil
}

// scan reads every file, and forgets those that are not there any more.
func (r *dirRun) scan() error {
	names, err := r.watch.list()
	if err != nil {
		return err
	}
	there := map[string]struct{}{}
	for _, name := range names {
		if r.config.wants(name) {
			there[name] = struct{}{}
		}
	}
	clear(r.unreadable)
	clear(r.fresh)
	for name := range r.catalog.files {
		if _, ok := there[name]; !ok {
			r.catalog.set(name, nil)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		r.load(name, false)
	}
	return nil
}

// loadChanged reads the files that events told of.
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
		if written || unreadable || r.watch.appearsWhole(name) {
			r.load(name, mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0)
		} else if mask&unix.IN_CREATE != 0 {
			r.fresh[name] = struct{}{}
		}
		// Else it is new permissions of a file that could be read anyway.
	}
}

// loadFresh reads new files that nobody is writing. Most are closed by whoever made them, of which
// we are told. Of one that was linked into place, as one made without a name (O_TMPFILE), we are
// told no more than that it is there.
func (r *dirRun) loadFresh() {
	var whole []string
	for name := range r.fresh {
		if r.watch.isWhole(name) {
			whole = append(whole, name)
		}
	}
	// The kernel tells of a close before it regards the file as closed: if we were to be told, we
	// have been.
	if len(whole) == 0 || r.watch.hasEvents() {
		return
	}
	slices.Sort(whole)
	for _, name := range whole {
		r.load(name, false)
	}
}

// load reads one file into the catalog: what it is now, whatever happened before. A file that is
// not there although its removal has not been told of yet stays as it is: the event is on its way,
// together with that of the file's new name, if it was renamed.
func (r *dirRun) load(name string, removed bool) {
	data, err := r.watch.read(name, r.config.MaxSize)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing && !removed && !r.watch.exists(name) {
		r.behind = true
		return
	}
	delete(r.unreadable, name)
	delete(r.fresh, name)
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
