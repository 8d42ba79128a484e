// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/wayleave/wayleave/policy"
)

// share reads a kind by an informer of the caller.
func (s *Source) share(ctx context.Context, o *objects, readers *sync.WaitGroup) error {
	informer := o.kind.informer(s.cfg.Informers)
	// This fails if the informer runs already. Its errors then go to the caller's handler.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		s.setErr(o, err)
	})
	h := &handler{ctx: ctx, objects: o, busy: make(chan struct{}, 1)}
	registration, err := informer.AddEventHandler(h)
	if err != nil {
		return err
	}
	readers.Go(func() {
		defer h.end()
		defer func() { _ = informer.RemoveEventHandler(registration) }()
		// HasSynced of the registration, not of the informer: that is true before the handler has
		// received all objects.
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			s.setErr(o, nil)
			s.setState(o, StateSynced)
		}
		<-ctx.Done()
	})
	return nil
}

// handler receives the objects of an informer of the caller.
type handler struct {
	ctx     context.Context
	objects *objects
	// busy is full while an event is processed, and after end. An informer may still send events
	// after it has removed the handler.
	busy chan struct{}
}

// end waits for the event that is being processed. Later ones are ignored.
func (h *handler) end() { h.busy <- struct{}{} }

// process processes one event. An event means that the informer can read the kind: it sends all
// objects again after a failure.
func (h *handler) process(f func()) {
	select {
	case <-h.ctx.Done():
		return
	case h.busy <- struct{}{}:
	}
	h.objects.source.setErr(h.objects, nil)
	f()
	<-h.busy
}

// OnAdd implements cache.ResourceEventHandler.
func (h *handler) OnAdd(object any, _ bool) {
	h.process(func() {
		h.count(1)
		h.set(object)
	})
}

// OnUpdate implements cache.ResourceEventHandler. An informer sends objects again at each resync.
func (h *handler) OnUpdate(before, object any) { h.process(func() { h.update(before, object) }) }

func (h *handler) update(before, object any) {
	old, ok := before.(metav1.Object)
	now, also := object.(metav1.Object)
	if ok && also && old.GetResourceVersion() == now.GetResourceVersion() && old.GetUID() == now.GetUID() {
		return
	}
	if h.objects.source.sameElsewhere(before, object) {
		return
	}
	h.set(object)
}

// OnDelete implements cache.ResourceEventHandler. If the informer missed the deletion, the object
// is a tombstone.
func (h *handler) OnDelete(object any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object) // a tombstone may have no object
	if err != nil {
		return
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return
	}
	h.process(func() {
		h.count(-1)
		h.objects.remove(types.NamespacedName{Namespace: namespace, Name: name})
	})
}

func (h *handler) set(object any) {
	if o, ok := object.(metav1.Object); ok {
		h.objects.set(o)
		_ = h.objects.source.queue.waitForRoom(h.ctx) // an error means that Run ends
	}
}

func (h *handler) count(by int) {
	h.objects.source.mu.Lock()
	defer h.objects.source.mu.Unlock()
	h.objects.shared += by
}

// sameElsewhere reports whether two versions of a pod of another node give the same endpoint.
func (s *Source) sameElsewhere(before, object any) bool {
	old, ok := before.(*corev1.Pod)
	now, also := object.(*corev1.Pod)
	if !ok || !also || old.Spec.NodeName == s.cfg.Node || now.Spec.NodeName == s.cfg.Node {
		return false
	}
	a, wrong := s.cfg.Converter.Pod(old)
	b, problems := s.cfg.Converter.Pod(now)
	if len(wrong)+len(problems) > 0 || (a == nil) != (b == nil) {
		return false
	}
	return a == nil || policy.Equal(a, b)
}
