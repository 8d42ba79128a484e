// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/datastore/kubernetes/internal/apiserver"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// cluster is a real API server.
type cluster struct {
	testing.TB
	*apiserver.Server
	clientset.Interface
}

func newCluster(t testing.TB, cfg apiserver.Config) *cluster {
	t.Helper()
	c := &cluster{TB: t, Server: apiserver.Start(t, cfg)}
	c.Interface = clients(t, c.REST()).Client
	return c
}

// clients returns a configuration with the clients of a user.
func clients(t testing.TB, user *rest.Config) kubernetes.Config {
	t.Helper()
	user.QPS, user.Burst = -1, -1
	transport, err := rest.HTTPClientFor(user)
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	d, err := dynamic.NewForConfigAndClient(user, transport)
	require.NoError(t, err)
	user.ContentType = "application/vnd.kubernetes.protobuf"
	c, err := clientset.NewForConfigAndClient(user, transport)
	require.NoError(t, err)
	return kubernetes.Config{Client: c, Dynamic: d}
}

// start runs a Source until the test ends or stop is called.
func (c *cluster) start(cfg kubernetes.Config) (s *kubernetes.Source, r *receiver, stop func()) {
	c.Helper()
	s, err := kubernetes.New(cfg)
	require.NoError(c, err)
	s.SetServedInterval(300 * time.Millisecond)
	r = &receiver{world: map[policy.Key]policy.Resource{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, r) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.ErrorIs(c, <-ended, context.Canceled)
	})
	c.Cleanup(stop)
	return s, r, stop
}

// eventually waits until a condition holds.
func (c *cluster) eventually(what string, ok func() bool) {
	c.Helper()
	require.Eventually(c, ok, 2*time.Minute, 20*time.Millisecond, what)
}

// requireEqual waits until the state equals that of a new Source.
func (c *cluster) requireEqual(r *receiver) {
	c.Helper()
	fresh, want, stop := c.start(clients(c, c.REST()))
	defer stop()
	require.NoError(c, fresh.Barrier(c.Context()))
	c.eventually("the state of a new Source", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		want.mu.Lock()
		defer want.mu.Unlock()
		if len(r.world) != len(want.world) {
			return false
		}
		for key, resource := range want.world {
			if !policy.Equal(resource, r.world[key]) {
				return false
			}
		}
		return true
	})
}

func (r *receiver) has(kind policy.Kind, namespace, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.world[policy.Key{Kind: kind, Namespace: namespace, Name: name}] != nil
}

// addPod adds a pod of a node with an address.
func (c *cluster) addPod(namespace, name, node, address string, labels map[string]string) {
	c.Helper()
	pods := c.CoreV1().Pods(namespace)
	pod, err := pods.Create(c.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	if address == "" {
		return
	}
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, address
	pod.Status.PodIPs = []corev1.PodIP{{IP: address}}
	_, err = pods.UpdateStatus(c.Context(), pod, metav1.UpdateOptions{})
	require.NoError(c, err)
}

func (c *cluster) deletePod(namespace, name string) {
	c.Helper()
	now := int64(0)
	err := c.CoreV1().Pods(namespace).Delete(c.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	require.NoError(c, err)
}

// isolate adds a policy that denies all ingress to pods with a label.
func (c *cluster) isolate(namespace, name, app string) {
	c.Helper()
	_, err := c.NetworkingV1().NetworkPolicies(namespace).Create(c.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
}

// The Source has the state of the server, of 5,000 pods and 500 policies. It also has their changes
// after the server is killed, its watches end, its history is compacted and a backup is restored.
func TestServerRestartCompactionAndRestore(t *testing.T) {
	pods, policies := 5000, 500
	if testing.Short() {
		pods, policies = 200, 20
	}
	c := newCluster(t, apiserver.Config{})
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := w; i < pods; i += 8 {
				address := fmt.Sprintf("10.0.%d.%d", i/250, i%250)
				labels := map[string]string{"app": fmt.Sprint(i % 100)}
				c.addPod("default", fmt.Sprint("p", i), fmt.Sprint("n", i%50), address, labels)
			}
			for i := w; i < policies; i += 8 {
				c.isolate("default", fmt.Sprint("np", i), fmt.Sprint(i%100))
			}
		})
	}
	writers.Wait()
	start := time.Now()
	s, r, _ := c.start(clients(t, c.REST()))
	require.NoError(t, s.Barrier(t.Context()))
	t.Logf("in sync after %s", time.Since(start).Round(time.Millisecond))
	require.Len(t, r.of(policy.KindWorkloadEndpoint), pods)
	require.Len(t, r.of(policy.KindPolicy), policies)
	c.requireEqual(r)

	updates := r.count()
	c.Kill()
	c.Restart()
	c.deletePod("default", "p1")
	c.isolate("default", "after-restart", "1")
	c.eventually("changes after a restart", func() bool {
		return r.has(policy.KindPolicy, "default", "knp.default.after-restart") &&
			!r.has(policy.KindWorkloadEndpoint, "default", "p1")
	})
	require.Less(t, r.count()-updates, 100, "a restart sends only changes, and objects that the server adds at start")

	c.Kill()
	c.eventually("the server is stopped", func() bool { return kindOf(s, "pods").Err != nil })
	require.True(t, s.Status().InSync)
	c.Restart()
	c.deletePod("default", "p2")
	for range 3 { // the server drops the history when it reads etcd after a compaction
		c.isolate("default", fmt.Sprint("compacted", time.Now().UnixNano()), "2")
		c.Compact()
	}
	c.Kill()
	c.Restart()
	c.eventually("changes after a compaction", func() bool {
		return !r.has(policy.KindWorkloadEndpoint, "default", "p2")
	})
	c.requireEqual(r)

	backup := c.Snapshot()
	for i := range 20 {
		c.isolate("default", fmt.Sprint("lost", i), "3")
	}
	lost := func() bool { return r.has(policy.KindPolicy, "default", "knp.default.lost19") }
	c.eventually("changes after the backup", lost)
	c.Restore(backup)
	c.eventually("the restored state", func() bool { return !lost() })
	c.requireEqual(r)
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.updates
}

// of returns the resources of one kind.
func (r *receiver) of(kind policy.Kind) (found []policy.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, resource := range r.world {
		if key.Kind == kind {
			found = append(found, resource)
		}
	}
	return found
}

func kindOf(s *kubernetes.Source, kind string) kubernetes.KindStatus {
	for _, k := range s.Status().Kinds {
		if k.Kind == kind {
			return k
		}
	}
	return kubernetes.KindStatus{}
}

// A Source is in sync with the documented rights. Without the rights to one kind it is not.
func TestDocumentedRightsAreNeeded(t *testing.T) {
	c := newCluster(t, apiserver.Config{RBAC: true})
	c.isolate("default", "web", "web")
	s, r, _ := c.start(clients(t, c.RESTFor("node-1")))
	c.eventually("all kinds are forbidden", func() bool {
		return apierrors.IsForbidden(kindOf(s, "networkpolicies.networking.k8s.io").Err) &&
			apierrors.IsForbidden(kindOf(s, "pods").Err)
	})
	require.Zero(t, r.count())
	verbs := []string{"get", "list", "watch"}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "wayleave"},
		Rules: []rbacv1.PolicyRule{
			{Verbs: verbs, APIGroups: []string{""}, Resources: []string{
				"pods", "namespaces", "serviceaccounts", "nodes",
			}},
			{Verbs: verbs, APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
			{Verbs: verbs, APIGroups: []string{"policy.networking.k8s.io"}, Resources: []string{"*"}},
			{Verbs: verbs, APIGroups: []string{"projectcalico.org"}, Resources: []string{"*"}},
		},
	}
	roles := c.RbacV1().ClusterRoles()
	_, err := roles.Create(t.Context(), role, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "wayleave"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "wayleave"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "node-1"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.eventually("all but policies", func() bool { return kindOf(s, "pods").State == kubernetes.StateSynced })
	require.False(t, r.inSync)

	role.Rules = append(role.Rules, rbacv1.PolicyRule{
		Verbs: verbs, APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"},
	})
	_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Barrier(t.Context()))
	require.True(t, r.has(policy.KindPolicy, "default", "knp.default.web"))
	c.requireEqual(r)
}

// Kinds whose CRDs are applied later are read, and unknown fields close their rules. The deletion
// of a CRD removes its objects.
func TestKindsFollowCRDs(t *testing.T) {
	c := newCluster(t, apiserver.Config{})
	cfg := clients(t, c.REST())
	var mu sync.Mutex
	problems := map[string]string{}
	cfg.Hooks.Problems = func(o convert.Object, errs []error) {
		mu.Lock()
		defer mu.Unlock()
		if problems[o.String()] = fmt.Sprint(errs); len(errs) == 0 {
			delete(problems, o.String())
		}
	}
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	s, r, _ := c.start(cfg)
	require.NoError(t, s.Barrier(t.Context()))
	const kind = "globalnetworkpolicies.projectcalico.org"
	require.Equal(t, kubernetes.StateNotServed, kindOf(s, kind).State)

	crds := apiserver.CalicoCRDs()
	c.ApplyCRDs(append(crds, apiserver.PolicyCRD(t, "experimental"))...)
	c.eventually("the kind", func() bool { return kindOf(s, kind).State == kubernetes.StateSynced })
	create := func(group, version, resource, object string, spec map[string]any) {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/" + version, "kind": object, "metadata": map[string]any{"name": "x"}, "spec": spec,
		}}
		gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
		_, err := cfg.Dynamic.Resource(gvr).Create(t.Context(), u, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	create("projectcalico.org", "v3", "globalnetworkpolicies", "GlobalNetworkPolicy", map[string]any{
		"selector": "all()", "ingress": []any{map[string]any{"action": "Allow", "futureField": "narrower"}},
	})
	create("projectcalico.org", "v3", "globalnetworksets", "GlobalNetworkSet", map[string]any{"nets": "no list"})
	create("policy.networking.k8s.io", "v1alpha2", "clusternetworkpolicies", "ClusterNetworkPolicy", map[string]any{
		"tier": "Admin", "priority": int64(7), "subject": map[string]any{"namespaces": map[string]any{}},
		"egress": []any{map[string]any{
			"action": "Accept", "to": []any{map[string]any{"domainNames": []any{"example.com"}}},
		}},
	})
	c.eventually("the policies", func() bool {
		return r.has(policy.KindPolicy, "", "x") && r.has(policy.KindPolicy, "", "kcnp.x")
	})
	c.eventually("the problems", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(problems) == 3
	})
	require.Contains(t, problems["GlobalNetworkPolicy x"], "futureField")
	require.Contains(t, problems["GlobalNetworkSet x"], "spec.nets")
	require.Contains(t, problems["ClusterNetworkPolicy x"], "domainNames")
	for _, p := range r.of(policy.KindPolicy) {
		rules := append(p.(*policy.Policy).Ingress, p.(*policy.Policy).Egress...)
		require.Len(t, rules, 1)
		require.NotEmpty(t, rules[0].Doubts, "%s: closed", p.Key())
	}
	require.Equal(t, 3, s.Status().Faulty)

	definitions := schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	for _, crd := range crds {
		err := cfg.Dynamic.Resource(definitions).Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{})
		require.NoError(t, err)
	}
	c.eventually("the kind goes", func() bool { return kindOf(s, kind).State == kubernetes.StateNotServed })
	require.False(t, r.has(policy.KindPolicy, "", "x"))
	require.True(t, s.Status().InSync)
	c.requireEqual(r)
}
