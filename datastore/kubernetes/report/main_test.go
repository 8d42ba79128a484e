// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore/kubernetes/report"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// TestMain fails if a goroutine of this package outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	deadline := time.Now().Add(30 * time.Second)
	for leaked() != "" && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if stacks := leaked(); stacks != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "leaked goroutines:\n"+stacks)
		code = 1
	}
	os.Exit(code)
}

func leaked() string {
	buffer := make([]byte, 1<<20)
	var found []string
	for _, stack := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "datastore/kubernetes/report.") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

var (
	cnps = schema.GroupVersionResource{
		Group: "policy.networking.k8s.io", Version: "v1alpha2", Resource: "clusternetworkpolicies",
	}
	policies = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
	nodesOf  = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// cluster is an API server of fakes.
type cluster struct {
	client  *fake.Clientset
	dynamic *dynamicfake.FakeDynamicClient
}

func newCluster(objects ...*unstructured.Unstructured) *cluster {
	all := make([]apiruntime.Object, 0, len(objects))
	for _, o := range objects {
		all = append(all, o)
	}
	return &cluster{
		client: fake.NewClientset(node("n1"), node("n2"), pod("web", "n1"), pod("far", "n2")),
		dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(apiruntime.NewScheme(),
			map[schema.GroupVersionResource]string{
				report.Resource(): "NodeReportList", cnps: "ClusterNetworkPolicyList",
				policies: "NetworkPolicyList", nodesOf: "NodeList",
			}, all...),
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// start runs a Reporter of a node until the test or stop ends it. It must be called in a bubble.
func (c *cluster) start(t *testing.T, node string, change ...func(*report.Config)) (r *report.Reporter, stop func()) {
	cfg := report.Config{Client: c.client, Dynamic: c.dynamic, Node: node, Version: "v1"}
	for _, apply := range change {
		apply(&cfg)
	}
	r, err := report.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		}
	}
	t.Cleanup(stop)
	return r, stop
}

// events returns the Events in the cluster, as "namespace Kind/name Reason xCount: note", sorted.
func (c *cluster) events(t *testing.T) []string {
	list, err := c.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var found []string
	for _, e := range list.Items {
		require.Equal(t, corev1.EventTypeWarning, e.Type)
		require.LessOrEqual(t, len(e.Message), 1024)
		found = append(found, fmt.Sprintf("%s %s/%s %s x%d: %s",
			e.Namespace, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Count, e.Message))
	}
	slices.Sort(found)
	return found
}

// writes counts the write requests since the last call, by "resource" or "resource/subresource".
func (c *cluster) writes() map[string]int {
	found := map[string]int{}
	for _, a := range slices.Concat(c.client.Actions(), c.dynamic.Actions()) {
		if slices.Contains([]string{"create", "update", "patch", "delete"}, a.GetVerb()) {
			name := a.GetResource().Resource
			if a.GetSubresource() != "" {
				name += "/" + a.GetSubresource()
			}
			found[name]++
		}
	}
	c.client.ClearActions()
	c.dynamic.ClearActions()
	return found
}

// failure makes requests with a verb and a resource, or "*", fail. "*" does not include Leases.
type failure struct {
	verb, resource string

	mu    sync.Mutex
	err   error // of the requests; nil for success
	once  bool  // whether only one request fails
	count int   // number of failed requests
}

func (f *failure) react(a clienttesting.Action) (bool, apiruntime.Object, error) {
	resource := a.GetResource().Resource
	if f.verb != "*" && f.verb != a.GetVerb() || f.resource != resource && (f.resource != "*" || resource == "leases") {
		return false, nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.err
	if err == nil {
		return false, nil, nil
	}
	f.count++
	if f.once {
		f.err = nil
	}
	return true, nil, err
}

func (f *failure) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failure) failed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// fail adds a failure. It must be called before Reporters start.
func (c *cluster) fail(f *failure) *failure {
	c.client.PrependReactor("*", "*", f.react)
	c.dynamic.PrependReactor("*", "*", f.react)
	return f
}

// wait advances the time of the bubble.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func object(kind, name string) convert.Object {
	versions := map[string]string{
		"NetworkPolicy": "networking.k8s.io/v1", "Pod": "v1",
		"ClusterNetworkPolicy": "policy.networking.k8s.io/v1alpha2",
	}
	o := convert.Object{
		APIVersion: versions[kind], Kind: kind, Namespace: "shop", Name: name, UID: "uid-" + types.UID(name),
	}
	if kind == "ClusterNetworkPolicy" {
		o.Namespace = ""
	}
	return o
}

// problem returns one problem of an object.
func problem(of convert.Object, field, cause string, absent bool) []error {
	return []error{&convert.Error{Object: of, Field: field, Err: fmt.Errorf("%s", cause), Absent: absent}}
}

// clusterPolicy returns a ClusterNetworkPolicy with conditions.
func clusterPolicy(name string, conditions ...any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": conditions}}}
	o.SetAPIVersion("policy.networking.k8s.io/v1alpha2")
	o.SetKind("ClusterNetworkPolicy")
	o.SetName(name)
	o.SetUID("uid-" + types.UID(name))
	o.SetResourceVersion("1")
	return o
}

// conditions returns the conditions of a policy, as "type=status reason generation: message".
func (c *cluster) conditions(t *testing.T, name string) []string {
	live, err := c.dynamic.Resource(cnps).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	list, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
	require.NoError(t, err)
	var found []string
	for _, entry := range list {
		m := entry.(map[string]any)
		found = append(found,
			fmt.Sprintf("%v=%v %v %v: %v", m["type"], m["status"], m["reason"], m["observedGeneration"], m["message"]))
	}
	return found
}

// nodeReport returns the report of a node.
func (c *cluster) nodeReport(t *testing.T, node string) (*unstructured.Unstructured, report.NodeStatus) {
	live, err := c.dynamic.Resource(report.Resource()).Get(t.Context(), node, metav1.GetOptions{})
	require.NoError(t, err)
	var status report.NodeStatus
	require.NoError(t, apiruntime.DefaultUnstructuredConverter.FromUnstructured(
		live.Object["status"].(map[string]any), &status))
	return live, status
}

// endpoint is a change of an endpoint of a pod of namespace shop; err is nil if it is up.
func endpoint(name string, err error) dataplane.EndpointChange {
	status := dataplane.EndpointStatus{State: dataplane.EndpointUp}
	if err != nil {
		status = dataplane.EndpointStatus{State: dataplane.EndpointFailed, Err: err}
	}
	return dataplane.EndpointChange{
		Key:    policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: name},
		Status: status,
	}
}
