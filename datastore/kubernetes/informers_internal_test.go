// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/wayleave/wayleave/policy"
)

// typedOnly has the kinds that are not read by informers.
func typedOnly() (omit []string) {
	for _, k := range kinds() {
		if k.informer == nil {
			omit = append(omit, k.String())
		}
	}
	return omit
}

// newShared returns a Source that reads the objects with informers, and the client of these.
func newShared(t *testing.T, hooks Hooks, objects ...runtime.Object) (*Source, *fake.Clientset) {
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	t.Cleanup(factory.Shutdown)
	source, err := New(Config{
		Client: client, Dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), Informers: factory,
		Omit: typedOnly(), Hooks: hooks,
	})
	require.NoError(t, err)
	return source, client
}

// The error of an informer that cannot list a kind is in the status of the kind until the next
// list.
func TestInformerErrorEndsWithNextList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, client := newShared(t, Hooks{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		var mu sync.Mutex
		var fails error
		var watches []*watch.FakeWatcher
		client.PrependReactor("list", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			return fails != nil, nil, fails
		})
		client.PrependWatchReactor("namespaces", func(clienttesting.Action) (bool, watch.Interface, error) {
			mu.Lock()
			defer mu.Unlock()
			watches = append(watches, watch.NewFake())
			return true, watches[len(watches)-1], nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- source.Run(ctx, &recorder{world: map[policy.Key]policy.Resource{}}) }()
		synctest.Wait()
		require.NoError(t, source.Status().Kinds[0].Err)
		mu.Lock()
		fails = errors.New("away")
		watches[len(watches)-1].Stop()
		mu.Unlock()
		time.Sleep(time.Minute)
		require.ErrorContains(t, source.Status().Kinds[0].Err, "away")
		mu.Lock()
		fails = nil
		mu.Unlock()
		time.Sleep(time.Minute)
		require.NoError(t, source.Status().Kinds[0].Err)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// The end of a handler waits for the event that is being processed. No event is processed after it.
func TestHandlerEndWaitsForEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, _ := newShared(t, Hooks{})
		ctx, cancel := context.WithCancel(t.Context())
		h := &handler{ctx: ctx, objects: source.kind("Namespace"), busy: make(chan struct{}, 1)}
		release, ended := make(chan struct{}), false
		go h.process(func() { <-release })
		synctest.Wait()
		cancel()
		go func() {
			h.end()
			ended = true
		}()
		synctest.Wait()
		require.False(t, ended)
		close(release)
		synctest.Wait()
		require.True(t, ended)
		h.process(func() { t.Error("an event is processed after the end") })
	})
}

// A tombstone without the object removes the object.
func TestTombstoneWithoutObjectRemovesObject(t *testing.T) {
	source, _ := newShared(t, Hooks{})
	h := &handler{ctx: t.Context(), objects: source.kind("Namespace"), busy: make(chan struct{}, 1)}
	h.OnAdd(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, true)
	require.Equal(t, 1, source.Status().Kinds[0].Objects)
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "shop"})
	require.Zero(t, source.Status().Kinds[0].Objects)
	for _, r := range source.queue.pending {
		require.Nil(t, r)
	}
}
