// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/wayleave/wayleave/policy"
)

// share reads a kind by an informer of the caller.
func (s *Source) share(ctx context.Context, o *objects, readers *sync.WaitGroup) error {
	informer := o.kind.informer(s.cfg.Informers)
	// It fails if the informer runs already. The caller has a handler of errors then.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		s.setErr(o, err)
	})
	h := &handler{ctx: ctx, objects: o}
	registration, err := informer.AddEventHandler(h)
	if err != nil {
		return err
	}
	readers.Go(func() {
		defer func() { _ = informer.RemoveEventHandler(registration) }()
		// Of the registration: the informer has synced before the handler has got all objects.
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
}

// OnAdd implements cache.ResourceEventHandler.
func (h *handler) OnAdd(object any, _ bool) {
	h.count(1)
	h.set(object)
}

// OnUpdate implements cache.ResourceEventHandler. An informer repeats objects at each resync.
func (h *handler) OnUpdate(before, object any) {
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

// OnDelete implements cache.ResourceEventHandler. If the informer missed the deletion, it has a tombstone.
func (h *handler) OnDelete(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if o, ok := object.(metav1.Object); ok {
		h.count(-1)
		h.objects.remove(nameOf(o))
	}
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
