// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
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
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/pods"
	"github.com/wayleave/wayleave/policy"
)

// recorder is a receiver that stores the state that it receives.
type recorder struct {
	world   map[policy.Key]policy.Resource
	inSyncs int
	updates int
	batches int
}

func (r *recorder) Update(_ context.Context, updates []policy.Update) error {
	r.batches++
	for _, u := range updates {
		r.updates++
		if r.world[u.Key] = u.Resource; policy.Equal(u.Resource, nil) {
			delete(r.world, u.Key)
		}
	}
	return nil
}

func (r *recorder) InSync(context.Context) error {
	r.inSyncs++
	return nil
}

// world is a Source with a model of a server.
type world struct {
	*testing.T
	server   *server
	source   *Source
	receiver *recorder
	reports  []string
}

// newWorld starts a Source in a synctest bubble.
func newWorld(t *testing.T, s *server, cfg Config) *world {
	w := &world{T: t, server: s, receiver: &recorder{world: map[policy.Key]policy.Resource{}}}
	cfg.Client = fake.NewClientset()
	cfg.Dynamic = dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	cfg.Node = "n0"
	cfg.Converter.PodCIDRs = true
	cfg.Hooks.Problems = func(o convert.Object, problems []error) {
		w.reports = append(w.reports, fmt.Sprint(o, " ", o.UID, " ", problems))
	}
	cfg.Hooks.Converted = func(o convert.Object, generation int64, problems []error) {
		w.reports = append(w.reports, fmt.Sprint(o, " ", o.UID, " ", generation, " ", problems))
	}
	cfg.Hooks.Deleted = func(o convert.Object) { w.reports = append(w.reports, fmt.Sprint(o, " deleted")) }
	var err error
	w.source, err = New(cfg)
	require.NoError(t, err)
	w.source.clientOf, w.source.discovery = s.client, &discoveryCache{discovery: s, maxAge: maxAnswerAge}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.source.Run(ctx, w.receiver) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return w
}

// waitIdle waits until the Source has processed all changes, with retries.
func (w *world) waitIdle() {
	w.Helper()
	time.Sleep(3 * time.Minute)
	synctest.Wait()
}

// fresh returns the state of a new Source for the server's current objects.
func (w *world) fresh() map[policy.Key]policy.Resource {
	w.Helper()
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	cfg := w.source.cfg
	source, err := New(Config{Client: cfg.Client, Dynamic: cfg.Dynamic, Converter: cfg.Converter})
	require.NoError(w, err)
	for _, o := range source.kinds {
		if o.status.State == StateOmitted {
			continue
		}
		for _, name := range w.server.sorted(o.kind.String()) {
			o.set(w.server.objects[o.kind.String()][name].DeepCopyObject().(metav1.Object))
		}
	}
	all := map[policy.Key]policy.Resource{}
	for key, r := range source.queue.pending {
		if !policy.Equal(r, nil) {
			all[key] = r
		}
	}
	return all
}

func (w *world) requireEqual(message string, args ...any) {
	w.Helper()
	want := w.fresh()
	for key, r := range want {
		require.Truef(w, policy.Equal(r, w.receiver.world[key]), message+": %s: want %v, has %v",
			append(args, key, r, w.receiver.world[key])...)
	}
	require.Lenf(w, w.receiver.world, len(want), message, args...)
}

// object returns a random object and its kind.
func object(rng *rand.Rand) (string, runtime.Object) {
	i, n := rng.IntN(4), rng.IntN(100)
	namespace := fmt.Sprintf("ns%d", rng.IntN(3))
	m := metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprintf("x%d", i), UID: types.UID(fmt.Sprint(rng.IntN(3))),
		Labels: map[string]string{"app": fmt.Sprint(n % 5)},
	}
	global := m
	global.Namespace = ""
	switch rng.IntN(8) {
	case 0:
		return "namespaces", &corev1.Namespace{ObjectMeta: global}
	case 1:
		return "serviceaccounts", &corev1.ServiceAccount{ObjectMeta: m}
	case 2:
		node := &corev1.Node{ObjectMeta: global}
		node.Spec.PodCIDRs = []string{fmt.Sprintf("10.%d.0.0/24", n%3)}
		node.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", n)},
		}
		return "nodes", node
	case 3, 4:
		pod := &corev1.Pod{ObjectMeta: m, Spec: corev1.PodSpec{NodeName: fmt.Sprintf("n%d", rng.IntN(3))}}
		if n%4 > 0 {
			pod.Status.PodIPs = []corev1.PodIP{{IP: fmt.Sprintf("10.0.0.%d", n)}}
		}
		if n%7 == 0 {
			pod.Status.PodIPs = []corev1.PodIP{{IP: "no address"}}
		}
		if n%9 == 0 {
			pod.Status.Phase = corev1.PodSucceeded
		}
		return "pods", pod
	case 5:
		m.Labels[discoveryv1.LabelServiceName] = fmt.Sprint("s", n%3)
		return "endpointslices", &discoveryv1.EndpointSlice{
			ObjectMeta: m, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{fmt.Sprintf("10.0.0.%d", n)}}},
		}
	case 6:
		spec := map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Ingress"}}
		if n%4 == 0 {
			spec["ingress"] = []any{map[string]any{"futureField": "x"}}
		}
		return "networkpolicies.networking.k8s.io", raw("networking.k8s.io/v1", "NetworkPolicy", m, spec)
	default:
		return "clusternetworkpolicies.policy.networking.k8s.io", raw("policy.networking.k8s.io/v1alpha2",
			"ClusterNetworkPolicy", global, map[string]any{
				"tier": "Admin", "priority": int64(n), "subject": map[string]any{"namespaces": map[string]any{}},
			})
	}
}

func raw(version, kind string, m metav1.ObjectMeta, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "spec": spec}}
	u.SetNamespace(m.Namespace)
	u.SetName(m.Name)
	u.SetUID(m.UID)
	u.SetLabels(m.Labels)
	return u
}

// After any sequence of changes, interrupted watches, compactions, restored backups, and kinds that
// fail, appear and disappear, the state equals that of a new Source. Another list of all kinds
// changes nothing.
func TestRandomHistoriesEndInTheServersState(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 22))
			s := newServer(rng.IntN(2) == 0)
			for range rng.IntN(30) {
				kind, o := object(rng)
				s.put(kind, o, false)
			}
			w := newWorld(t, s, Config{})
			restore := s.backup()
			for range 80 {
				kind, o := object(rng)
				switch rng.IntN(12) {
				default:
					s.put(kind, o, rng.IntN(3) == 0)
				case 0:
					s.cut()
				case 1:
					s.compact()
				case 2: // later changes can reach the lost revision before the kinds are read again
					restore()
				case 3:
					restore = s.backup()
				case 4:
					s.fail(kind, apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", nil))
				case 5:
					s.fail(kind, nil)
				case 6:
					if strings.Contains(kind, "policy.networking") {
						s.serve(kind, rng.IntN(2) == 0)
					}
				}
				if rng.IntN(3) == 0 {
					time.Sleep(time.Duration(rng.IntN(40)) * time.Second)
				}
			}
			for _, k := range kinds() {
				s.fail(k.String(), nil)
			}
			w.waitIdle()
			w.requireEqual("seed %d: %v", seed, s)
			require.Equal(t, 1, w.receiver.inSyncs, "seed %d", seed)

			updates, reports, lists := w.receiver.updates, len(w.reports), s.lists
			s.put("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, false)
			s.expire()
			w.waitIdle()
			require.Greater(t, s.lists, lists, "seed %d: everything was read again", seed)
			require.Equal(t, updates+1, w.receiver.updates, "seed %d: only what changed was sent", seed)
			require.Len(t, w.reports, reports, "seed %d: nothing was reported again", seed)
			w.requireEqual("seed %d: %v", seed, s)
		})
	}
}

// A Source is not in sync if a kind cannot be listed. If a kind cannot be listed later, its objects
// stay.
func TestForbiddenKindFailsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "networkpolicies.networking.k8s.io"
		s := newServer(true)
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", nil)
		s.fail(kind, forbidden)
		s.put(kind, raw("networking.k8s.io/v1", "NetworkPolicy", metav1.ObjectMeta{Namespace: "a", Name: "p"},
			map[string]any{"podSelector": map[string]any{}}), false)
		w := newWorld(t, s, Config{})
		w.waitIdle()
		require.Zero(t, w.receiver.inSyncs)
		status := w.status(kind)
		require.Equal(t, StateWaiting, status.State)
		require.True(t, apierrors.IsForbidden(status.Err))
		require.False(t, w.source.Status().InSync)

		s.fail(kind, nil)
		w.waitIdle()
		require.Equal(t, 1, w.receiver.inSyncs)
		require.NoError(t, w.status(kind).Err)
		require.Equal(t, StateSynced, w.status(kind).State)

		world := maps.Clone(w.receiver.world)
		s.fail(kind, forbidden)
		w.waitIdle()
		require.Equal(t, world, w.receiver.world)
		require.True(t, apierrors.IsForbidden(w.status(kind).Err))
		require.True(t, w.source.Status().InSync)
	})
}

// A failure keeps its time, and is logged once, even if the request in the error differs at each
// attempt.
func TestRepeatedFailureIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := newServer(true)
		w := newWorld(t, s, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		w.waitIdle()
		fail := func(query, reason string) KindStatus {
			s.fail("pods", &url.Error{Op: "Get", URL: "https://server?timeout=" + query, Err: errors.New(reason)})
			w.waitIdle()
			return w.status("pods")
		}
		first := fail("1s", "connection refused")
		require.ErrorContains(t, first.Err, "connection refused")
		require.Equal(t, first.Since, fail("2s", "connection refused").Since)
		require.Equal(t, 1, strings.Count(log.String(), "kind cannot be read"))
		require.NotEqual(t, first.Since, fail("3s", "no route to host").Since)
		require.Equal(t, 2, strings.Count(log.String(), "kind cannot be read"))
	})
}

// A kind in Config.Omit is not read.
func TestOmittedKindIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(true)
		s.fail("nodes", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil))
		w := newWorld(t, s, Config{Omit: []string{"nodes"}})
		w.waitIdle()
		require.Equal(t, 1, w.receiver.inSyncs)
		require.Equal(t, KindStatus{Kind: "nodes", State: StateOmitted}, w.status("nodes"))
	})
}

// If the server has a kind only in another version, the Source is not in sync.
func TestOtherVersionFailsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "clusternetworkpolicies.policy.networking.k8s.io"
		s := newServer(true)
		s.serve(kind, false)
		s.otherVersion = "v1"
		w := newWorld(t, s, Config{})
		w.waitIdle()
		require.Zero(t, w.receiver.inSyncs)
		require.ErrorContains(t, w.status(kind).Err, "only in versions v1, not in v1alpha2")
	})
}

// A server that is unavailable, at the start or later, removes no object.
func TestUnavailableServerRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(false)
		away := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusServiceUnavailable}}
		s.put("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, false)
		all := func(err error) {
			for _, k := range kinds() {
				s.fail(k.String(), err)
			}
		}
		all(away)
		w := newWorld(t, s, Config{})
		w.waitIdle()
		require.Zero(t, w.receiver.updates+w.receiver.inSyncs)
		all(nil)
		w.waitIdle()
		require.Len(t, w.receiver.world, 1)
		all(away)
		s.put("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, true)
		w.waitIdle()
		require.Len(t, w.receiver.world, 1)
		require.Error(t, w.status("pods").Err)
		all(nil)
		w.waitIdle()
		require.Empty(t, w.receiver.world)
		require.Equal(t, 1, w.receiver.inSyncs)
	})
}

func (w *world) status(kind string) KindStatus {
	w.Helper()
	for _, k := range w.source.Status().Kinds {
		if k.Kind == kind {
			return k
		}
	}
	w.Fatalf("no kind %s", kind)
	return KindStatus{}
}

// A list after the first takes effect as one change when it is complete. The receiver gets nothing
// of an incomplete list.
func TestLaterListIsOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "networkpolicies.networking.k8s.io"
		policyOf := func(name string) runtime.Object {
			return raw("networking.k8s.io/v1", "NetworkPolicy", metav1.ObjectMeta{Namespace: "a", Name: name},
				map[string]any{"podSelector": map[string]any{}})
		}
		s := newServer(false)
		for i := range 5 {
			s.put(kind, policyOf(fmt.Sprint("old", i)), false)
		}
		w := newWorld(t, s, Config{})
		w.waitIdle()
		require.Len(t, w.receiver.world, 5)

		for i := range 5 {
			s.put(kind, policyOf(fmt.Sprint("old", i)), true)
			s.put(kind, policyOf(fmt.Sprint("new", i)), false)
		}
		w.waitIdle()
		w.requireEqual("the watch sent them")
		s.fail(kind, apierrors.NewInternalError(errors.New("away")))
		for i := range 5 {
			s.put(kind, policyOf(fmt.Sprint("new", i)), true)
			s.put(kind, policyOf(fmt.Sprint("last", i)), false)
		}
		s.compact()
		world, batches := maps.Clone(w.receiver.world), w.receiver.batches
		s.do(func() { s.failPage = kind })
		s.fail(kind, nil)
		w.waitIdle()
		require.Error(t, w.status(kind).Err)
		require.Equal(t, world, w.receiver.world)
		s.do(func() { s.failPage = "" })
		w.waitIdle()
		w.requireEqual("the list is complete")
		require.Equal(t, batches+1, w.receiver.batches)
	})
}

// The problems of an object end when it is deleted. A kind that the server has again is read again.
func TestProblemsEndWithTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "clusternetworkpolicies.policy.networking.k8s.io"
		s := newServer(true)
		wrong := func() runtime.Object {
			spec := map[string]any{
				"tier": "Future", "priority": int64(1), "subject": map[string]any{"namespaces": map[string]any{}},
			}
			return raw("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy",
				metav1.ObjectMeta{Name: "p", UID: "7"}, spec)
		}
		s.put(kind, wrong(), false)
		w := newWorld(t, s, Config{})
		w.waitIdle()
		require.Len(t, w.reports, 1)
		require.Contains(t, w.reports[0], "ClusterNetworkPolicy p 7 0 [ClusterNetworkPolicy p: spec.tier: ")
		require.Equal(t, 1, w.source.Status().Faulty)
		require.Len(t, w.source.Faulty(), 1)
		s.put(kind, wrong(), true)
		w.waitIdle()
		require.Equal(t, "ClusterNetworkPolicy p deleted", w.reports[1])
		require.Zero(t, w.source.Status().Faulty)

		s.serve(kind, false)
		w.waitIdle()
		require.Equal(t, StateNotServed, w.status(kind).State)
		s.serve(kind, true)
		s.put(kind, wrong(), false)
		w.waitIdle()
		require.Equal(t, StateSynced, w.status(kind).State)
		require.Len(t, w.reports, 3)
		s.serve(kind, false)
		w.waitIdle()
		require.Len(t, w.reports, 4, "the object is deleted with its kind")
	})
}

// The server may no longer serve a kind of Calico, for example because Calico's API server is
// removed. Then the objects of the kind stay until the server has the kind again.
func TestObjectsStayIfKindIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "globalnetworkpolicies.projectcalico.org"
		s := newServer(true)
		deny := raw("projectcalico.org/v3", "GlobalNetworkPolicy", metav1.ObjectMeta{Name: "p"}, map[string]any{})
		s.put(kind, deny, false)
		w := newWorld(t, s, Config{})
		w.waitIdle()
		key := policy.Key{Kind: policy.KindPolicy, Name: "p"}
		require.Contains(t, w.receiver.world, key)
		s.serve(kind, false)
		w.waitIdle()
		require.Contains(t, w.receiver.world, key)
		require.ErrorIs(t, w.status(kind).Err, errKindGone)
		require.ErrorContains(t, w.status(kind).Err, "1 objects")
		s.serve(kind, true)
		s.put(kind, deny, true)
		time.Sleep(time.Minute)
		w.waitIdle()
		require.NotContains(t, w.receiver.world, key)
		require.NoError(t, w.status(kind).Err)
		s.serve(kind, false)
		time.Sleep(time.Minute)
		w.waitIdle()
		require.Equal(t, StateNotServed, w.status(kind).State)
	})
}

// The Source queries for all kinds that the server does not have together, with discovery alone, at
// most once a minute. It sends one request for each of their two API versions and one for the
// groups, and at the start one for the former kinds. A kind is read once the server has it.
func TestKindsThatAreNotServedShareRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "globalnetworkpolicies.projectcalico.org"
		s := newServer(true)
		for _, k := range kinds() {
			if k.resource.Group == "projectcalico.org" || k.object == clusterNetworkPolicy {
				s.serve(k.String(), false)
			}
		}
		w := newWorld(t, s, Config{})
		synctest.Wait()
		require.True(t, w.source.Status().InSync)
		notFound, discoveries := s.requests()
		require.Equal(t, 11, notFound, "at first, each kind is tried: discovery alone could be late")
		require.Equal(t, 4, discoveries)
		client := w.source.cfg.Client.(*fake.Clientset)
		client.ClearActions()
		time.Sleep(4*time.Minute + time.Second) // before the watches of the other kinds end
		synctest.Wait()
		notFound, discoveries = s.requests()
		require.Equal(t, 11, notFound)
		require.GreaterOrEqual(t, discoveries, 4+2*3)
		require.LessOrEqual(t, discoveries, 4+4*3)
		require.Empty(t, client.Actions(), "the cluster is checked before a kind is read")
		s.serve(kind, true)
		time.Sleep(servedInterval + servedInterval/2)
		synctest.Wait()
		require.Equal(t, StateSynced, w.status(kind).State)
	})
}

// The endpoint of a pod that CNI ADD attaches is sent at once, also while a list is incomplete.
func TestAttachedPodIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(false)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "1", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: "n0"},
		}
		s.put("pods", pod, false)
		w := newWorld(t, s, Config{})
		w.waitIdle()
		require.Empty(t, w.receiver.world)
		// The next list is never complete.
		for i := range 5 {
			other := pod.DeepCopy()
			other.Name = fmt.Sprint("other", i)
			s.put("pods", other, false)
		}
		s.do(func() { s.failPage = "pods" })
		s.expire()
		w.waitIdle()
		require.Error(t, w.status("pods").Err)

		ref := pods.Ref{Namespace: "a", Name: "p", UID: "1"}
		require.NoError(t, w.source.Attach(ref, convert.Attachment{
			Interface: "veth1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		}))
		require.NoError(t, w.source.Barrier(t.Context()))
		endpoint, ok := w.receiver.world[ref.Key()].(*policy.WorkloadEndpoint)
		require.True(t, ok)
		require.Equal(t, "veth1", endpoint.Interface)
		require.Equal(t, "web", endpoint.Labels["app"])
		require.True(t, w.source.Detach(ref))
		require.NoError(t, w.source.Barrier(t.Context()))
		require.Nil(t, w.receiver.world[ref.Key()])

		// The API has the pod after it is attached, on the first page of the list.
		first := pods.Ref{Namespace: "a", Name: "first", UID: "2"}
		require.NoError(t, w.source.Attach(first, convert.Attachment{
			Interface: "veth2", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")},
		}))
		pod = pod.DeepCopy()
		pod.Name, pod.UID = first.Name, first.UID
		s.put("pods", pod, false)
		w.waitIdle()
		require.Error(t, w.status("pods").Err)
		require.NotNil(t, w.receiver.world[first.Key()])
	})
}

// Every generation of a policy with conditions is reported. So is every change of another policy,
// because it may end problems that the graph found.
func TestChangesWithoutProblemsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cnps, nps = "clusternetworkpolicies.policy.networking.k8s.io", "networkpolicies.networking.k8s.io"
		s := newServer(true)
		put := func(generation, priority int64, app string) {
			subject := map[string]any{"namespaces": map[string]any{}}
			p := raw("policy.networking.k8s.io/v1alpha2", clusterNetworkPolicy, metav1.ObjectMeta{Name: "p"},
				map[string]any{"tier": "Admin", "priority": priority, "subject": subject})
			p.SetGeneration(generation)
			s.put(cnps, p, false)
			s.put(nps, raw("networking.k8s.io/v1", "NetworkPolicy", metav1.ObjectMeta{Namespace: "a", Name: "p"},
				map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": app}}}), false)
		}
		put(1, 5, "web")
		w := newWorld(t, s, Config{})
		w.waitIdle()
		require.Equal(t, []string{"ClusterNetworkPolicy p  1 []"}, w.reports)
		put(1, 5, "web")
		w.waitIdle()
		require.Len(t, w.reports, 1)
		put(2, 6, "db")
		w.waitIdle()
		require.ElementsMatch(t, []string{"ClusterNetworkPolicy p  2 []", "NetworkPolicy a/p  []"}, w.reports[1:])
	})
}

// If the server returns with another cluster, or without namespace kube-system, no policy is
// removed.
func TestOtherClusterRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "networkpolicies.networking.k8s.io"
		s := newServer(true)
		object := raw("networking.k8s.io/v1", "NetworkPolicy", metav1.ObjectMeta{Namespace: "a", Name: "p"},
			map[string]any{"podSelector": map[string]any{}})
		s.put(kind, object, false)
		w := newWorld(t, s, Config{})
		namespaces := w.source.cfg.Client.CoreV1().Namespaces()
		// have sets the UID of the server's namespace kube-system, or deletes the namespace.
		have := func(uid types.UID) {
			t.Helper()
			err := namespaces.Delete(t.Context(), metav1.NamespaceSystem, metav1.DeleteOptions{})
			require.True(t, err == nil || apierrors.IsNotFound(err))
			if uid == "" {
				return
			}
			_, err = namespaces.Create(t.Context(), &corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		have("a")
		w.waitIdle()
		s.cut() // the Source reads the UID
		w.waitIdle()
		for _, other := range []types.UID{"", "b"} {
			have(other)
			s.cut()
			w.waitIdle()
			s.put(kind, object.DeepCopy(), true)
			w.waitIdle()
			require.Len(t, w.receiver.world, 1, "kube-system %q", other)
			require.ErrorIs(t, w.status(kind).Err, errOtherCluster)
		}
		have("a")
		w.waitIdle()
		require.Empty(t, w.receiver.world)
		require.NoError(t, w.status(kind).Err)
	})
}

// A kind of Calico that is removed during its first list has no objects. The Source is then in sync
// without it.
func TestKindRemovedDuringFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kind = "globalnetworkpolicies.projectcalico.org"
		s := newServer(false)
		for i := range 5 {
			name := metav1.ObjectMeta{Name: fmt.Sprint("p", i)}
			s.put(kind, raw("projectcalico.org/v3", "GlobalNetworkPolicy", name, map[string]any{}), false)
		}
		s.do(func() { s.failPage = kind })
		w := newWorld(t, s, Config{})
		w.waitIdle()
		require.False(t, w.source.Status().InSync)
		s.serve(kind, false)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.True(t, w.source.Status().InSync)
	})
}
