// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/wayleave/wayleave/datastore/kubernetes/report"
)

func TestReportIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		var revision atomic.Int64
		r, stop := c.start(t, "n1", func(cfg *report.Config) {
			cfg.Revisions = func() map[string]string {
				return map[string]string{"pods": fmt.Sprint(revision.Load() + 1)}
			}
			cfg.Barrier = noBarrier
		})
		r.Ready()
		wait(time.Minute)
		live, status := c.nodeReport(t, "n1")
		require.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "uid-n1"}},
			live.GetOwnerReferences())
		updated := status.Updated
		status.Updated = metav1.Time{}
		require.Equal(t, report.NodeStatus{Ready: true, Version: "v1", Applied: map[string]string{"pods": "1"}}, status)
		c.writes()

		wait(time.Hour)
		quiet := c.writes()["nodereports"]
		require.LessOrEqual(t, quiet, 15, "nothing changes")
		require.GreaterOrEqual(t, quiet, 12, "at least every five minutes")
		_, status = c.nodeReport(t, "n1")
		require.True(t, updated.Before(&status.Updated))

		for i := range 3600 {
			web := object("NetworkPolicy", "web")
			r.Problems(web, []error{errors.New("broken")}[:min(i, 1)])
			wait(time.Second)
		}
		require.LessOrEqual(t, c.writes()["nodereports"], 16, "the same problem is reported repeatedly")

		for range 3600 {
			revision.Add(1)
			wait(time.Second)
		}
		busy := c.writes()["nodereports"]
		require.LessOrEqual(t, busy, 360)
		require.Greater(t, busy, 290)
		_, status = c.nodeReport(t, "n1")
		require.Greater(t, status.Applied["pods"], "3580")
		stop()
		require.Zero(t, c.writes()["nodereports"], "the report of a stopped agent stays")
	})
}

// A revision is reported only after Barrier has returned for it.
func TestRevisionWaitsForBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		var revision atomic.Int64
		release := make(chan error)
		r, _ := c.start(t, "n1", func(cfg *report.Config) {
			cfg.Revisions = func() map[string]string { return map[string]string{"pods": fmt.Sprint(revision.Load())} }
			cfg.Barrier = func(ctx context.Context) error {
				select {
				case err := <-release:
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		applied := func() string {
			wait(time.Minute)
			_, status := c.nodeReport(t, "n1")
			return status.Applied["pods"]
		}
		revision.Store(5)
		require.Empty(t, applied())
		revision.Store(6)
		release <- nil
		require.Equal(t, "0", applied(), "the revision when Barrier was called")
		release <- errors.New("the pipeline ends")
		require.Equal(t, "0", applied())
		require.ErrorContains(t, r.Stats().Errors[report.PartBarrier], "ends")
		release <- nil
		require.Equal(t, "6", applied())
		require.Empty(t, r.Stats().Errors)
	})
}

func TestMissingCRDIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		missing := c.fail(&failure{verb: "*", resource: "nodereports", err: apierrors.NewGenericServerResponse(
			404, "get", report.Resource().GroupResource(), "", "not found", 0, true,
		)})
		r, _ := c.start(t, "n1")
		for range 3600 {
			r.Ready()
			r.Problems(object("NetworkPolicy", "web"), []error{fmt.Errorf("broken %d", time.Now().Unix())})
			wait(time.Second)
		}
		require.LessOrEqual(t, missing.failed(), 2*7)
		require.ErrorIs(t, r.Stats().Errors[report.PartReport], report.ErrNotInstalled)
		_, err := report.Applied(t.Context(), c.dynamic, "pods", "1")
		require.ErrorIs(t, err, report.ErrNotInstalled)
		missing.set(nil)
		wait(20 * time.Minute)
		c.nodeReport(t, "n1")
		require.Empty(t, r.Stats().Errors)
	})
}

// A report that was deleted or changed is written again.
func TestDeletedOrChangedReportIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		conflict := c.fail(&failure{verb: "update", resource: "nodereports", once: true})
		r, _ := c.start(t, "n1")
		wait(time.Minute)
		reports := c.dynamic.Resource(report.Resource())
		require.NoError(t, reports.Delete(t.Context(), "n1", metav1.DeleteOptions{}))
		wait(6 * time.Minute)
		c.nodeReport(t, "n1")
		conflict.set(apierrors.NewConflict(report.Resource().GroupResource(), "n1", nil))
		r.Ready()
		wait(time.Minute)
		_, status := c.nodeReport(t, "n1")
		require.True(t, status.Ready)
		require.Equal(t, 1, conflict.failed())
		require.Empty(t, r.Stats().Errors)
	})
}

func TestApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		wait(24 * time.Hour)
		now := time.Now()
		states := map[string]report.NodeState{}
		add := func(name string, want report.NodeState, status any) {
			states[name] = want
			n := clusterPolicy(name)
			n.SetAPIVersion("v1")
			n.SetKind("Node")
			_, err := c.dynamic.Resource(nodesOf).Create(t.Context(), n, metav1.CreateOptions{})
			require.NoError(t, err)
			if status == nil {
				return
			}
			n.SetAPIVersion("wayleave.dev/v1alpha1")
			n.SetKind("NodeReport")
			n.Object["status"] = status
			_, err = c.dynamic.Resource(report.Resource()).Create(t.Context(), n, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		status := func(ready bool, revision string, failing int, age time.Duration) map[string]any {
			return map[string]any{
				"ready": ready, "endpoints": int64(3), "failing": int64(failing), "faulty": int64(0),
				"applied": map[string]any{"pods": revision}, "updated": now.Add(-age).Format(time.RFC3339),
			}
		}
		add("equal", report.NodeApplied, status(true, "1000", 0, 0))
		add("longer", report.NodeApplied, status(true, "100000000000000000000000000000", 0, 10*time.Minute))
		add("lower", report.NodeBehind, status(true, "999", 0, 0))
		add("lowerandfaulty", report.NodeBehind, status(true, "999", 1, 0))
		add("notready", report.NodeBehind, status(false, "1000", 0, 0))
		add("nokind", report.NodeBehind, map[string]any{"ready": true, "updated": now.Format(time.RFC3339)})
		add("faulty", report.NodeFaulty, status(true, "1001", 1, 0))
		add("none", report.NodeSilent, nil)
		add("old", report.NodeSilent, status(true, "1000", 0, 16*time.Minute))
		add("nonumber", report.NodeSilent, status(true, "0x10", 0, 0))
		add("unreadable", report.NodeSilent, map[string]any{"ready": "yes"})
		add("text", report.NodeSilent, "text")
		require.NoError(t, c.dynamic.Resource(nodesOf).Delete(t.Context(), "text", metav1.DeleteOptions{}))
		delete(states, "text") // a report without a Node is ignored

		p, err := report.Applied(t.Context(), c.dynamic, "pods", "1000")
		require.NoError(t, err)
		got := map[string]report.NodeState{}
		for i, n := range p.Nodes {
			got[n.Node] = n.State
			require.True(t, i == 0 || p.Nodes[i-1].Node < n.Node)
		}
		require.Equal(t, states, got)
		require.Equal(t, "2/11", p.String())
		require.False(t, p.Complete())
		p, err = report.Applied(t.Context(), c.dynamic, "services", "1")
		require.NoError(t, err)
		require.Equal(t, "0/11", p.String())
		for _, revision := range []string{"", "0", "01", "-1", "latest"} {
			_, err = report.Applied(t.Context(), c.dynamic, "pods", revision)
			require.Error(t, err, revision)
		}
	})
}

// The schema has all fields of NodeStatus. The server would drop others.
func TestCRDHasTheFields(t *testing.T) {
	var crd struct {
		Metadata struct{ Name string }
		Spec     struct {
			Group, Scope string
			Versions     []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema struct {
						Properties struct{ Status schemaNode }
					}
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(report.CRD()), &crd))
	require.Equal(t, "nodereports.wayleave.dev", crd.Metadata.Name)
	require.Equal(t, "Cluster", crd.Spec.Scope)
	require.Equal(t, report.Resource().GroupVersion().String(), crd.Spec.Group+"/"+crd.Spec.Versions[0].Name)
	status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties.Status
	status.check(t, reflect.TypeFor[report.NodeStatus]())
	require.Equal(t, report.MaxFaults, status.Properties["faults"].MaxItems)
}

type schemaNode struct {
	Type       string
	MaxItems   int
	Items      *schemaNode
	Properties map[string]schemaNode
}

func (s schemaNode) check(t *testing.T, of reflect.Type) {
	require.Len(t, s.Properties, of.NumField(), of)
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		property, ok := s.Properties[name]
		require.True(t, ok, "%s.%s", of, name)
		want := map[reflect.Kind]string{
			reflect.Bool: "boolean", reflect.String: "string", reflect.Int64: "integer", reflect.Map: "object",
			reflect.Slice: "array", reflect.Struct: "string",
		}
		require.Equal(t, want[of.Field(i).Type.Kind()], property.Type, name)
		if property.Items != nil {
			property.Items.check(t, of.Field(i).Type.Elem())
		}
	}
}
