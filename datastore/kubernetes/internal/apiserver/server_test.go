// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/wayleave/wayleave/datastore/kubernetes/internal/apiserver"
)

// waitTimeout limits how long a test waits for an event.
const waitTimeout = 30 * time.Second

// TestMain fails if a goroutine of this package outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	deadline := time.Now().Add(waitTimeout)
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
		if strings.Contains(stack, "internal/apiserver.") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// client returns a client of the administrator.
func client(t *testing.T, s *apiserver.Server) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.REST())
	require.NoError(t, err)
	return c
}

// addPolicy creates an empty NetworkPolicy in namespace shop.
func addPolicy(t *testing.T, c kubernetes.Interface, name string) *networkingv1.NetworkPolicy {
	t.Helper()
	policy, err := c.NetworkingV1().NetworkPolicies("shop").Create(t.Context(),
		&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return policy
}

// addNamespace creates namespace shop.
func addNamespace(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	_, err := c.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// policies returns the names of all NetworkPolicies, and the revision of the list.
func policies(t *testing.T, c kubernetes.Interface) (names []string, revision uint64) {
	t.Helper()
	list, err := c.NetworkingV1().NetworkPolicies("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, policy := range list.Items {
		names = append(names, policy.Name)
	}
	revision, err = strconv.ParseUint(list.ResourceVersion, 10, 64)
	require.NoError(t, err)
	return names, revision
}

// firstEvent returns the first event of a watch of NetworkPolicies from a revision.
func firstEvent(t *testing.T, c kubernetes.Interface, revision string) watch.Event {
	t.Helper()
	w, err := c.NetworkingV1().NetworkPolicies("shop").Watch(t.Context(), metav1.ListOptions{ResourceVersion: revision})
	require.NoError(t, err)
	defer w.Stop()
	select {
	case event := <-w.ResultChan():
		return event
	case <-time.After(waitTimeout):
		require.FailNow(t, "no event")
		return watch.Event{}
	}
}

func TestObjectsOutliveKills(t *testing.T) {
	s := apiserver.Start(t, apiserver.Config{})
	c := client(t, s)
	addNamespace(t, c)
	first := addPolicy(t, c, "first")
	addPolicy(t, c, "second")
	event := firstEvent(t, c, first.ResourceVersion)
	require.Equal(t, watch.Added, event.Type)

	s.Compact()
	s.Kill()
	_, err := c.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})
	require.Error(t, err)
	s.Restart()
	names, _ := policies(t, c)
	require.Equal(t, []string{"first", "second"}, names)
	event = firstEvent(t, c, first.ResourceVersion)
	require.Equal(t, watch.Error, event.Type)
	require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), "%v", event.Object)

	s.KillEtcd()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = c.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{})
	require.Error(t, err)
	s.RestartEtcd()
	require.Eventually(t, func() bool {
		_, err := c.NetworkingV1().NetworkPolicies("shop").Get(t.Context(), "first", metav1.GetOptions{})
		return err == nil
	}, waitTimeout, 10*time.Millisecond)
	addPolicy(t, c, "third")
	names, _ = policies(t, c)
	require.Equal(t, []string{"first", "second", "third"}, names)
}

func TestCompactedRevisionsAreGone(t *testing.T) {
	s := apiserver.Start(t, apiserver.Config{})
	c := client(t, s)
	addNamespace(t, c)
	addPolicy(t, c, "first")
	_, revision := policies(t, c)
	addPolicy(t, c, "second")
	old := metav1.ListOptions{
		ResourceVersion: strconv.FormatUint(revision, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	}
	s.Restart() // it has no cache of the old revision, so it reads etcd
	list, err := c.NetworkingV1().NetworkPolicies("shop").List(t.Context(), old)
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	s.Compact()
	_, err = c.NetworkingV1().NetworkPolicies("shop").List(t.Context(), old)
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
}

func TestRestoredServerHasEarlierState(t *testing.T) {
	s := apiserver.Start(t, apiserver.Config{})
	c := client(t, s)
	addNamespace(t, c)
	before := addPolicy(t, c, "first")
	snapshot := s.Snapshot()
	names, snapshotRevision := policies(t, c)
	require.Equal(t, []string{"first"}, names)

	require.NoError(t, c.NetworkingV1().NetworkPolicies("shop").Delete(t.Context(), "first", metav1.DeleteOptions{}))
	for i := range 100 { // more changes than those of a server that starts
		addPolicy(t, c, fmt.Sprint("later-", i))
	}
	_, changedRevision := policies(t, c)
	require.Greater(t, changedRevision, snapshotRevision)

	for range 2 { // a snapshot can be restored again
		s.Restore(snapshot)
		names, revision := policies(t, c)
		require.Equal(t, []string{"first"}, names)
		require.Less(t, revision, changedRevision)
		after, err := c.NetworkingV1().NetworkPolicies("shop").Get(t.Context(), "first", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, before.UID, after.UID)
		require.Equal(t, before.ResourceVersion, after.ResourceVersion)
		addPolicy(t, c, "other")
	}
}

func TestUserHasTheRightsOfRoles(t *testing.T) {
	s := apiserver.Start(t, apiserver.Config{RBAC: true})
	admin := client(t, s)
	addNamespace(t, admin)
	node, err := kubernetes.NewForConfig(s.RESTFor("node-1"))
	require.NoError(t, err)
	list := func() error {
		_, err := node.NetworkingV1().NetworkPolicies("").List(t.Context(), metav1.ListOptions{})
		return err
	}
	require.True(t, apierrors.IsForbidden(list()), "%v", list())

	_, err = admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"list"}, APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "node-1"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return list() == nil }, waitTimeout, 10*time.Millisecond)
	_, err = node.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
}

func TestKindsAreServedAfterApply(t *testing.T) {
	s := apiserver.Start(t, apiserver.Config{})
	c, err := dynamic.NewForConfig(s.REST())
	require.NoError(t, err)
	tiers := c.Resource(schema.GroupVersionResource{Group: "projectcalico.org", Version: "v3", Resource: "tiers"})
	cluster := c.Resource(schema.GroupVersionResource{
		Group: "policy.networking.k8s.io", Version: "v1alpha2", Resource: "clusternetworkpolicies",
	})
	for _, kind := range []dynamic.ResourceInterface{tiers, cluster} {
		_, err := kind.List(t.Context(), metav1.ListOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
	}
	s.ApplyCRDs(append(apiserver.CalicoCRDs(), apiserver.PolicyCRD(t, apiserver.Standard))...)
	for _, kind := range []dynamic.ResourceInterface{tiers, cluster} {
		_, err := kind.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
	}
	tier := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "projectcalico.org/v3", "kind": "Tier", "metadata": map[string]any{"name": "security"},
		"spec": map[string]any{"order": int64(100), "unknown": "kept"},
	}}
	_, err = tiers.Create(t.Context(), tier, metav1.CreateOptions{})
	require.NoError(t, err)
	stored, err := tiers.Get(t.Context(), "security", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, tier.Object["spec"], stored.Object["spec"])

	s.ApplyCRDs(apiserver.PolicyCRD(t, apiserver.Experimental)) // an update
}

// An etcd alone, and a proxy of it, are healthy at start and after Restart, as processes of their
// own.
func TestEtcdAloneAndItsProxy(t *testing.T) {
	etcd := apiserver.StartEtcd(t)
	proxy := etcd.Proxy()
	require.NotEqual(t, etcd.URL, proxy.URL)
	require.NotEqual(t, etcd.PID(), proxy.PID())
	before := etcd.PID()
	etcd.Restart()
	require.NotEqual(t, before, etcd.PID())
	proxy.Restart()
	require.NotEqual(t, before, proxy.PID())
}
