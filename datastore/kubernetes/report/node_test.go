// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wayleave/wayleave/datastore/kubernetes/report"
)

// networkOf returns the condition NetworkUnavailable of a Node; nil if it has none.
func networkOf(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeNetworkUnavailable {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// network returns the condition NetworkUnavailable of a Node, as "status reason", and its
// annotation.
func (c *cluster) network(t *testing.T, name string) (condition, annotation string) {
	live, err := c.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	if c := networkOf(live); c != nil {
		condition = string(c.Status) + " " + c.Reason
	}
	return condition, live.Annotations[report.AnnotationReady]
}

func (c *cluster) change(t *testing.T, name string, change func(*corev1.Node)) {
	live, err := c.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	change(live)
	_, err = c.client.CoreV1().Nodes().Update(t.Context(), live, metav1.UpdateOptions{})
	require.NoError(t, err)
	c.client.ClearActions()
}

func TestReadyNodeStaysReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.change(t, "n1", func(n *corev1.Node) {
			n.Annotations = map[string]string{"other": "x"}
			n.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated"},
			}
		})
		r, stop := c.start(t, "n1")
		wait(time.Hour)
		condition, _ := c.network(t, "n1")
		require.Equal(t, "True NoRouteCreated", condition, "Ready was not called")
		for range 3 {
			r.Ready()
		}
		synctest.Wait()
		check := func() {
			condition, annotation := c.network(t, "n1")
			require.Equal(t, "False WayleaveReady", condition)
			require.Equal(t, "true", annotation)
		}
		check()
		wait(time.Hour)
		require.EqualValues(t, 2, r.Stats().Node, "one for the annotation, one for the condition")
		gets := 0
		for _, a := range c.client.Actions() {
			if a.Matches("get", "nodes") {
				gets++
			}
		}
		require.LessOrEqual(t, gets, 62)

		c.change(t, "n1", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		})
		wait(2 * time.Minute)
		check()
		c.change(t, "n1", func(n *corev1.Node) {
			n.Annotations[report.AnnotationReady] = "false"
			networkOf(n).Status = corev1.ConditionTrue
		})
		wait(2 * time.Minute)
		check()
		require.EqualValues(t, 5, r.Stats().Node)
		c.change(t, "n1", func(n *corev1.Node) { networkOf(n).Reason = "RouteCreated" })
		wait(time.Hour)
		condition, _ = c.network(t, "n1")
		require.Equal(t, "False RouteCreated", condition, "no dispute about the reason")
		require.EqualValues(t, 5, r.Stats().Node)

		stop()
		live, err := c.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, corev1.ConditionFalse, networkOf(live).Status)
		require.Equal(t, "x", live.Annotations["other"])
		require.Len(t, live.Status.Conditions, 2)
	})
}

// A Node that does not exist gets the condition after it is created.
func TestLaterNodeGetsCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		r, _ := c.start(t, "n3")
		r.Ready()
		wait(time.Hour)
		require.NotContains(t, r.Stats().Errors, report.PartNode)
		require.Contains(t, r.Stats().Errors, report.PartReport, "a report without its owner would never be deleted")
		_, err := c.client.CoreV1().Nodes().Create(t.Context(), node("n3"), metav1.CreateOptions{})
		require.NoError(t, err)
		wait(10 * time.Minute)
		condition, _ := c.network(t, "n3")
		require.Equal(t, "False WayleaveReady", condition)
		c.nodeReport(t, "n3")
		require.Empty(t, r.Stats().Errors)
	})
}
