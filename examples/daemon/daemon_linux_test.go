// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// policies is the kind of objects that the tests write, besides pods.
var policies = networkingv1.SchemeGroupVersion.WithResource("networkpolicies")

// kinds is how many kinds of objects the daemon watches: those of Kubernetes.
const kinds = 7

// rig is an API server and a node, with the daemon on it.
type rig struct {
	t        *testing.T
	api      *fake.Clientset
	dynamic  *dynamicfake.FakeDynamicClient
	policies dynamic.ResourceInterface // of the namespace shop
	watches  chan struct{}             // one for each watch that the API server has begun
	lists    sync.Mutex                // the API server lists policies when it is free
	node     *netns.NS
	folder   string
	log      nstest.Log
	d        *daemon
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, watches: make(chan struct{}, 100), node: nstest.New(t), folder: t.TempDir(), log: nstest.NewLog(),
		api: fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}),
		dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{
				policies: "NetworkPolicyList",
				{Group: "policy.networking.k8s.io", Version: "v1alpha2", Resource: "clusternetworkpolicies"}: "List",
			}),
	}
	r.policies = r.dynamic.Resource(policies).Namespace("shop")
	// The fake API server loses objects that are created between a list and its watch.
	watches := func(tracker clienttesting.ObjectTracker) clienttesting.WatchReactionFunc {
		return func(action clienttesting.Action) (bool, watch.Interface, error) {
			w, err := tracker.Watch(action.GetResource(), action.GetNamespace())
			r.watches <- struct{}{}
			return true, w, err
		}
	}
	r.api.PrependWatchReactor("*", watches(r.api.Tracker()))
	r.dynamic.PrependWatchReactor("*", watches(r.dynamic.Tracker()))
	r.dynamic.PrependReactor("list", "networkpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		r.lists.Lock()
		defer r.lists.Unlock()
		return false, nil, nil
	})
	require.NoError(t, r.node.SetSysctl("net/ipv4/ip_forward", "1"))
	require.NoError(t, r.node.SetSysctl("net/ipv6/conf/all/forwarding", "1"))
	return r
}

// config returns the configuration of a daemon. The API server does not have Calico's kinds.
func (r *rig) config() config {
	return config{
		client: r.api, dynamic: r.dynamic, node: "n", folder: r.folder, netns: r.node.FD(),
		logger: slog.New(slog.NewTextHandler(r.log, nil)),
		informers: informers.NewSharedInformerFactoryWithOptions(r.api, 0,
			informers.WithTransform(kubernetes.Transform)),
		omit: slices.DeleteFunc(kubernetes.Kinds(), func(kind string) bool {
			return !strings.HasSuffix(kind, ".projectcalico.org")
		}),
	}
}

// begin starts a daemon, and returns a function that ends it.
func (r *rig) begin() (stop func()) {
	r.t.Helper()
	var err error
	r.d, err = wire(r.config())
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.d.run(ctx) }()
	return func() {
		cancel()
		require.NoError(r.t, <-ended)
	}
}

// start starts a daemon that has the whole state, and returns a function that ends it.
func (r *rig) start() (stop func()) {
	stop = r.begin()
	r.complete()
	return stop
}

// complete waits until the daemon has the whole state, and sees all changes.
func (r *rig) complete() {
	for range kinds {
		<-r.watches
	}
	require.NoError(r.t, r.d.source.Barrier(r.limited()))
	require.Len(r.t, r.d.cfg.informers.WaitForCacheSync(r.t.Context().Done()), 5, "the Source uses the informers")
}

// request sends a request of the plugin, and returns the status and the text of the answer.
func (r *rig) request(ctx context.Context, path string, l link) (status int, text string) {
	body, err := json.Marshal(l)
	require.NoError(r.t, err)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(r.folder, "socket"))
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://daemon"+path, bytes.NewReader(body))
	require.NoError(r.t, err)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	return response.StatusCode, string(answer)
}

// limited returns the context of a step of the test.
func (r *rig) limited() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	r.t.Cleanup(cancel)
	return ctx
}

// waits reports whether a request gets no response for a while.
func (r *rig) waits(path string, l link) bool {
	r.eventually(func() bool {
		status, _ := r.request(r.limited(), "/none", l)
		return status == http.StatusNotFound // so the daemon listens
	})
	ctx, cancel := context.WithTimeout(r.t.Context(), 50*time.Millisecond)
	defer cancel()
	status, _ := r.request(ctx, path, l)
	return status == 0
}

func (r *rig) must(path string, l link) {
	r.t.Helper()
	status, text := r.request(r.limited(), path, l)
	require.Equal(r.t, http.StatusOK, status, text)
}

// create creates a pod of the API server, which has no addresses yet, labelled with its name.
func (r *rig) create(l link) {
	r.t.Helper()
	_, err := r.api.CoreV1().Pods(l.Namespace).Create(r.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.Namespace, Name: l.Name, UID: l.UID, Labels: map[string]string{"app": l.Name},
		},
		Spec: corev1.PodSpec{NodeName: "n"},
	}, metav1.CreateOptions{})
	require.NoError(r.t, err)
}

// plug makes a link with its addresses and routes, as a plugin does before it reports the link.
func (r *rig) plug(name string, number int) (*netns.NS, link) {
	r.t.Helper()
	l := link{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Interface: "pod" + name,
		Addresses: []netip.Addr{
			netip.AddrFrom4([4]byte{10, 1, 0, byte(number)}),
			netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", number)),
		},
	}
	var addresses []string
	for _, addr := range l.Addresses {
		addresses = append(addresses, addr.String())
	}
	workload := nstest.NewWorkload(r.t, r.node, l.Interface, addresses...)
	for _, addr := range l.Addresses {
		require.NoError(r.t, r.node.Do(func() error {
			return exec.Command("ip", "route", "add", addr.String(), "dev", l.Interface).Run()
		}))
		for _, port := range []uint16{80, 81} {
			nstest.Serve(r.t, workload.NS, netip.AddrPortFrom(addr, port).String(), name)
		}
	}
	return workload.NS, l
}

// pod makes a pod in the same steps as kubelet.
func (r *rig) pod(name string, number int) (*netns.NS, link) {
	r.t.Helper()
	ns, l := r.plug(name, number)
	r.create(l)
	r.must("/add", l)
	return ns, l
}

// allow returns a policy of web: it lets packets of one app through to one port.
func (r *rig) allow(app string, port int32) *unstructured.Unstructured {
	r.t.Helper()
	number := intstr.FromInt32(port)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: policies.GroupVersion().String(), Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{
					PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
				}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: &number}},
			}},
		},
	})
	require.NoError(r.t, err)
	return &unstructured.Unstructured{Object: object}
}

// connected returns the ports of web that a namespace reaches, over both IP versions.
func (r *rig) connected(from *netns.NS) (ports []string) {
	for _, address := range []string{"10.1.0.1:80", "10.1.0.1:81", "[2001:db8::1]:80", "[2001:db8::1]:81"} {
		if !nstest.Dropped(r.t, from, address) {
			require.Equal(r.t, "web", nstest.Answer(r.t, from, "tcp", address))
			ports = append(ports, address[strings.LastIndex(address, ":")+1:])
		}
	}
	return ports
}

func (r *rig) eventually(condition func() bool) {
	r.t.Helper()
	require.Eventually(r.t, condition, 20*time.Second, 10*time.Millisecond)
}

// The kernel allows exactly the connections that the policy in the API allows. This also holds
// after an edit of the policy, a restart of the daemon and the removal of a pod.
func TestPolicyOfTheAPIIsEnforced(t *testing.T) {
	r := newRig(t)
	stop := r.start()
	_, web := r.pod("web", 1)
	shop, _ := r.pod("shop", 2)
	other, _ := r.pod("other", 3)
	stray, _ := r.plug("stray", 4) // its link is not reported
	all := []string{"80", "81", "80", "81"}
	require.Equal(t, all, r.connected(shop))
	require.Equal(t, all, r.connected(other))
	require.Empty(t, r.connected(stray))
	require.NoError(t, r.node.Do(func() error {
		return exec.Command("ip", "address", "add", "10.9.0.1/32", "dev", "lo").Run()
	}))
	nstest.Serve(t, r.node, "10.9.0.1:80", "node")
	require.Equal(t, "node", nstest.Answer(t, shop, "tcp", "10.9.0.1:80"))
	require.True(t, nstest.Dropped(t, stray, "10.9.0.1:80"))

	_, err := r.policies.Create(t.Context(), r.allow("shop", 80), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, r.d.driver.WaitEndpoint(r.limited(), web.ref().Key(), func(e *dataplane.Endpoint) bool {
		return len(e.Ingress) > 0
	}))
	require.Equal(t, []string{"80", "80"}, r.connected(shop))
	require.Empty(t, r.connected(other))

	_, err = r.policies.Update(t.Context(), r.allow("other", 81), metav1.UpdateOptions{})
	require.NoError(t, err)
	r.eventually(func() bool { return !nstest.Dropped(t, other, "10.1.0.1:81") })
	require.Equal(t, []string{"81", "81"}, r.connected(other))
	require.Empty(t, r.connected(shop))

	stop()
	require.Equal(t, []string{"81", "81"}, r.connected(other), "the kernel keeps the policy")
	require.Empty(t, r.connected(shop))
	r.lists.Lock()
	stop = r.begin()
	require.Equal(t, []string{"81", "81"}, r.connected(other))
	require.Empty(t, r.connected(shop), "the next daemon waits for the policies")
	require.True(t, r.waits("/del", link{Namespace: "shop", Name: "gone", UID: "1"}), "the pod may be in the kernel")
	r.lists.Unlock()
	r.complete()
	require.NoError(t, r.d.driver.WaitProgrammed(r.limited(), web.ref().Key()))
	require.Equal(t, []string{"81", "81"}, r.connected(other), "the daemon has read the links from its files")
	require.Empty(t, r.connected(shop))
	require.NoError(t, r.policies.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	r.eventually(func() bool { return !nstest.Dropped(t, shop, "10.1.0.1:80") })
	require.Equal(t, all, r.connected(other))

	require.NoError(t, r.api.CoreV1().Pods("shop").Delete(t.Context(), "shop", metav1.DeleteOptions{}))
	r.eventually(func() bool { return nstest.Dropped(t, shop, "10.1.0.1:80") })

	former := web
	former.UID = "uid-of-an-earlier-pod"
	r.must("/del", former)
	require.Equal(t, all, r.connected(other), "DEL was for another pod")
	require.Contains(t, nstest.NFT(t, r.node, "", "list", "ruleset"), "podweb")
	r.must("/del", web)
	require.NotContains(t, nstest.NFT(t, r.node, "", "list", "ruleset"), "podweb")
	require.Empty(t, r.connected(other))
	r.must("/del", web)
	files, err := filepath.Glob(r.folder + "/links/*")
	require.NoError(t, err)
	require.Len(t, files, 2)
	stop()
}

// ADD waits for the pod of the API. If a request is invalid, or the pod has a fault, the response
// has the reason.
func TestRequests(t *testing.T) {
	r := newRig(t)
	stop := r.start()
	_, web := r.plug("web", 1)
	require.True(t, r.waits("/add", web), "the API server has no such pod")
	added := make(chan string, 1)
	go func() {
		_, text := r.request(r.limited(), "/add", web)
		added <- text
	}()
	r.create(web)
	require.Empty(t, <-added)
	next := web
	next.UID = "uid-of-the-next-pod"
	require.True(t, r.waits("/add", next), "the API server still has the previous pod")
	for want, l := range map[string]link{
		`invalid request: uid ""`:                 {Namespace: "shop", Name: "web"},
		`invalid request: name "../web"`:          {Namespace: "shop", Name: "../web", UID: "1"},
		"invalid request: pod shop/web: pods: at": {Namespace: "shop", Name: "web", UID: "1"},
	} {
		status, text := r.request(r.limited(), "/add", l)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, text, want)
	}
	stop()
	status, text := r.request(r.limited(), "/add", web)
	require.Zero(t, status, text)
}

// The log has the objects that are not understood, and the kernel closes their rules.
func TestFaultsAreLogged(t *testing.T) {
	r := newRig(t)
	stop := r.start()
	_, web := r.pod("web", 1)
	shop, _ := r.pod("shop", 2)
	later := r.allow("shop", 80)
	later.Object["spec"].(map[string]any)["ingress"].([]any)[0].(map[string]any)["sometimes"] = true
	_, err := r.policies.Create(t.Context(), later, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Contains(t, r.log.Wait(t, "not understood"), "shop/web")
	require.Contains(t, r.log.Wait(t, "some rules are closed"), "shop/knp.default.web")
	require.NoError(t, r.d.source.Barrier(r.limited()))
	require.NoError(t, r.d.driver.WaitProgrammed(r.limited(), web.ref().Key()))
	require.Empty(t, r.connected(shop))
	stop()
}

func TestStart(t *testing.T) {
	cfg := config{logger: slog.New(slog.DiscardHandler), folder: t.TempDir()}
	require.ErrorContains(t, start(t.Context(), cfg, "/none/kubeconfig"), `kubeconfig "/none/kubeconfig"`)
	_, err := wire(cfg)
	require.ErrorContains(t, err, "kubernetes: Config.Client: required")
	cfg = newRig(t).config()
	cfg.node = ""
	_, err = wire(cfg)
	require.Error(t, err, "the node's name is missing")
}
