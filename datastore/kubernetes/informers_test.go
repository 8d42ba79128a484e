// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// receiver stores the state that it receives.
type receiver struct {
	mu      sync.Mutex
	world   map[policy.Key]policy.Resource
	updates int
	inSync  bool
}

func (r *receiver) Update(_ context.Context, updates []policy.Update) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range updates {
		r.updates++
		if r.world[u.Key] = u.Resource; policy.Equal(u.Resource, nil) {
			delete(r.world, u.Key)
		}
	}
	return nil
}

func (r *receiver) InSync(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inSync = true
	return nil
}

func (r *receiver) keys() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []string
	for key := range r.world {
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	return keys
}

// newDynamic returns a dynamic client of a server that has NetworkPolicies, and none of the other
// kinds.
func newDynamic(objects ...runtime.Object) dynamic.Interface {
	kinds := map[schema.GroupVersionResource]string{}
	for _, gvr := range []schema.GroupVersionResource{
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		{Group: "policy.networking.k8s.io", Version: "v1alpha2", Resource: "clusternetworkpolicies"},
	} {
		kinds[gvr] = "List"
	}
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
}

// calico returns the kinds that the fake server does not have.
func calico() []string {
	return slices.DeleteFunc(kubernetes.Kinds(), func(kind string) bool {
		return !slices.Contains([]string{"projectcalico.org"}, kind[max(0, len(kind)-len("projectcalico.org")):])
	})
}

// run runs a Source until the test ends.
func run(t *testing.T, cfg kubernetes.Config) (*kubernetes.Source, *receiver) {
	t.Helper()
	cfg.Omit = calico()
	source, err := kubernetes.New(cfg)
	require.NoError(t, err)
	r := &receiver{world: map[policy.Key]policy.Resource{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx, r) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return source, r
}

func pod(namespace, name, node, address string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1"},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	if address != "" {
		p.Status.PodIPs = []corev1.PodIP{{IP: address}}
	}
	return p
}

// The Source uses existing informers of a caller. Their resyncs, and changes without effect, cause
// no update.
func TestInformersOfTheCallerAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, pod("shop", "web", "n1", "10.0.0.1"),
			pod("shop", "db", "n2", "10.0.1.1"), pod("shop", "new", "n1", ""),
			&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n1"},
				Status: corev1.NodeStatus{
					Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
				},
			},
		)
		factory := informers.NewSharedInformerFactoryWithOptions(client, time.Minute,
			informers.WithTransform(kubernetes.Transform))
		factory.Core().V1().Pods().Informer() // of the caller: it runs before the Source
		stop := make(chan struct{})
		factory.Start(stop)
		factory.WaitForCacheSync(stop)
		t.Cleanup(factory.Shutdown)
		t.Cleanup(func() { close(stop) })

		source, r := run(t, kubernetes.Config{Client: client, Dynamic: newDynamic(), Informers: factory, Node: "n1"})
		require.NoError(t, source.Barrier(t.Context()))
		require.True(t, r.inSync)
		require.Equal(t, []string{
			"NetworkSet/knode.n1", "Node/n1", "Profile/kns.shop", "WorkloadEndpoint/shop/db",
			"WorkloadEndpoint/shop/web",
		}, r.keys())
		updates := r.updates
		heartbeat := pod("shop", "db", "n2", "10.0.1.1")
		heartbeat.ResourceVersion = "2"
		heartbeat.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}}
		_, err := client.CoreV1().Pods("shop").Update(t.Context(), heartbeat, metav1.UpdateOptions{})
		require.NoError(t, err)
		time.Sleep(10 * time.Minute) // resyncs
		synctest.Wait()
		require.Equal(t, updates, r.updates)

		require.NoError(t, client.CoreV1().Pods("shop").Delete(t.Context(), "db", metav1.DeleteOptions{}))
		synctest.Wait()
		require.Equal(t, updates+1, r.updates)
		require.NotContains(t, r.keys(), "WorkloadEndpoint/shop/db")
		for _, k := range source.Status().Kinds {
			if k.Kind == "pods" {
				require.Equal(t, kubernetes.KindStatus{Kind: "pods", State: kubernetes.StateSynced, Objects: 2}, k)
			}
		}
	})
}

// A deletion that the informer missed takes effect with its next list.
func TestMissedDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(pod("shop", "web", "n1", "10.0.0.1"))
		watches := make(chan *watch.FakeWatcher, 2)
		client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			w := watch.NewFake()
			watches <- w
			return true, w, nil
		})
		factory := informers.NewSharedInformerFactory(client, 0)
		_, r := run(t, kubernetes.Config{Client: client, Dynamic: newDynamic(), Informers: factory, Node: "n1"})
		synctest.Wait()
		require.NoError(t, client.CoreV1().Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		synctest.Wait()
		require.Contains(t, r.keys(), "WorkloadEndpoint/shop/web")
		expired := apierrors.NewResourceExpired("compacted").Status()
		(<-watches).Error(&expired)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotContains(t, r.keys(), "WorkloadEndpoint/shop/web")
	})
}

// Random changes result in the same state with and without informers of the caller.
func TestInformersResultInTheSameState(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset()
			factory := informers.NewSharedInformerFactory(client, 0)
			cfg := kubernetes.Config{Client: client, Dynamic: newDynamic(), Node: "n1"}
			_, own := run(t, cfg)
			cfg.Informers = factory
			_, shared := run(t, cfg)
			rng := rand.New(rand.NewPCG(seed, 1))
			for step := range 60 {
				name, node := fmt.Sprint("p", rng.IntN(4)), fmt.Sprint("n", 1+rng.IntN(2))
				p := pod("shop", name, node, fmt.Sprint("10.0.0.", 1+rng.IntN(9)))
				p.ResourceVersion = fmt.Sprint(step + 1)
				pods, ctx := client.CoreV1().Pods("shop"), t.Context()
				var err error
				switch rng.IntN(3) {
				case 0:
					_, err = pods.Create(ctx, p, metav1.CreateOptions{})
				case 1:
					_, err = pods.Update(ctx, p, metav1.UpdateOptions{})
				case 2:
					err = pods.Delete(ctx, p.Name, metav1.DeleteOptions{})
				}
				_ = err // it exists already, or does not exist
				if rng.IntN(4) == 0 {
					synctest.Wait()
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, own.keys(), shared.keys(), "seed %d", seed)
			for key, r := range own.world {
				require.True(t, policy.Equal(r, shared.world[key]), "seed %d: %s", seed, key)
			}
			list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, own.keys(), len(list.Items), "seed %d", seed)
		})
	}
}

// Transform keeps the fields that the conversion reads, and removes most others.
func TestTransformKeepsConvertedFields(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	full := pod("shop", "web", "n1", "10.0.0.1")
	full.Labels = map[string]string{"app": "web"}
	full.Annotations = map[string]string{convert.AnnotationMAC: "66:3e:ca:a4:db:65"}
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	full.Spec.ServiceAccountName = "web"
	full.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	full.Spec.Containers = []corev1.Container{
		{Name: "c", Image: "i", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: "TCP"}}},
		{Name: "d"},
	}
	full.Spec.InitContainers = []corev1.Container{{
		RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 90, Protocol: "TCP"}},
	}}
	full.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c"}}
	hostNetwork, ended := full.DeepCopy(), full.DeepCopy()
	hostNetwork.Spec.HostNetwork = true
	ended.Status.Phase = corev1.PodFailed
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.0.0.0/24", PodCIDRs: []string{"10.0.0.0/24"}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: "InternalIP", Address: "192.0.2.1"}},
			Images:    []corev1.ContainerImage{{Names: []string{"i"}}},
		},
	}
	ready, serving := true, false
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "s", Labels: map[string]string{discoveryv1.LabelServiceName: "s"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
			{
				Addresses:  []string{"10.0.0.2"},
				Conditions: discoveryv1.EndpointConditions{Ready: &serving, Serving: &serving},
			},
		},
	}
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"a": "b"}},
		Secrets:    []corev1.ObjectReference{{Name: "s"}},
	}
	c := convert.Converter{PodCIDRs: true, TrustAnnotations: true}
	for _, object := range []metav1.Object{full, hostNetwork, ended, node, slice, account} {
		before, wrong := c.Convert(object)
		stripped, err := kubernetes.Transform(object)
		require.NoError(t, err)
		after, problems := c.Convert(stripped.(metav1.Object))
		require.Equal(t, before, after)
		require.Equal(t, wrong, problems)
		require.Empty(t, object.GetManagedFields())
	}
	require.Empty(t, full.Spec.Volumes)
	require.Len(t, full.Spec.Containers, 1)
	require.Empty(t, full.Status.ContainerStatuses)
	require.Empty(t, node.Status.Images)
	other, err := kubernetes.Transform("tombstone")
	require.NoError(t, err)
	require.Equal(t, "tombstone", other)
}

// Every problem of a configuration is reported at once.
func TestNewReportsAllProblems(t *testing.T) {
	_, err := kubernetes.New(kubernetes.Config{
		Omit: []string{"pod"}, Converter: convert.Converter{Attachment: func(*corev1.Pod) convert.Attachment {
			return convert.Attachment{}
		}},
	})
	for _, problem := range []string{"Client", "Dynamic", "Attachment", `no kind "pod"`} {
		require.ErrorContains(t, err, problem)
	}
	require.Contains(t, kubernetes.Kinds(), "networkpolicies.networking.k8s.io")
	require.Len(t, slices.Sorted(slices.Values(kubernetes.Kinds())), 17)
}
