// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
)

// server is a model of an API server. It has lists in pages and as streams, watches with bookmarks,
// compaction, restored backups and failures.
type server struct {
	discovery.DiscoveryInterface
	streams bool
	// ignores means that the server does not send the bookmark at the end of the list with which a
	// watch begins.
	ignores bool
	// otherVersion is another version in which the server has ClusterNetworkPolicy, or empty.
	otherVersion string

	mu        sync.Mutex
	revision  int
	restored  int // number of restored backups
	compacted int // changes up to this revision are not available
	objects   map[string]map[string]runtime.Object
	history   []change
	watchers  map[*watcher]bool
	// broken has the error of each kind that cannot be read. missing has the kinds that are not
	// served.
	broken  map[string]error
	missing map[string]bool
	pages   map[string]pagesOf // by the token for the next page
	// failPage is the kind of which only the first page can be read.
	failPage string
	// starting has the kinds whose next request fails, because a restored server is not ready.
	starting map[string]bool
	lists    int // number of lists begun
	// notFound counts the requests for kinds that are not served, discoveries the requests of
	// discovery.
	notFound, discoveries int
}

// pagesOf is a list that is read in pages.
type pagesOf struct {
	revision int
	objects  map[string]runtime.Object
	next     int
}

// change is one change of an object.
type change struct {
	kind     string
	revision int
	event    watch.Event
}

// watcher is one watch.
type watcher struct {
	server *server
	kind   string
	events chan watch.Event
	ended  bool // under the server's lock
	stop   chan struct{}
	once   sync.Once
}

func newServer(streams bool) *server {
	return &server{
		streams: streams, objects: map[string]map[string]runtime.Object{}, watchers: map[*watcher]bool{},
		broken: map[string]error{}, missing: map[string]bool{}, revision: 1, pages: map[string]pagesOf{},
	}
}

func (s *server) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	for w := range s.watchers {
		select {
		case w.events <- watch.Event{}: // wakes the watcher
		default:
		}
	}
}

// next begins a revision. Histories before and after a restore have no revision in common. On a
// real server, it is unlikely that an object changes at the same revision in both.
func (s *server) next() {
	const histories = 81
	s.revision++
	for s.revision%histories != s.restored%histories {
		s.revision++
	}
}

// put adds or replaces an object, or deletes the object of that name if gone is set.
func (s *server) put(kind string, o runtime.Object, gone bool) {
	s.do(func() {
		m, _ := meta.Accessor(o)
		name := m.GetNamespace() + "/" + m.GetName()
		old := s.objects[kind][name]
		if gone && old == nil || s.missing[kind] {
			return
		}
		s.next()
		if s.objects[kind] == nil {
			s.objects[kind] = map[string]runtime.Object{}
		}
		e := watch.Event{Type: watch.Added, Object: o}
		switch {
		case gone:
			e = watch.Event{Type: watch.Deleted, Object: old.DeepCopyObject()}
			delete(s.objects[kind], name)
		case old != nil:
			e.Type = watch.Modified
		}
		m, _ = meta.Accessor(e.Object)
		m.SetResourceVersion(strconv.Itoa(s.revision))
		if !gone {
			s.objects[kind][name] = o
		}
		s.history = append(s.history, change{kind, s.revision, e})
	})
}

// cut ends all watches.
func (s *server) cut() {
	s.do(func() {
		for w := range s.watchers {
			w.ended = true
		}
	})
}

// expire ends all watches and compacts the history, so that they cannot continue.
func (s *server) expire() {
	s.do(func() {
		s.next()
		s.compacted = s.revision
		for w := range s.watchers {
			w.ended = true
		}
	})
}

// compact drops the history.
func (s *server) compact() {
	s.do(func() { s.compacted = s.revision })
}

// backup returns a function that restores the current state.
func (s *server) backup() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision, objects := s.revision, map[string]map[string]runtime.Object{}
	for kind, all := range s.objects {
		objects[kind] = maps.Clone(all)
	}
	return func() {
		s.do(func() {
			s.restored++
			s.revision, s.compacted, s.objects = revision, 0, map[string]map[string]runtime.Object{}
			for kind, all := range objects {
				if !s.missing[kind] {
					s.objects[kind] = maps.Clone(all)
				}
			}
			s.history = slices.DeleteFunc(s.history, func(c change) bool { return c.revision > revision })
			s.starting = map[string]bool{}
			for _, k := range kinds() {
				s.starting[k.String()] = true
			}
			for w := range s.watchers {
				w.ended = true
			}
		})
	}
}

// fail sets the error of all requests for a kind, or removes it if it is nil. The watches of the
// kind end.
func (s *server) fail(kind string, err error) {
	s.do(func() {
		if s.broken[kind] = err; err == nil {
			delete(s.broken, kind)
		}
		for w := range s.watchers {
			w.ended = w.ended || w.kind == kind
		}
	})
}

// serve sets whether a kind is served. If not, its objects are deleted.
func (s *server) serve(kind string, served bool) {
	s.do(func() {
		if s.missing[kind] = !served; !served {
			delete(s.objects, kind)
			s.history = slices.DeleteFunc(s.history, func(c change) bool { return c.kind == kind })
		}
		for w := range s.watchers {
			w.ended = w.ended || w.kind == kind
		}
	})
}

func (s *server) check(k kind) error {
	if s.starting[k.String()] {
		delete(s.starting, k.String())
		return errors.New("connection refused")
	}
	if s.missing[k.String()] {
		s.notFound++
		return apierrors.NewNotFound(k.resource.GroupResource(), "")
	}
	return s.broken[k.String()]
}

// sorted returns the names of the objects of a kind.
func (s *server) sorted(kind string) []string { return slices.Sorted(maps.Keys(s.objects[kind])) }

func (s *server) client(k kind) client {
	return client{
		streams: true, // the server refuses streams if it does not support them
		list: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err := s.check(k); err != nil {
				return nil, err
			}
			if o.Continue != "" && s.failPage == k.String() {
				return nil, apierrors.NewInternalError(errors.New("no second page"))
			}
			if o.Limit != 1 && o.Continue == "" {
				s.lists++
			}
			list := &metav1.List{}
			// All pages have the state at the first one.
			pages, first := s.pages[o.Continue], 0
			if o.Continue == "" {
				pages = pagesOf{revision: s.revision, objects: maps.Clone(s.objects[k.String()])}
			} else {
				first = pages.next
			}
			list.SetResourceVersion(strconv.Itoa(pages.revision))
			names := slices.Sorted(maps.Keys(pages.objects))
			last := min(first+3, len(names))
			for _, name := range names[first:last] {
				o := pages.objects[name].DeepCopyObject()
				list.Items = append(list.Items, runtime.RawExtension{Object: o})
			}
			if pages.next = last; last < len(names) {
				list.SetContinue(fmt.Sprint("page ", len(s.pages)))
				s.pages[list.GetContinue()] = pages
			}
			return list, nil
		},
		get: func(_ context.Context, name types.NamespacedName) (metav1.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err := s.check(k); err != nil {
				return nil, err
			}
			o := s.objects[k.String()][name.Namespace+"/"+name.Name]
			if o == nil {
				return nil, apierrors.NewNotFound(k.resource.GroupResource(), name.Name)
			}
			return meta.Accessor(o.DeepCopyObject())
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err := s.check(k); err != nil {
				return nil, err
			}
			initial := o.SendInitialEvents != nil && *o.SendInitialEvents
			if initial && !s.streams && s.revision%2 == 0 {
				return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
			}
			w := &watcher{server: s, kind: k.String(), events: make(chan watch.Event, 1), stop: make(chan struct{})}
			out := make(chan watch.Event)
			var first []watch.Event
			from := s.revision
			switch {
			case initial && !s.streams: // as with an old etcd
				first = []watch.Event{{Type: watch.Error, Object: &metav1.Status{
					Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
					Reason: metav1.StatusReasonInternalError,
				}}}
			case initial:
				s.lists++
				for _, name := range s.sorted(k.String()) {
					first = append(first, watch.Event{
						Type: watch.Added, Object: s.objects[k.String()][name].DeepCopyObject(),
					})
				}
				if !s.ignores {
					first = append(first, s.bookmark(true))
				}
			default:
				from, _ = strconv.Atoi(o.ResourceVersion)
				if from < s.compacted {
					first = []watch.Event{{Type: watch.Error, Object: &metav1.Status{
						Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
					}}}
				}
			}
			s.watchers[w] = true
			go w.run(ctx, out, first, from)
			return &result{w, out}, nil
		},
	}
}

// bookmark returns a bookmark at the current revision.
func (s *server) bookmark(ends bool) watch.Event {
	u := &unstructured.Unstructured{}
	u.SetResourceVersion(strconv.Itoa(s.revision))
	if ends {
		u.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return watch.Event{Type: watch.Bookmark, Object: u}
}

// run sends the first events, and then the events of the history after a revision.
func (w *watcher) run(ctx context.Context, out chan<- watch.Event, first []watch.Event, from int) {
	defer close(out)
	for {
		for _, e := range first {
			select {
			case out <- e:
			case <-w.stop:
				return
			case <-ctx.Done():
				return
			}
		}
		w.server.mu.Lock()
		ended := w.ended
		first = nil
		for _, c := range w.server.history {
			if c.kind == w.kind && c.revision > from && !ended {
				e := c.event
				e.Object = e.Object.DeepCopyObject()
				first = append(first, e)
				from = c.revision
			}
		}
		if from < w.server.revision && !ended {
			first = append(first, w.server.bookmark(false))
			from = w.server.revision
		}
		if ended {
			delete(w.server.watchers, w)
		}
		w.server.mu.Unlock()
		if ended {
			return
		}
		if len(first) > 0 {
			continue
		}
		select {
		case <-w.events:
		case <-w.stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// result is the client's side of a watcher.
type result struct {
	*watcher
	out <-chan watch.Event
}

func (r *result) ResultChan() <-chan watch.Event { return r.out }

func (r *result) Stop() {
	r.once.Do(func() { close(r.stop) })
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	delete(r.server.watchers, r.watcher)
}

// ServerResourcesForGroupVersion implements discovery.DiscoveryInterface.
func (s *server) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discoveries++
	list := &metav1.APIResourceList{}
	if s.otherVersion != "" && version == "policy.networking.k8s.io/"+s.otherVersion {
		list.APIResources = []metav1.APIResource{{Name: "clusternetworkpolicies"}}
	}
	for _, k := range kinds() {
		if k.resource.GroupVersion().String() == version && !s.missing[k.String()] {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: k.resource.Resource})
		}
	}
	if len(list.APIResources) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	return list, nil
}

// ServerGroups implements discovery.DiscoveryInterface.
func (s *server) ServerGroups() (*metav1.APIGroupList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discoveries++
	if s.otherVersion == "" {
		return &metav1.APIGroupList{}, nil
	}
	return &metav1.APIGroupList{Groups: []metav1.APIGroup{{
		Name: "policy.networking.k8s.io", Versions: []metav1.GroupVersionForDiscovery{{Version: s.otherVersion}},
	}}}, nil
}

// requests returns the number of requests for kinds that are not served, and of requests of
// discovery.
func (s *server) requests() (notFound, discoveries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notFound, s.discoveries
}

// String describes the state, for failures.
func (s *server) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint("revision ", s.revision, ", watchers ", len(s.watchers))
}
