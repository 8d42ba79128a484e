// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/datastore/kubernetes/internal/apiserver"
	"github.com/wayleave/wayleave/datastore/kubernetes/report"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

const networkPolicies = "networkpolicies.networking.k8s.io"

// realCluster is a real API server, with the clients of its administrator.
type realCluster struct {
	*testing.T
	*apiserver.Server
	client  clientset.Interface
	dynamic dynamic.Interface
}

// The Reporters have the rights of the package's doc, and no others. Each subtest has its own Nodes
// and its own Lease, and depends on no other subtest.
func TestReporterOnServer(t *testing.T) {
	server := apiserver.Start(t, apiserver.Config{RBAC: true})
	c := &realCluster{
		T: t, Server: server,
		client: clientset.NewForConfigOrDie(server.REST()), dynamic: dynamic.NewForConfigOrDie(server.REST()),
	}
	c.grant("reporter", rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:authenticated"}, documentedRights(t))
	c.ApplyCRDs(apiserver.PolicyCRD(t, apiserver.Experimental))
	_, err := c.client.CoreV1().Namespaces().Create(
		t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{},
	)
	require.NoError(t, err)
	crd := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(report.CRD()), &crd.Object))
	run := func(name string, test func(*realCluster)) {
		t.Run(name, func(t *testing.T) {
			sub := *c
			sub.T = t
			test(&sub)
		})
	}
	run("reports wait for their CRD", func(c *realCluster) { reportsWaitForCRD(c, crd) })
	c.ApplyCRDs(crd)
	run("events are in both groups and counted up", eventsAreCountedUp)
	run("conditions of others are kept", conditionsOfOthersAreKept)
	run("removed condition and annotation are restored", removedConditionIsRestored)
	run("deleted report is restored", deletedReportIsRestored)
	run("applied counts two nodes", appliedCountsTwoNodes)
	run("problems of a source are on its objects", sourceProblemsAreOnObjects)
	run("writes continue after a restart of the server", writesContinueAfterRestart)
}

// right is a line of the table of rights in doc.go: group, resources, verbs and namespace.
var right = regexp.MustCompile(`(?m)^//\t(\S+) +(\S+) +([a-z, ]+?)(?: \(in (\S+)\))?$`)

// documentedRights returns the rights of doc.go, by namespace; "" is all of them.
func documentedRights(t *testing.T) map[string][]rbacv1.PolicyRule {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "# Rights")
	require.True(t, found)
	rights := map[string][]rbacv1.PolicyRule{}
	for _, m := range right.FindAllStringSubmatch(table, -1) {
		rights[m[4]] = append(rights[m[4]], rbacv1.PolicyRule{
			APIGroups: []string{strings.Trim(m[1], `"`)}, Resources: []string{m[2]}, Verbs: strings.Split(m[3], ", "),
		})
	}
	require.Len(t, rights, 2, "for the cluster and for kube-system")
	return rights
}

// grant grants rights, by namespace, to a subject.
func (c *realCluster) grant(name string, subject rbacv1.Subject, rights map[string][]rbacv1.PolicyRule) {
	c.Helper()
	rbac, meta, subjects := c.client.RbacV1(), metav1.ObjectMeta{Name: name}, []rbacv1.Subject{subject}
	for namespace, rules := range rights {
		var err error
		if namespace == "" {
			_, err = rbac.ClusterRoles().Create(
				c.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
			require.NoError(c, err)
			_, err = rbac.ClusterRoleBindings().Create(c.Context(), &rbacv1.ClusterRoleBinding{
				ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name},
			}, metav1.CreateOptions{})
			require.NoError(c, err)
			continue
		}
		_, err = rbac.Roles(namespace).Create(
			c.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		require.NoError(c, err)
		_, err = rbac.RoleBindings(namespace).Create(c.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name},
		}, metav1.CreateOptions{})
		require.NoError(c, err)
	}
}

// reporter returns a Reporter with the rights of its node. Its Lease is that of the subtest.
func (c *realCluster) reporter(node string, change ...func(*report.Config)) *report.Reporter {
	c.Helper()
	user := c.RESTFor(node)
	cfg := report.Config{
		Client: clientset.NewForConfigOrDie(user), Dynamic: dynamic.NewForConfigOrDie(user), Node: node, Version: "v9",
		LeaseName: strings.ReplaceAll(strings.ToLower(c.Name()[strings.Index(c.Name(), "/")+1:]), "_", "-"),
		Interval:  time.Second, Logger: slog.New(slog.NewTextHandler(c.Output(), nil)).With("node", node),
	}
	for _, apply := range change {
		apply(&cfg)
	}
	r, err := report.New(cfg)
	require.NoError(c, err)
	return r
}

// run runs a Reporter until the test or stop ends it. Before the test ends, its last requests must
// succeed.
func (c *realCluster) run(r *report.Reporter) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.ErrorIs(c, <-ended, context.Canceled)
	})
	c.Cleanup(func() {
		// The server may have a write whose response the Reporter has not received.
		assert.EventuallyWithT(c, func(t *assert.CollectT) {
			assert.Empty(t, r.Stats().Errors)
		}, 30*time.Second, 20*time.Millisecond)
		stop()
	})
	return stop
}

// eventually waits until a check passes.
func (c *realCluster) eventually(check func(t *assert.CollectT)) {
	c.Helper()
	require.EventuallyWithT(c, check, 30*time.Second, 20*time.Millisecond)
}

// addNode adds a Node until the subtest ends.
func (c *realCluster) addNode(node *corev1.Node) *corev1.Node {
	c.Helper()
	nodes := c.client.CoreV1().Nodes()
	made, err := nodes.Create(c.Context(), node, metav1.CreateOptions{})
	require.NoError(c, err)
	c.Cleanup(func() {
		assert.NoError(c, nodes.Delete(context.Background(), node.Name, metav1.DeleteOptions{}))
	})
	return made
}

// addPolicy adds a NetworkPolicy and returns it with its identity in hooks of the Source.
func (c *realCluster) addPolicy(name string) (convert.Object, *networkingv1.NetworkPolicy) {
	c.Helper()
	made, err := c.client.NetworkingV1().NetworkPolicies("shop").Create(
		c.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{},
	)
	require.NoError(c, err)
	o := object("NetworkPolicy", name)
	o.UID = made.UID
	return o, made
}

// addClusterPolicy adds a ClusterNetworkPolicy with an egress rule to these peers.
func (c *realCluster) addClusterPolicy(name string, to map[string]any) (convert.Object, *unstructured.Unstructured) {
	c.Helper()
	o := clusterPolicy(name)
	o.Object["spec"] = map[string]any{
		"tier": "Admin", "priority": int64(1), "subject": map[string]any{"namespaces": map[string]any{}},
		"egress": []any{map[string]any{"action": "Accept", "to": []any{to}}},
	}
	o.SetUID("")
	o.SetResourceVersion("")
	made, err := c.dynamic.Resource(cnps).Create(c.Context(), o, metav1.CreateOptions{})
	require.NoError(c, err)
	id := object("ClusterNetworkPolicy", name)
	id.UID = made.GetUID()
	return id, made
}

// requireEvents waits until the objects of these names have exactly these Events in both groups.
// Each Event has the form "namespace Kind/name UID Reason xCount note", with a note of at most 40
// bytes.
func (c *realCluster) requireEvents(names []string, want ...string) {
	c.Helper()
	line := func(namespace string, of corev1.ObjectReference, reason string, count int32, note string) string {
		return fmt.Sprintf("%s %s/%s %s %s x%d %.40s", namespace, of.Kind, of.Name, of.UID, reason, count, note)
	}
	slices.Sort(want)
	c.eventually(func(t *assert.CollectT) {
		core, err := c.client.CoreV1().Events("").List(c.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		var found []string
		for _, e := range core.Items {
			if slices.Contains(names, e.InvolvedObject.Name) {
				require.Equal(t, "wayleave Warning", e.Source.Component+" "+e.Type)
				found = append(found, line(e.Namespace, e.InvolvedObject, e.Reason, e.Count, e.Message))
			}
		}
		slices.Sort(found)
		require.Equal(t, want, found)
		events, err := c.client.EventsV1().Events("").List(c.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		found = nil
		for _, e := range events.Items {
			if slices.Contains(names, e.Regarding.Name) {
				require.Equal(t, "wayleave Warning", e.ReportingController+" "+e.Type)
				found = append(found, line(e.Namespace, e.Regarding, e.Reason, e.DeprecatedCount, e.Note))
			}
		}
		slices.Sort(found)
		require.Equal(t, want, found)
	})
}

// requireConditions waits until a policy has these conditions, as "type=status reason generation:
// message".
func (c *realCluster) requireConditions(name string, want ...string) {
	c.Helper()
	c.eventually(func(t *assert.CollectT) {
		live, err := c.dynamic.Resource(cnps).Get(c.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		list, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
		require.NoError(t, err)
		var found []string
		for _, entry := range list {
			m := entry.(map[string]any)
			found = append(found, fmt.Sprintf(
				"%v=%v %v %v: %v", m["type"], m["status"], m["reason"], m["observedGeneration"], m["message"],
			))
		}
		require.Equal(t, want, found)
	})
}

// requireReport waits until the report of a node has this status, except for its time.
func (c *realCluster) requireReport(node string, want report.NodeStatus) (live *unstructured.Unstructured) {
	c.Helper()
	c.eventually(func(t *assert.CollectT) {
		var err error
		live, err = c.dynamic.Resource(report.Resource()).Get(c.Context(), node, metav1.GetOptions{})
		require.NoError(t, err)
		var status report.NodeStatus
		require.NoError(t, apiruntime.DefaultUnstructuredConverter.FromUnstructured(
			live.Object["status"].(map[string]any), &status))
		require.False(t, status.Updated.IsZero())
		status.Updated = metav1.Time{}
		require.Equal(t, want, status)
	})
	return live
}

// Without the CRD, Events are written but reports are not. Reports are written once the CRD exists.
func reportsWaitForCRD(c *realCluster, crd *unstructured.Unstructured) {
	c.addNode(node("early"))
	r := c.reporter("early")
	stop := c.run(r)
	c.eventually(func(t *assert.CollectT) {
		require.ErrorIs(t, r.Stats().Errors[report.PartReport], report.ErrNotInstalled)
	})
	_, err := report.Applied(c.Context(), c.dynamic, networkPolicies, "1")
	require.ErrorIs(c, err, report.ErrNotInstalled)
	o, _ := c.addPolicy("early")
	r.Problems(o, problem(o, "spec", "odd", false))
	c.requireEvents([]string{"early"}, fmt.Sprintf("shop NetworkPolicy/early %s RuleClosed x1 spec: odd", o.UID))

	c.ApplyCRDs(crd)
	stop()
	r.SkipReportPause() // of 10 minutes and more
	c.run(r)
	c.requireReport("early", report.NodeStatus{
		Version: "v9", Faulty: 1, Faults: []report.Fault{{Key: "NetworkPolicy shop/early", Reason: "spec: odd"}},
	})
}

// Each problem has one Event in core/v1 and events.k8s.io/v1. A problem that occurs again increases
// the count of its Event. A new leader does not.
func eventsAreCountedUp(c *realCluster) {
	c.addNode(node("counter"))
	pod, err := c.client.CoreV1().Pods("shop").Create(c.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "counted"},
		Spec:       corev1.PodSpec{NodeName: "counter", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	web, _ := c.addPolicy("counted")
	deny, cnp := c.addClusterPolicy("counted", map[string]any{"namespaces": map[string]any{}})
	problems := problem(web, "spec.x", strings.Repeat("é", 1500), true)
	r := c.reporter("counter")
	stop := c.run(r)
	r.Problems(web, problems)
	r.Converted(deny, cnp.GetGeneration(), problem(deny, "spec.y", "odd", false))
	r.Rejected(policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "knp.default.graph"}, errors.New("invalid"))
	r.Endpoints(slices.Values([]dataplane.EndpointChange{endpoint("counted", errors.New("no memory"))}))

	names := []string{"counted", "graph"}
	want := []string{
		fmt.Sprintf("default ClusterNetworkPolicy/counted %s RuleClosed x1 spec.y: odd", deny.UID),
		"shop NetworkPolicy/graph  Rejected x1 invalid", // its UID needs a right to read
		fmt.Sprintf("shop NetworkPolicy/counted %s Rejected x1 spec.x: %s", web.UID, strings.Repeat("é", 32)),
		fmt.Sprintf("shop Pod/counted %s NotProgrammed x1 no memory", pod.UID),
	}
	c.requireEvents(names, want...)
	r.Problems(web, nil)
	r.Problems(web, problems)
	for i := range want {
		if strings.Contains(want[i], "spec.x") {
			want[i] = strings.Replace(want[i], "x1", "x2", 1)
		}
	}
	c.requireEvents(names, want...)

	stop()
	r = c.reporter("counter")
	c.run(r)
	r.Problems(web, problems)
	c.eventually(func(t *assert.CollectT) { require.True(t, r.Stats().Leading, "the Lease is free") })
	last, _ := c.addPolicy("last")
	r.Problems(last, problem(last, "spec", "odd", false))
	c.requireEvents([]string{"last"}, fmt.Sprintf("shop NetworkPolicy/last %s RuleClosed x1 spec: odd", last.UID))
	c.requireEvents(names, want...)
	require.Zero(c, r.Stats().Failed)
}

// The last condition of another controller stays.
func conditionsOfOthersAreKept(c *realCluster) {
	c.addNode(node("judge"))
	o, live := c.addClusterPolicy("kept", map[string]any{"namespaces": map[string]any{}})
	audit := func(status string, others ...any) {
		condition := foreign(status)
		delete(condition, "novel") // the CRD prunes it
		live.Object["status"] = map[string]any{"conditions": append([]any{condition}, others...)}
		var err error
		live, err = c.dynamic.Resource(cnps).UpdateStatus(c.Context(), live, metav1.UpdateOptions{})
		require.NoError(c, err)
	}
	audit("True")
	r := c.reporter("judge")
	c.run(r)
	r.Converted(o, 1, problem(o, "spec.egress", "odd", false))
	c.requireConditions("kept", "Audited=True Weekly 1: ", "Accepted=False RuleClosed 1: spec.egress: odd")

	var err error
	live, err = c.dynamic.Resource(cnps).Get(c.Context(), "kept", metav1.GetOptions{})
	require.NoError(c, err)
	list, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
	require.NoError(c, err)
	audit("False", list[1])
	r.Converted(o, 1, nil)
	c.requireConditions("kept", "Audited=False Weekly 1: ", "Accepted=True Accepted 1: ")
}

// The Node has its condition and annotation besides those of other writers. They are written again
// after they are removed.
func removedConditionIsRestored(c *realCluster) {
	n := node("ready")
	n.Annotations = map[string]string{"other": "x"}
	n = c.addNode(n)
	nodes := c.client.CoreV1().Nodes()
	others := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}
	n.Status.Conditions = []corev1.NodeCondition{
		others, {Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated"},
	}
	_, err := nodes.UpdateStatus(c.Context(), n, metav1.UpdateOptions{})
	require.NoError(c, err)
	requireNode := func(conditions, annotations int) (live *corev1.Node) {
		c.eventually(func(t *assert.CollectT) {
			live, err = nodes.Get(c.Context(), "ready", metav1.GetOptions{ResourceVersion: "0"}) // as the Reporter
			require.NoError(t, err)
			require.Len(t, live.Status.Conditions, conditions)
			require.Len(t, live.Annotations, annotations)
		})
		return live
	}
	requireReady := func() (live *corev1.Node) {
		c.eventually(func(t *assert.CollectT) {
			live, err = nodes.Get(c.Context(), "ready", metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, map[string]string{"other": "x", report.AnnotationReady: "true"}, live.Annotations)
			require.Len(t, live.Status.Conditions, 2)
			require.Contains(t, live.Status.Conditions, others)
			found := networkOf(live)
			require.NotNil(t, found)
			require.Equal(t, "False WayleaveReady", string(found.Status)+" "+found.Reason)
		})
		return live
	}
	requireNode(2, 1)
	r := c.reporter("ready")
	stop := c.run(r)
	r.Ready()
	live := requireReady()
	// Otherwise stop may cancel a request that the server has processed.
	c.eventually(func(t *assert.CollectT) { require.EqualValues(t, 2, r.Stats().Node) })

	stop()
	delete(live.Annotations, report.AnnotationReady)
	live, err = nodes.Update(c.Context(), live, metav1.UpdateOptions{})
	require.NoError(c, err)
	live.Status.Conditions = []corev1.NodeCondition{others}
	_, err = nodes.UpdateStatus(c.Context(), live, metav1.UpdateOptions{})
	require.NoError(c, err)
	requireNode(1, 1)
	c.run(r) // it checks the Node at once, and otherwise each minute or two
	requireReady()
	c.eventually(func(t *assert.CollectT) { require.EqualValues(t, 4, r.Stats().Node) })
}

// The Node owns its report. The CRD accepts a report of maximum size. A deleted report is created
// again.
func deletedReportIsRestored(c *realCluster) {
	n := c.addNode(node("owner"))
	r := c.reporter("owner", func(cfg *report.Config) {
		cfg.Revisions = func() map[string]string { return map[string]string{networkPolicies: "7", "pods": "8"} }
		cfg.Barrier = noBarrier
	})
	c.run(r)
	r.Ready()
	r.Endpoints(slices.Values([]dataplane.EndpointChange{
		endpoint("up", nil), endpoint("down", errors.New("no memory")),
	}))
	want := report.NodeStatus{
		Ready: true, Version: "v9", Applied: map[string]string{networkPolicies: "7", "pods": "8"},
		Endpoints: 2, Failing: 1, Faulty: report.MaxFaults,
		Faults: []report.Fault{{Key: "Pod shop/down", Reason: "no memory"}},
	}
	long := strings.Repeat("a", 253) // the longest name
	for i := range report.MaxFaults {
		o := object("NetworkPolicy", fmt.Sprintf("%s%02d", long[2:], i))
		r.Problems(o, []error{errors.New(strings.Repeat("x", 2000))})
		if i < report.MaxFaults-1 {
			want.Faults = append(want.Faults,
				report.Fault{Key: "NetworkPolicy shop/" + o.Name, Reason: strings.Repeat("x", 253) + "..."})
		}
	}
	first := c.requireReport("owner", want)
	owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "owner", UID: n.UID}}
	require.Equal(c, owners, first.GetOwnerReferences())

	reports := c.dynamic.Resource(report.Resource())
	require.NoError(c, reports.Delete(c.Context(), "owner", metav1.DeleteOptions{}))
	r.Endpoints(slices.Values([]dataplane.EndpointChange{endpoint("up", nil)}))
	want.Endpoints, want.Failing = 1, 0
	want.Faults = append(want.Faults[1:], report.Fault{
		Key: "NetworkPolicy shop/" + long[2:] + "19", Reason: want.Faults[1].Reason,
	})
	second := c.requireReport("owner", want)
	require.NotEqual(c, first.GetUID(), second.GetUID())
	require.Equal(c, owners, second.GetOwnerReferences())
	c.eventually(func(t *assert.CollectT) { require.Empty(t, r.Stats().Errors) })
}

// Applied compares the reports of two nodes with the resourceVersions of the server.
func appliedCountsTwoNodes(c *realCluster) {
	_, before := c.addPolicy("before")
	_, after := c.addPolicy("after")
	var second atomic.Value // the revision of the second node
	second.Store(before.ResourceVersion)
	for name, revision := range map[string]func() string{
		"n1": func() string { return after.ResourceVersion },
		"n2": func() string { return second.Load().(string) },
	} {
		c.addNode(node(name))
		r := c.reporter(name, func(cfg *report.Config) {
			cfg.Revisions = func() map[string]string { return map[string]string{networkPolicies: revision()} }
			cfg.Barrier = noBarrier
		})
		c.run(r)
		r.Ready()
	}
	requireProgress := func(p *networkingv1.NetworkPolicy, want string, complete bool, states ...report.NodeState) {
		c.eventually(func(t *assert.CollectT) {
			progress, err := report.Applied(c.Context(), c.dynamic, networkPolicies, p.ResourceVersion)
			require.NoError(t, err)
			require.Equal(t, want, progress.String())
			require.Equal(t, complete, progress.Complete())
			for i, state := range states {
				require.Equal(t, state, progress.Nodes[i].State)
			}
		})
	}
	requireProgress(before, "2/2", true, report.NodeApplied, report.NodeApplied)
	requireProgress(after, "1/2", false, report.NodeApplied, report.NodeBehind)
	second.Store(after.ResourceVersion)
	requireProgress(after, "2/2", true, report.NodeApplied, report.NodeApplied)
	c.addNode(node("n3"))
	requireProgress(after, "2/3", false, report.NodeApplied, report.NodeApplied, report.NodeSilent)
}

// startSource runs a Source and a graph, as an agent does, with the hooks of a Reporter.
func (c *realCluster) startSource(r *report.Reporter, user string) *calcgraph.Runner {
	c.Helper()
	cfg := c.RESTFor(user)
	sourceHooks, graphHooks := hooks(r)
	source, err := kubernetes.New(kubernetes.Config{
		Client: clientset.NewForConfigOrDie(cfg), Dynamic: dynamic.NewForConfigOrDie(cfg), Node: user,
		Hooks: sourceHooks,
	})
	require.NoError(c, err)
	graph, err := calcgraph.New(calcgraph.Config{Node: user, Hooks: graphHooks})
	require.NoError(c, err)
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph: graph, Out: func(context.Context, dataplane.Batch) error { return nil },
	})
	require.NoError(c, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	var parts sync.WaitGroup
	parts.Go(func() { _ = runner.Run(ctx) })
	parts.Go(func() { _ = source.Run(ctx, runner) })
	c.Cleanup(func() { cancel(); parts.Wait() })
	within, stopWaiting := context.WithTimeout(c.Context(), 30*time.Second)
	defer stopWaiting()
	require.NoError(c, source.Barrier(within), "%+v", source.Status())
	return runner
}

// The problems of a policy in the API are in its conditions and Events, until the policy is edited
// or deleted.
func sourceProblemsAreOnObjects(c *realCluster) {
	c.ApplyCRDs(apiserver.CalicoCRDs()...)
	c.grant("source", rbacv1.Subject{Kind: rbacv1.UserKind, Name: "agent"}, map[string][]rbacv1.PolicyRule{"": {{
		APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll},
		Verbs: []string{"get", "list", "watch"},
	}}})
	c.addNode(node("agent"))
	web, _ := c.addPolicy("rejected") // the Source reads it before the graph receives the invalid policy
	r := c.reporter("agent")
	c.run(r)
	runner := c.startSource(r, "agent")
	requireObjects := func(want int) {
		c.Helper()
		c.eventually(func(t *assert.CollectT) { require.Equal(t, want, r.Stats().Objects) })
	}

	dns, _ := c.addClusterPolicy("dns", map[string]any{"domainNames": []any{"example.com"}})
	const closed = "spec.egress[0].to[0].domainNames: not supported by Wayleave"
	c.requireConditions("dns", "Accepted=False RuleClosed 1: "+closed)
	dnsEvent := fmt.Sprintf("default ClusterNetworkPolicy/dns %s RuleClosed x1 %.40s", dns.UID, closed)
	c.requireEvents([]string{"dns"}, dnsEvent)

	gnps := schema.GroupVersionResource{Group: "projectcalico.org", Version: "v3", Resource: "globalnetworkpolicies"}
	future, err := c.dynamic.Resource(gnps).Create(c.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "projectcalico.org/v3", "kind": "GlobalNetworkPolicy",
		"metadata": map[string]any{"name": "future"},
		"spec": map[string]any{
			"selector": "all()", "ingress": []any{map[string]any{"action": "Allow", "novel": "narrower"}},
		},
	}}, metav1.CreateOptions{})
	require.NoError(c, err)
	c.requireEvents([]string{"future"}, fmt.Sprintf(
		"default GlobalNetworkPolicy/future %s RuleClosed x1 spec.ingress[0].novel: unknown field", future.GetUID()))

	// The Source's policies are valid, so the graph receives an invalid policy with the key of an
	// existing one.
	invalid := &policy.Policy{Namespace: "shop", Name: "knp.default.rejected", Selector: "(("}
	require.NoError(c, runner.Update(c.Context(), []policy.Update{{Key: invalid.Key(), Resource: invalid}}))
	c.requireEvents([]string{"rejected"}, fmt.Sprintf(
		"shop NetworkPolicy/rejected %s Rejected x1 policy: invalid Policy/shop/knp.default.", web.UID))
	requireObjects(3)

	_, err = c.dynamic.Resource(cnps).Patch(c.Context(), "dns", types.JSONPatchType, []byte(`[
		{"op": "replace", "path": "/spec/egress/0/to", "value": [{"networks": ["192.0.2.0/24"]}]}
	]`), metav1.PatchOptions{})
	require.NoError(c, err)
	c.requireConditions("dns", "Accepted=True Accepted 2: ")
	c.requireEvents([]string{"dns"}, dnsEvent)
	requireObjects(2)

	require.NoError(c, c.dynamic.Resource(gnps).Delete(c.Context(), "future", metav1.DeleteOptions{}))
	requireObjects(1)
}

// Writes that fail while the server is down are retried. The Reporter is not restarted.
func writesContinueAfterRestart(c *realCluster) {
	c.addNode(node("patient"))
	o, _ := c.addPolicy("patient")
	deny, _ := c.addClusterPolicy("patient", map[string]any{"namespaces": map[string]any{}})
	r := c.reporter("patient")
	c.run(r)
	c.requireReport("patient", report.NodeStatus{Version: "v9"})
	c.eventually(func(t *assert.CollectT) { require.True(t, r.Stats().Leading) })
	c.Kill()
	r.Ready()
	c.eventually(func(t *assert.CollectT) {
		require.Contains(t, r.Stats().Errors, report.PartNode)
		require.Contains(t, r.Stats().Errors, report.PartReport)
	})
	c.Restart()
	c.requireReport("patient", report.NodeStatus{Ready: true, Version: "v9"})
	c.eventually(func(t *assert.CollectT) {
		live, err := c.client.CoreV1().Nodes().Get(c.Context(), "patient", metav1.GetOptions{})
		require.NoError(t, err)
		require.NotNil(t, networkOf(live))
	})
	r.Problems(o, problem(o, "spec", "odd", false))
	r.Converted(deny, 1, nil)
	c.requireEvents([]string{"patient"}, fmt.Sprintf("shop NetworkPolicy/patient %s RuleClosed x1 spec: odd", o.UID))
	c.requireConditions("patient", "Accepted=True Accepted 1: ")
	c.eventually(func(t *assert.CollectT) { require.Empty(t, r.Stats().Errors) })
}
