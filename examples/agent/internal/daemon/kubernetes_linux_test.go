// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/datastore/kubernetes/report"
	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/kube"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/gobuild"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// plugin builds the CNI plugin once, and returns its binary.
var plugin = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "wayleave-cni")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // A directory that stays does no harm.
	path := filepath.Join(dir, "plugin")
	if err := gobuild.Build(path, "github.com/wayleave/wayleave/examples/cni"); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// apiServer is a fake API server that all agents of a test share.
type apiServer struct {
	t       *testing.T
	client  *fake.Clientset
	dynamic *dynamicfake.FakeDynamicClient
	watches chan struct{} // one for each watch that has begun
	away    atomic.Bool
}

func newAPIServer(t *testing.T) *apiServer {
	lists := map[schema.GroupVersionResource]string{}
	for group, version := range map[string]string{
		"networking.k8s.io": "v1", "policy.networking.k8s.io": "v1alpha2", "projectcalico.org": "v3",
	} {
		for _, kind := range kubernetes.Kinds() {
			if name, in, ok := strings.Cut(kind, "."); ok && in == group {
				lists[schema.GroupVersionResource{Group: group, Version: version, Resource: name}] = "List"
			}
		}
	}
	s := &apiServer{
		t: t, client: fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}),
		dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(k8sruntime.NewScheme(), lists),
		watches: make(chan struct{}, 1000),
	}
	refuse := func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		return s.away.Load(), nil, errors.New("the API server is away")
	}
	// The fake API server loses objects that are created between a list and its watch.
	s.client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := s.client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		s.watches <- struct{}{}
		return true, w, err
	})
	s.dynamic.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := s.dynamic.Tracker().Watch(a.GetResource(), a.GetNamespace())
		s.watches <- struct{}{}
		return true, w, err
	})
	s.client.PrependReactor("list", "*", refuse)
	s.dynamic.PrependReactor("list", "*", refuse)
	return s
}

// complete waits until an agent sees all changes.
func (s *apiServer) complete() {
	s.t.Helper()
	timeout := time.After(waitTimeout)
	for range kubernetes.Kinds() {
		select {
		case <-s.watches:
		case <-timeout:
			s.t.Fatal("the agent does not watch all kinds")
		}
	}
}

// create creates a pod of node n without an address, labelled with its name.
func (s *apiServer) create(name string) {
	s.t.Helper()
	_, err := s.client.CoreV1().Pods("shop").Create(s.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": name},
		},
		Spec: corev1.PodSpec{NodeName: "n"},
	}, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// allow creates a policy that allows only one app to reach another, on one port.
func (s *apiServer) allow(from, to string, port int64) {
	s.t.Helper()
	_, err := s.dynamic.Resource(schema.GroupVersionResource{
		Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies",
	}).Namespace("shop").Create(s.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
		"metadata": map[string]any{"namespace": "shop", "name": "to-" + to},
		"spec": map[string]any{
			"podSelector": map[string]any{"matchLabels": map[string]any{"app": to}},
			"policyTypes": []any{"Ingress"},
			"ingress": []any{map[string]any{
				"from": []any{map[string]any{
					"podSelector": map[string]any{"matchLabels": map[string]any{"app": from}},
				}},
				"ports": []any{map[string]any{"port": port}},
			}},
		},
	}}, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// kubernetesNode is a node whose agent reads its objects from an API.
type kubernetesNode struct {
	*running
	t      *testing.T
	server *apiServer
	node   *netns.NS
	state  string
}

// begin starts an agent, with more settings.
func (n *kubernetesNode) begin(more ...string) {
	n.t.Helper()
	values := map[string]string{"in-cluster": "true"}
	for i := 0; i < len(more); i += 2 {
		values[more[i]] = more[i+1]
	}
	n.running = startWith(n.t, n.node, "", n.state, values, func(c *daemon.Config) {
		c.Kubernetes = &kube.Clients{Server: "fake", Client: n.server.client, Dynamic: n.server.dynamic}
	})
}

// cni calls the plugin as a runtime does for a pod, or for a container without args.
func (n *kubernetesNode) cni(command string, pod *netns.NS, id, ip, args, timeout string) error {
	n.t.Helper()
	cmd := exec.Command(filepath.Join(n.state, "plugin"))
	cmd.Env = []string{
		"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + id, "CNI_IFNAME=eth0", "CNI_PATH=" + n.state, "CNI_ARGS=" + args,
		fmt.Sprintf("CNI_NETNS=/proc/%d/fd/%d", os.Getpid(), pod.FD()),
	}
	cmd.Stdin = strings.NewReader(fmt.Sprintf(
		`{"cniVersion": "1.0.0", "name": "net", "type": "wayleave", "socket": %q, "endpointDir": %q, "timeout": %q,
		"labels": {"app": "cart"}, "profiles": ["open"], "runtimeConfig": {"ips": [%q]}}`,
		filepath.Join(n.state, "agent.sock"), filepath.Join(n.state, "endpoints"), timeout, ip,
	))
	var out bytes.Buffer
	cmd.Stdout = &out
	require.NoError(n.t, n.node.Do(cmd.Start)) // a process that is started on a thread of the namespace is in it
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, out.String())
	}
	return nil
}

func (n *kubernetesNode) pod(command string, pod *netns.NS, name, ip string) error {
	n.t.Helper()
	args := fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=%s;K8S_POD_UID=uid-%s", name, name)
	return n.cni(command, pod, "id-"+name, ip, args, "20s")
}

// connects reports whether a namespace can connect to an address, at which a server listens.
func (n *kubernetesNode) connects(from, to *netns.NS, address string) bool {
	n.t.Helper()
	var listener net.Listener
	require.NoError(n.t, to.Do(func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	}))
	defer func() { require.NoError(n.t, listener.Close()) }()
	return from.Do(func() error {
		conn, err := net.DialTimeout("tcp", address, 500*time.Millisecond)
		if err != nil {
			return err
		}
		return conn.Close()
	}) == nil
}

// endpointStates returns the endpoints of the agent and their states.
func (n *kubernetesNode) endpointStates() map[string]string {
	states := map[string]string{}
	for _, e := range get[[]api.Endpoint](n.t, n.running, "/v1/endpoints") {
		states[e.Key.Namespace+"/"+e.Key.Name] = e.State
	}
	return states
}

func (n *kubernetesNode) eventually(ok func(api.Status) bool) {
	n.t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; runtime.Gosched() {
		status, err := api.Get[api.Status](n.t.Context(), n.Client, "/v1/status")
		if err == nil && ok(status) {
			return
		}
		require.False(n.t, time.Now().After(deadline), "%v %+v\n%s", err, status, n.log)
	}
}

func newKubernetesNode(t *testing.T) *kubernetesNode {
	t.Helper()
	n := &kubernetesNode{t: t, server: newAPIServer(t), node: nstest.New(t), state: t.TempDir()}
	binary, err := plugin()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(n.state, "plugin"), binary, 0o700))
	return n
}

// A pod has the labels and the policy of the API when ADD returns, after a restart of the agent,
// and until DEL. The network configuration has neither.
func TestPodsOfTheAPI(t *testing.T) {
	n := newKubernetesNode(t)
	n.server.allow("cart", "web", 80)
	n.begin()
	n.server.complete()
	n.until(t, well)
	web, cart, other := nstest.New(t), nstest.New(t), nstest.New(t)

	// While the API does not have the pod, ADD waits, and the pod's packets are dropped. Then it
	// fails. The agent must answer before that, also in a slow guest.
	err := n.cni("ADD", web, "id-web", "10.0.0.1", "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=uid-web", "8s")
	require.ErrorContains(t, err, "the Kubernetes API has no pod shop/web with the UID uid-web on node n")
	_, err = web.Link("eth0")
	require.Error(t, err, "the interface is removed")
	require.Empty(t, n.endpointStates())
	err = n.cni("ADD", web, "id-web", "10.0.0.1", "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web", "20s")
	require.ErrorContains(t, err, "K8S_POD_UID")

	added := make(chan error, 1)
	go func() { added <- n.pod("ADD", web, "web", "10.0.0.1") }()
	n.eventually(func(api.Status) bool {
		return get[api.Registered](t, n.running, "/v1/registry?namespace=shop&name=web").Endpoint != nil
	})
	require.False(t, n.connects(n.node, web, "10.0.0.1:80"))
	n.server.create("web")
	require.NoError(t, <-added)
	for name, pod := range map[string]*netns.NS{"cart": cart, "other": other} {
		n.server.create(name)
		require.NoError(t, n.pod("ADD", pod, name, map[string]string{"cart": "10.0.0.2", "other": "10.0.0.3"}[name]))
	}
	holds := func(when string) {
		t.Helper()
		require.True(t, n.connects(cart, web, "10.0.0.1:80"), when)
		require.False(t, n.connects(cart, web, "10.0.0.1:81"), when)
		require.False(t, n.connects(other, web, "10.0.0.1:80"), when)
		require.True(t, n.connects(web, cart, "10.0.0.2:80"), "%s: its namespace allows it", when)
	}
	holds("after ADD")
	x, err := api.Send[[]api.Explanation](t.Context(), n.running.Client, "POST", "/v1/explain",
		api.Question{From: "shop/cart", To: "shop/web", Port: "tcp/80"})
	require.NoError(t, err)
	require.Contains(t, x[0].Text, "in tier default, NetworkPolicy shop/to-web: ingress[0].from[0], ports[0]\n")
	require.NoError(t, n.node.Do(exec.Command("ip", "addr", "add", "10.9.9.9", "dev", "lo").Run))
	require.True(t, n.connects(cart, n.node, "10.9.9.9:443"), "pods reach their own node")

	// The API server is unavailable while the agent restarts: the kernel state stays, and the agent
	// is not ready.
	n.end(t)
	holds("without an agent")
	n.server.away.Store(true)
	n.begin()
	n.eventually(func(s api.Status) bool {
		return s.Kubernetes != nil && strings.Contains(s.Kubernetes.Kinds[0].Error, "the API server is away")
	})
	holds("without the API server")
	code, body := n.http(t, "/readyz")
	require.Equal(t, 503, code)
	require.Contains(t, body, "kubernetes: ")
	require.Contains(t, body, "the API server is away")
	n.server.away.Store(false)
	n.server.complete()
	n.eventually(func(s api.Status) bool { return s.Ready })
	require.Equal(t, map[string]string{"shop/web": "up", "shop/cart": "up", "shop/other": "up"}, n.endpointStates())
	holds("after the restart")
	_, body = n.http(t, "/metrics")
	require.Contains(t, body, `wayleave_kubernetes_objects{kind="pods"} 3`)
	require.Contains(t, body, `wayleave_kubernetes_readable{kind="tiers.projectcalico.org"} 1`)

	require.NoError(t, n.pod("CHECK", web, "web", ""))
	// After DEL, the kernel has no object of the pod, although the API still has the pod.
	require.NoError(t, n.pod("DEL", web, "web", ""))
	require.Equal(t, map[string]string{"shop/cart": "up", "shop/other": "up"}, n.endpointStates())
	require.NoError(t, n.pod("DEL", web, "web", ""), "again")

	// A container that is not a pod has the labels and profiles of the network configuration.
	require.NoError(t, n.cni("ADD", web, "box", "10.0.0.4", "", "20s"))
	require.Equal(t, "up", n.endpointStates()["cni/box"])
	n.end(t)
}

// An object that is not understood is reported. If a kind cannot be read, the agent is not ready.
func TestFaultsOfTheAPI(t *testing.T) {
	n := newKubernetesNode(t)
	n.server.dynamic.PrependReactor("list", "tiers", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		return n.server.away.Load(), nil, errors.New("tiers is forbidden")
	})
	n.server.away.Store(true)
	n.begin()
	n.eventually(func(s api.Status) bool {
		if s.Kubernetes == nil {
			return false
		}
		for _, k := range s.Kubernetes.Kinds {
			if k.Error != "" && k.Kind == "tiers.projectcalico.org" {
				return !s.Ready && !s.Kubernetes.InSync && k.State == "waiting"
			}
		}
		return false
	})
	n.server.away.Store(false)
	n.server.complete()
	n.eventually(func(s api.Status) bool { return s.Ready })
	_, err := n.server.client.CoreV1().Pods("shop").Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bad"},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status:     corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.x"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	n.eventually(func(s api.Status) bool {
		return s.Kubernetes.FaultyObjects == 1 && s.Kubernetes.Faulty[0].Object == "Pod shop/bad" && s.Rejected == 1
	})
	n.end(t)
}

// Once the first state is in the kernel, the agent writes to the API that its node has a network.
// It also writes Events of objects at fault.
func TestStateIsReportedToTheAPI(t *testing.T) {
	n := newKubernetesNode(t)
	nodes := n.server.client.CoreV1().Nodes()
	_, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	hasNetwork := func() bool {
		node, err := nodes.Get(t.Context(), "n", metav1.GetOptions{})
		require.NoError(t, err)
		return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
		})
	}
	n.server.away.Store(true)
	n.begin()
	n.eventually(func(s api.Status) bool { return s.Kubernetes != nil && s.Kubernetes.Kinds[0].Error != "" })
	require.False(t, hasNetwork())
	n.server.away.Store(false)
	n.server.complete()
	n.eventually(func(api.Status) bool { return hasNetwork() })

	n.server.allow("cart", "web", 80_000)
	n.eventually(func(api.Status) bool {
		events, err := n.server.client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == "to-web" && e.Reason == report.ReasonRuleClosed
		})
	})
	n.end(t)
}

// Settings come from ConfigMaps. The one for the node takes precedence over the one for all nodes.
// Before both have been read, nothing is programmed. Invalid settings are ignored, and the previous
// ones stay in effect.
func TestSettingsOfConfigMaps(t *testing.T) {
	n := newKubernetesNode(t)
	maps := n.server.client.CoreV1().ConfigMaps("wayleave")
	set := func(name string, data map[string]string) {
		t.Helper()
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "wayleave", Name: name}, Data: data}
		_, err := maps.Update(t.Context(), m, metav1.UpdateOptions{})
		if err != nil {
			_, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
		}
		require.NoError(t, err)
	}
	set("other", map[string]string{"apply-burst": "9"})
	set("agent", map[string]string{"apply-burst": "2", "resync-interval": "1h"})
	refused := atomic.Bool{}
	refused.Store(true)
	n.server.client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		return refused.Load(), nil, errors.New("configmaps is forbidden")
	})
	n.begin("kubernetes-config", "wayleave/agent")
	n.server.complete()
	n.eventually(func(s api.Status) bool { return s.Kubernetes != nil && s.Kubernetes.InSync })
	n.eventually(func(api.Status) bool {
		_, body := n.http(t, "/readyz")
		return strings.Contains(body, "settings: configmaps is forbidden")
	})
	require.False(t, get[api.Status](t, n.running, "/v1/status").Ready)
	refused.Store(false)
	n.eventually(func(s api.Status) bool { return s.Ready })
	<-n.server.watches // of both ConfigMaps
	<-n.server.watches
	has := func(key, value, origin string) func(api.Status) bool {
		return func(api.Status) bool {
			for _, v := range get[[]settings.Value](t, n.running, "/v1/config") {
				if v.Key == key {
					return v.Value == value && v.Origin == origin
				}
			}
			return false
		}
	}
	require.True(t, has("apply-burst", "2", "ConfigMap wayleave/agent")(api.Status{}))
	set("agent-node-n", map[string]string{"apply-burst": "3"})
	n.eventually(has("apply-burst", "3", "ConfigMap wayleave/agent-node-n"))
	require.True(t, has("resync-interval", "1h0m0s", "ConfigMap wayleave/agent")(api.Status{}))
	set("agent-node-n", map[string]string{"apply-burst": "0", "table": "mine"})
	n.eventually(func(s api.Status) bool { return len(s.Settings) == 2 })
	require.True(t, has("apply-burst", "3", "ConfigMap wayleave/agent-node-n")(api.Status{}))
	require.NoError(t, maps.Delete(t.Context(), "agent-node-n", metav1.DeleteOptions{}))
	n.eventually(has("apply-burst", "2", "ConfigMap wayleave/agent"))
	n.eventually(func(s api.Status) bool { return s.Ready })
	n.end(t)
}
