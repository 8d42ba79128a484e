// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// A server that ignores sendInitialEvents never ends the list of a watch. The kind is then read in
// pages, even if its objects change all the time.
func TestStreamWithoutEndFallsBackToPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(true)
		s.ignores = true
		put := func(i int) {
			s.put("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: "busy", Labels: map[string]string{"n": fmt.Sprint(i)},
			}}, false)
		}
		put(0)
		w := newWorld(t, s, Config{})
		for i := range 12 {
			time.Sleep(10 * time.Second)
			put(i)
		}
		synctest.Wait()
		require.Equal(t, 1, w.receiver.inSyncs)
		w.requireEqual("pages")
		s.fail("namespaces", errors.New("away"))
		put(12)
		s.compact()
		s.fail("namespaces", nil)
		time.Sleep(streamTimeout / 2)
		synctest.Wait()
		w.requireEqual("the stream is not tried again")
	})
}

// A restored backup is detected although the server has a later revision by the time that the
// Source reads it again.
func TestRestoreIsDetectedAtALaterRevision(t *testing.T) {
	const kind = "networkpolicies.networking.k8s.io"
	policy := func(name string) runtime.Object {
		return raw("networking.k8s.io/v1", "NetworkPolicy", metav1.ObjectMeta{Namespace: "a", Name: name},
			map[string]any{"podSelector": map[string]any{}})
	}
	for name, lost := range map[string]func(s *server){
		"added":   func(s *server) { s.put(kind, policy("new"), false) },
		"changed": func(s *server) { s.put(kind, policy("old"), false) },
		"deleted": func(s *server) { s.put(kind, policy("old"), true) },
		"deleted after another change": func(s *server) {
			s.put(kind, policy("new"), false)
			s.put(kind, policy("old"), true)
		},
		"changed and deleted": func(s *server) {
			s.put(kind, policy("old"), false)
			s.put(kind, policy("old"), true)
		},
		"added and deleted": func(s *server) {
			s.put(kind, policy("new"), false)
			s.put(kind, policy("new"), true)
		},
		"all deleted": func(s *server) {
			s.put(kind, policy("seen"), true)
			s.put(kind, policy("old"), true)
		},
		"only bookmark": func(s *server) {
			s.put("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, false)
		},
		"deleted and bookmark": func(s *server) {
			s.put(kind, policy("old"), true)
			s.put("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(true)
				s.put(kind, policy("old"), false)
				w := newWorld(t, s, Config{})
				w.waitIdle()
				s.put(kind, policy("seen"), false)
				w.waitIdle()
				restore := s.backup()
				lost(s)
				w.waitIdle()
				restore()
				s.put(kind, policy("later"), false) // beyond the resourceVersion of the lost change
				for i := range 10 {
					namespace := metav1.ObjectMeta{Name: fmt.Sprint("n", i)}
					s.put("namespaces", &corev1.Namespace{ObjectMeta: namespace}, false)
				}
				w.waitIdle()
				w.requireEqual("restored")
			})
		})
	}
}

// After an outage, a watch continues without a list if the last change can be compared with the
// server.
func TestWatchContinuesAfterOutage(t *testing.T) {
	type put func(name string, deleted bool)
	for name, c := range map[string]struct {
		before func(put)
		lists  int
	}{
		"after a change": {func(put put) { put("a", false) }, 0},
		"after a deletion": {func(put put) {
			put("a", false)
			put("b", false)
			put("b", false)
			put("b", true)
		}, 0},
		"after many deletions": {func(put put) {
			for i := range 2 * maxHistory {
				put(fmt.Sprint(i), false)
			}
			for i := range maxHistory {
				put(fmt.Sprint(i), true)
			}
		}, 1},
		"after a list": {func(put) {}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(true)
				w := newWorld(t, s, Config{})
				w.waitIdle()
				put := func(name string, deleted bool) {
					s.put("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, deleted)
				}
				c.before(put)
				w.waitIdle()
				s.fail("namespaces", errors.New("away"))
				w.waitIdle()
				lists := s.lists
				s.fail("namespaces", nil)
				put("later", false)
				w.waitIdle()
				require.Equal(t, lists+c.lists, s.lists)
				w.requireEqual("back")
			})
		})
	}
}

// The hooks are called for a recreated object, even if its name and content are those of the
// deleted object.
func TestHooksAreCalledForRecreatedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "clusternetworkpolicies.policy.networking.k8s.io"
		s := newServer(true)
		made := func(uid string) *unstructured.Unstructured {
			o := raw("policy.networking.k8s.io/v1alpha2", clusterNetworkPolicy, metav1.ObjectMeta{Name: "p"},
				map[string]any{
					"tier": "Admin", "priority": int64(1), "subject": map[string]any{"namespaces": map[string]any{}},
				})
			o.SetUID(types.UID(uid))
			o.SetGeneration(1)
			return o
		}
		s.put(kind, made("1"), false)
		w := newWorld(t, s, Config{})
		w.waitIdle()
		s.fail(kind, errors.New("away"))
		s.put(kind, made("1"), true)
		s.put(kind, made("2"), false)
		s.compact()
		s.fail(kind, nil)
		w.waitIdle()
		require.Equal(t, []string{"ClusterNetworkPolicy p 1 1 []", "ClusterNetworkPolicy p 2 1 []"}, w.reports)
	})
}

// The problems of a recreated object are reported, even if they are those of the deleted object.
func TestProblemsOfRecreatedObjectAreReported(t *testing.T) {
	s, err := New(newConfig())
	require.NoError(t, err)
	var uids []types.UID
	absent := false
	s.cfg.Hooks.Problems = func(o convert.Object, problems []error) {
		uids = append(uids, o.UID)
		var wrong *convert.Error
		require.ErrorAs(t, problems[0], &wrong)
		absent = wrong.Absent
	}
	for _, uid := range []types.UID{"1", "1", "2"} {
		s.kind("NetworkPolicy").set(raw("networking.k8s.io/v1", "NetworkPolicy",
			metav1.ObjectMeta{Namespace: "a", Name: "p", UID: uid},
			map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Future"}}))
	}
	require.Equal(t, []types.UID{"1", "2"}, uids)
	require.True(t, absent)
}

// newConfig returns a configuration for a Source that does not run.
func newConfig() Config {
	return Config{
		Client: fake.NewClientset(), Dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()),
		Converter: convert.Converter{PodCIDRs: true},
	}
}

// The state of a deleted pod is removed.
func TestDeletedPodLeavesNoState(t *testing.T) {
	s, err := New(newConfig())
	require.NoError(t, err)
	o := s.kind("Pod")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}
	o.set(pod)
	require.Len(t, o.records, 1)
	o.remove(nameOf(pod))
	require.Empty(t, o.records)
}

// If several nodes have one pod CIDR, the first by name has the block, in any order of changes.
func TestFirstNodeHasTheBlock(t *testing.T) {
	s, err := New(newConfig())
	require.NoError(t, err)
	nodes := s.kind("Node")
	owner := func() string {
		for key, r := range s.queue.pending {
			if b, ok := r.(*policy.Block); ok && key.Kind == policy.KindBlock {
				return b.Node
			}
		}
		return ""
	}
	for _, name := range []string{"n2", "n3", "n1"} {
		nodes.set(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.0.0.0/24"}},
		})
	}
	require.Equal(t, "n1", owner())
	for _, step := range [][2]string{{"n1", "n2"}, {"n3", "n2"}, {"n2", ""}} {
		nodes.remove(types.NamespacedName{Name: step[0]})
		require.Equal(t, step[1], owner())
	}
	require.Empty(t, s.blocks)
	require.Empty(t, nodes.records)
}

// A slice without a service is ignored without a problem.
func TestIgnoredObjectsAreNotReported(t *testing.T) {
	s, err := New(newConfig())
	require.NoError(t, err)
	s.cfg.Hooks.Problems = func(o convert.Object, problems []error) { t.Error(o, problems) }
	s.kind("EndpointSlice").set(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}, AddressType: discoveryv1.AddressTypeIPv4,
	})
	require.Zero(t, s.Status().Faulty)
}

// A pod without addresses that moves to or from this node is converted again, although it has no
// endpoint.
func TestMovedPodWithoutEndpointIsNotSkipped(t *testing.T) {
	cfg := newConfig()
	cfg.Node = "n0"
	s, err := New(cfg)
	require.NoError(t, err)
	on := func(node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}, Spec: corev1.PodSpec{NodeName: node},
		}
	}
	require.True(t, s.sameElsewhere(on("n1"), on("n1")))
	require.False(t, s.sameElsewhere(on("n0"), on("n1")))
	require.False(t, s.sameElsewhere(on("n1"), on("n0")))
}

// The list at the start of a watch is used once it is complete. A change, or a bookmark without the
// annotation, does not complete it. A watch does not continue from an incomplete list.
func TestIncompleteListIsNotUsed(t *testing.T) {
	s, err := New(newConfig())
	require.NoError(t, err)
	o := s.kind("Namespace")
	r := &reader{objects: o, discovery: s.discovery, logger: s.cfg.Logger}
	o.begin()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}}
	for _, e := range []watch.Event{
		{Type: watch.Added, Object: n}, {Type: watch.Bookmark, Object: n}, {Type: watch.Deleted, Object: n},
	} {
		initial, err := r.event(t.Context(), e, true)
		require.NoError(t, err)
		require.True(t, initial)
		require.Empty(t, r.resourceVersion)
		require.False(t, o.synced)
	}
	require.Empty(t, o.records)
}

// A watch that ends continues without a list, which also ends its error. A removed kind is detected
// at the next watch, if both the watch and discovery report that it is not served.
func TestWatchContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "clusternetworkpolicies.policy.networking.k8s.io"
		s := newServer(true)
		subject := map[string]any{"namespaces": map[string]any{}}
		s.put(kind, raw("policy.networking.k8s.io/v1alpha2", clusterNetworkPolicy, metav1.ObjectMeta{Name: "p"},
			map[string]any{"tier": "Admin", "priority": int64(1), "subject": subject}), false)
		w := newWorld(t, s, Config{})
		w.waitIdle()
		lists := s.lists
		s.cut()
		w.waitIdle()
		require.Equal(t, lists, s.lists)
		s.fail(kind, apierrors.NewNotFound(schema.GroupResource{}, "")) // discovery has the kind
		w.waitIdle()
		require.True(t, apierrors.IsNotFound(w.status(kind).Err))
		require.Len(t, w.receiver.world, 1)
		s.fail(kind, nil)
		w.waitIdle()
		require.NoError(t, w.status(kind).Err)
		require.Equal(t, lists+1, s.lists, "after a failure, there is no change to compare")
		require.Len(t, s.watchers, len(kinds()))
		s.serve(kind, false)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Empty(t, w.receiver.world)
		require.Empty(t, w.source.kind(clusterNetworkPolicy).converted)
	})
}

// A server that cannot continue watches receives a limited number of lists.
func TestListsAreLimitedIfWatchesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(false)
		s.compacted = 1 << 30
		w := newWorld(t, s, Config{})
		w.waitIdle()
		require.Equal(t, 1, w.receiver.inSyncs)
		require.Less(t, s.lists, 40*len(kinds()))
		require.LessOrEqual(t, len(s.watchers), len(kinds()), "watches that failed are stopped")
	})
}

// Run returns after its readers, and Barrier does not return afterwards.
func TestRunWaitsForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(newConfig())
		require.NoError(t, err)
		running := atomic.Int32{}
		s.clientOf = func(kind) client {
			return client{list: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
				running.Add(1)
				defer running.Add(-1)
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil, ctx.Err()
			}}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, &recorder{}) }()
		synctest.Wait()
		require.EqualValues(t, len(kinds()), running.Load())
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Zero(t, running.Load())
		s.queue.inSync = true
		require.ErrorIs(t, s.Barrier(ctx), context.Canceled)
	})
}

// When ctx is done, discovery sends no further request, because requests cannot be cancelled.
func TestDiscoveryEndsWithContext(t *testing.T) {
	for _, missing := range []error{errors.New("timeout"), apierrors.NewNotFound(schema.GroupResource{}, "")} {
		ctx, cancel := context.WithCancel(t.Context())
		d := &slowDiscovery{answer: func() error { cancel(); return missing }}
		v := &discoveryCache{discovery: d, maxAge: maxAnswerAge}
		for _, k := range kinds() {
			_, err := v.serves(ctx, k.resource, true)
			require.Error(t, err)
		}
		require.Equal(t, 1, d.requests)
	}
}

// slowDiscovery is a server's discovery that counts requests.
type slowDiscovery struct {
	discovery.DiscoveryInterface
	requests int
	answer   func() error
}

// ServerResourcesForGroupVersion implements discovery.DiscoveryInterface.
func (d *slowDiscovery) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	d.requests++
	return nil, d.answer()
}

// ServerGroups implements discovery.DiscoveryInterface.
func (d *slowDiscovery) ServerGroups() (*metav1.APIGroupList, error) {
	d.requests++
	return &metav1.APIGroupList{}, nil
}

// If the server changes the version of a kind, the objects of the kind stay applied. They also stay
// applied if the Reader has just read the groups of the server.
func TestObjectsStayIfVersionOfKindChanges(t *testing.T) {
	const kind = "clusternetworkpolicies.policy.networking.k8s.io"
	for _, delay := range []time.Duration{0, 2, 5, 10, 20, 40, 80} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(true)
			for _, k := range kinds() {
				if k.resource.Group == "projectcalico.org" {
					s.serve(k.String(), false)
				}
			}
			s.put(kind, raw("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy", metav1.ObjectMeta{Name: "a"},
				map[string]any{
					"tier": "Admin", "priority": int64(1), "subject": map[string]any{"namespaces": map[string]any{}},
				}), false)
			w := newWorld(t, s, Config{})
			synctest.Wait()
			had := len(w.receiver.world)
			require.NotZero(t, had)
			time.Sleep(time.Minute + delay*time.Second)
			s.do(func() { s.otherVersion = "v1beta1" })
			s.serve(kind, false)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			require.Len(t, w.receiver.world, had, "after %d s", delay)
			require.Error(t, w.status(kind).Err)
		})
	}
}
