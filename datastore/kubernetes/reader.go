// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// pageSize is the number of objects in a page of a list.
	pageSize = 500
	// minWatch is the minimum duration of a watch without failures. The maximum is twice as long.
	minWatch = 5 * time.Minute
	// streamTimeout is the longest pause between two objects of a list at the beginning of a watch.
	// A server that does not support such lists never ends one, and sends changes instead.
	streamTimeout = 30 * time.Second
	// servedInterval is the time between two queries for the kinds that the server does not have.
	// Up to half of it is added at random.
	servedInterval = time.Minute
)

// errWentBack means that the server has an older state than was read before, for example because it
// was restored from a backup.
var errWentBack = errors.New(
	"the resourceVersion of the server went back, for example because of a restored backup: listing again",
)

// reader keeps the objects of one kind equal to the server's. It processes each object as it
// arrives. With client-go's Reflector, the whole list of 100,000 pods would be in memory.
type reader struct {
	objects   *objects
	client    client
	discovery *discoveryCache
	logger    *slog.Logger
	// resourceVersion is the one up to which changes have been received. It is empty before
	// the first complete list, and when the server can no longer continue from it.
	resourceVersion string
	// recent has the last changes from a watch.
	recent history
	// failed is set if the last list or watch failed. The server may have been restored from a
	// backup since.
	failed bool
}

// run reads until ctx is done.
func (r *reader) run(ctx context.Context) {
	backoff := newBackoff()
	for ctx.Err() == nil {
		start := time.Now()
		err := r.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := time.Duration(0)
		switch {
		case r.objects.status.State == StateNotServed && err == nil, errors.Is(err, errKindGone):
			pause = r.discovery.pause(r.objects.source.servedInterval)
		case err != nil || time.Since(start) < time.Second:
			pause = backoff.Step()
		}
		r.objects.source.setErr(r.objects, err)
		if err == nil && time.Since(start) > minWatch/2 {
			backoff = newBackoff()
		}
		if pause == 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// newBackoff returns the pauses after failures, from 0.5 s to 15 s and half of that at random.
func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 7, Cap: 15 * time.Second}
}

// follow lists the objects, unless it can continue from a resourceVersion. Then it watches them
// until the watch ends. An error means that the kind cannot be read now.
//
// For a kind that the server does not have, only discovery is queried. The readers of all such
// kinds share its responses, to reduce the load of many nodes on the server.
func (r *reader) follow(ctx context.Context) error {
	if r.objects.status.State == StateNotServed {
		if served, err := r.discovery.serves(ctx, r.objects.kind.resource, true); err != nil || !served {
			return err
		}
	}
	err := r.objects.source.cluster.check(ctx)
	if err == nil {
		err = r.listAndWatch(ctx)
	}
	r.failed = err != nil
	switch {
	case apierrors.IsNotFound(err):
		return r.checkServed(ctx, err)
	case errors.Is(err, errWentBack), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		r.logger.Warn("listing the kind again", "kind", r.objects.kind.String(), "err", err)
		r.resourceVersion = ""
		return nil
	}
	return err
}

func (r *reader) listAndWatch(ctx context.Context) error {
	if r.failed && r.resourceVersion != "" {
		if err := r.compareHistory(ctx); err != nil {
			return err
		}
	}
	switch {
	case r.resourceVersion != "":
	case r.client.streams:
		err := r.watch(ctx, true)
		if !errors.Is(err, errNoStream) {
			return err
		}
		r.client.streams = false
		fallthrough
	default:
		if err := r.list(ctx); err != nil {
			return err
		}
	}
	return r.watch(ctx, false)
}

// checkServed checks with discovery whether the server has the kind, after a response 404.
func (r *reader) checkServed(ctx context.Context, notFound error) error {
	wasSynced := r.objects.status.State == StateSynced
	served, err := r.discovery.serves(ctx, r.objects.kind.resource, !wasSynced)
	if err != nil {
		return err
	}
	if served {
		return notFound // the two responses differ, but not for long
	}
	if n := r.objects.count(); n > 0 && wasSynced && r.objects.kind.aggregated() {
		return fmt.Errorf("%w: %d objects stay until the server deletes them or this process restarts",
			errKindGone, n)
	}
	if r.objects.status.State != StateNotServed {
		r.logger.Info("the server does not have the kind", "kind", r.objects.kind.String())
	}
	r.resourceVersion = ""
	r.objects.begin()
	r.objects.end()
	r.objects.source.setState(r.objects, StateNotServed)
	return nil
}

// checkResourceVersion returns errWentBack if the server has an older state than was read before. A
// server accepts a watch from a later resourceVersion than its own, and sends nothing until it
// reaches that.
func (r *reader) checkResourceVersion(ctx context.Context) error {
	list, err := r.client.list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	order, err := resourceversion.CompareResourceVersion(m.GetResourceVersion(), r.resourceVersion)
	if err == nil && order < 0 {
		return fmt.Errorf("%w (%s after %s)", errWentBack, m.GetResourceVersion(), r.resourceVersion)
	}
	return nil
}

// compareHistory decides whether the next watch continues from the last change, or whether the kind
// is listed again. The watch continues if the server still has the changed object at the
// resourceVersion of the change. In addition, the server must have none of the objects that were
// deleted after the change. Otherwise the kind is listed again. The number alone proves nothing: a
// restored server uses the numbers of the lost history again, also those of bookmarks.
func (r *reader) compareHistory(ctx context.Context) error {
	last, deleted := r.recent.last()
	same := last.resourceVersion != ""
	if same {
		now, err := r.resourceVersionOf(ctx, last.id)
		if err != nil {
			return err
		}
		same = now == last.resourceVersion
	}
	for _, id := range deleted {
		if !same {
			break
		}
		now, err := r.resourceVersionOf(ctx, id)
		if err != nil {
			return err
		}
		same = now == ""
	}
	if !same {
		r.logger.Info("listing the kind again: the server may have been restored from a backup",
			"kind", r.objects.kind.String())
		last, r.recent = lastChange{}, nil
	}
	r.resourceVersion = last.resourceVersion
	return nil
}

// resourceVersionOf returns the resourceVersion that the server has of an object, "" if it has no
// such object. Without the right to get it, the result equals none.
func (r *reader) resourceVersionOf(ctx context.Context, id types.NamespacedName) (string, error) {
	object, err := r.client.get(ctx, id)
	switch {
	case err == nil:
		return object.GetResourceVersion(), nil
	case apierrors.IsNotFound(err):
		return "", nil
	case apierrors.IsForbidden(err):
		return "forbidden", nil
	}
	return "", err
}

// list reads all objects in pages.
func (r *reader) list(ctx context.Context) error {
	r.objects.begin()
	o := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := r.client.list(ctx, o)
		if err != nil {
			return err
		}
		err = meta.EachListItemWithAlloc(list, func(item runtime.Object) error { return r.set(ctx, item) })
		if err != nil {
			return err
		}
		m, err := meta.ListAccessor(list)
		if err != nil {
			return err
		}
		if o.Continue = m.GetContinue(); o.Continue == "" {
			r.complete(m.GetResourceVersion())
			return nil
		}
	}
}

// complete ends a list that is complete.
func (r *reader) complete(resourceVersion string) {
	r.objects.end()
	r.recent = nil
	r.setResourceVersion(resourceVersion)
	r.objects.source.setState(r.objects, StateSynced)
	r.objects.source.setErr(r.objects, nil)
}

func (r *reader) setResourceVersion(resourceVersion string) {
	r.resourceVersion = resourceVersion
	r.objects.source.mu.Lock()
	defer r.objects.source.mu.Unlock()
	r.objects.status.Revision = resourceVersion
}

// set adds or replaces an object, and waits while too many updates are pending.
func (r *reader) set(ctx context.Context, o runtime.Object) error {
	object, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	r.objects.set(object)
	if r.objects.buffered != nil {
		return ctx.Err() // nothing is delivered before the list is complete
	}
	return r.objects.source.queue.waitForRoom(ctx)
}

// cannotStream reports whether the server refused to begin a watch with a list. Either the server
// or its etcd (before version 3.4.25) does not support it.
func cannotStream(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsInternalError(err)
}

// errKindGone means that the server had the kind, and does not have it any more.
var errKindGone = errors.New("the server does not have the kind any more")

// errNoStream means that the server does not begin a watch with a list.
var errNoStream = errors.New("no list at the beginning of a watch")

// watch processes the events of one watch until it ends. If initial is set, the watch begins with a
// list.
func (r *reader) watch(ctx context.Context, initial bool) error {
	seconds := int64((minWatch + rand.N(minWatch)).Seconds())
	o := metav1.ListOptions{
		ResourceVersion: r.resourceVersion, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	}
	if initial {
		o.SendInitialEvents, o.ResourceVersionMatch = &initial, metav1.ResourceVersionMatchNotOlderThan
		r.objects.begin()
	}
	w, err := r.client.watch(ctx, o)
	if initial && cannotStream(err) {
		return errNoStream
	}
	if err != nil {
		return err
	}
	defer w.Stop()
	if !initial {
		// After the watch has begun: it ends if the server is restored from now on.
		if err := r.checkResourceVersion(ctx); err != nil {
			return err
		}
		r.objects.source.setErr(r.objects, nil)
	}
	var timeout <-chan time.Time
	listing := initial // until the first change
	for {
		switch {
		case !initial:
			timeout = nil
		case listing:
			timeout = time.After(streamTimeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return errNoStream
		case e, ok := <-w.ResultChan():
			if !ok {
				return nil
			}
			listing = listing && e.Type == watch.Added
			if initial, err = r.event(ctx, e, initial); err != nil {
				return err
			}
		}
	}
}

// event processes one event. The parameter initial means that the list at the beginning of the
// watch is not complete before the event. The result means that the list is not complete after the
// event.
func (r *reader) event(ctx context.Context, e watch.Event, initial bool) (bool, error) {
	if e.Type == watch.Error {
		err := apierrors.FromObject(e.Object)
		if initial && cannotStream(err) {
			err = errNoStream
		}
		return initial, err
	}
	object, err := meta.Accessor(e.Object)
	if err != nil {
		return initial, err
	}
	switch e.Type {
	case watch.Added, watch.Modified:
		if err := r.set(ctx, e.Object); err != nil {
			return initial, err
		}
	case watch.Deleted:
		r.objects.remove(nameOf(object))
	case watch.Bookmark:
		if initial && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			r.complete(object.GetResourceVersion())
			return false, nil
		}
	}
	if !initial {
		r.setResourceVersion(object.GetResourceVersion())
		switch e.Type {
		case watch.Added, watch.Modified:
			r.recent.add(lastChange{id: nameOf(object), resourceVersion: object.GetResourceVersion()})
		case watch.Deleted:
			r.recent.add(lastChange{id: nameOf(object)})
		}
	}
	return initial, nil
}
