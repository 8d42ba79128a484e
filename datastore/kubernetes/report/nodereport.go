// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	_ "embed" // for crd
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

//go:embed crd.yaml
var crd string

// CRD returns the CustomResourceDefinition of NodeReports, as a YAML manifest.
func CRD() string { return crd }

// Resource returns the resource of NodeReports, nodereports.wayleave.dev.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "wayleave.dev", Version: "v1alpha1", Resource: "nodereports"}
}

// ErrNotInstalled means that the CRD of NodeReports is not installed. Check for it with errors.Is.
var ErrNotInstalled = errors.New("report: the CRD nodereports.wayleave.dev is not installed")

// MaxFaults is the maximum number of faults in the report of a node.
const MaxFaults = 20

const (
	maxReason  = 256              // length of the reason of a fault in bytes
	heartbeat  = 4 * time.Minute  // between two writes without a change; up to a quarter is added at random
	crdMissing = 10 * time.Minute // between two attempts without a CRD; up to a half is added at random
)

// NodeStatus is the status of a NodeReport.
type NodeStatus struct {
	// Ready means that the first complete state is in the kernel.
	Ready bool `json:"ready"`
	// Version of the agent.
	Version string `json:"version,omitempty"`
	// Applied has a resourceVersion for each kind. All changes of the kind up to this version are
	// in the kernel, except changes of objects at fault.
	Applied map[string]string `json:"applied,omitempty"`
	// Endpoints counts the endpoints of the node. The field Failing counts the endpoints that
	// cannot be programmed.
	Endpoints int64 `json:"endpoints"`
	Failing   int64 `json:"failing"`
	// Faulty counts the objects of the cluster that have no effect, or of which only a part is
	// understood.
	Faulty int64 `json:"faulty"`
	// Faults has the first MaxFaults faults: the faults of endpoints, sorted by Key, then the
	// faults of objects, sorted by Key.
	Faults []Fault `json:"faults,omitempty"`
	// Updated is when the report was written, by the clock of the node.
	Updated metav1.Time `json:"updated"`
}

// Fault is an object at fault.
type Fault struct {
	// Key is kind and name, as in "NetworkPolicy shop/web".
	Key string `json:"key"`
	// Reason is the cause, as text.
	Reason string `json:"reason"`
}

func (s NodeStatus) equal(o NodeStatus) bool {
	return s.Ready == o.Ready && s.Version == o.Version && maps.Equal(s.Applied, o.Applied) &&
		s.Endpoints == o.Endpoints && s.Failing == o.Failing && s.Faulty == o.Faulty &&
		slices.Equal(s.Faults, o.Faults)
}

// reportWriter has the last write of the node's report. It belongs to the goroutine of Run.
type reportWriter struct {
	live    *unstructured.Unstructured // as the server has it; nil if not known
	status  NodeStatus                 // of live
	next    time.Time                  // of the earliest write
	refresh time.Time                  // of the latest write
	retry   backoff
}

// writeReport writes the report of the node if it has changed or is old. It returns the time until
// the next check.
func (r *Reporter) writeReport(ctx context.Context) (again time.Duration) {
	w := &r.report
	if pause := time.Until(w.next); pause > 0 {
		return pause
	}
	status := r.nodeStatus()
	if refresh := time.Until(w.refresh); w.live != nil && status.equal(w.status) && refresh > 0 {
		return refresh
	}
	sending, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	live, err := r.sendReport(sending, status)
	r.recordResult(ctx, PartReport, err)
	pause := w.retry.after(err, r.cfg.Interval, 5*time.Minute)
	if errors.Is(err, ErrNotInstalled) {
		pause = wait.Jitter(crdMissing, 0.5)
	}
	w.next = time.Now().Add(pause)
	if err != nil {
		w.live = nil // it is read again
		return pause
	}
	r.count(func(s *Stats) { s.Reports++ })
	again = wait.Jitter(heartbeat, 0.25)
	w.live, w.status, w.refresh = live, status, time.Now().Add(again)
	return again
}

// sendReport updates the report, and creates it if there is none.
func (r *Reporter) sendReport(ctx context.Context, status NodeStatus) (*unstructured.Unstructured, error) {
	reports := r.cfg.Dynamic.Resource(Resource())
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("report: node report: %w", err)
	}
	live := r.report.live
	if live == nil {
		if live, err = reports.Get(ctx, r.cfg.Node, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return r.createReport(ctx, reports, content)
		}
		if err != nil {
			return nil, fmt.Errorf("report: get node report: %w", err)
		}
	}
	live = live.DeepCopy()
	live.Object["status"] = content
	live, err = reports.Update(ctx, live, metav1.UpdateOptions{FieldManager: component})
	if err != nil {
		return nil, fmt.Errorf("report: update node report: %w", err)
	}
	return live, nil
}

// createReport creates the report. The Node owns it, so that it goes with the Node.
func (r *Reporter) createReport(
	ctx context.Context, reports dynamic.ResourceInterface, status map[string]any,
) (*unstructured.Unstructured, error) {
	node, err := r.cfg.Client.CoreV1().Nodes().Get(ctx, r.cfg.Node, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("report: get Node %s: %w", r.cfg.Node, err)
	}
	made := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	made.SetAPIVersion(Resource().GroupVersion().String())
	made.SetKind("NodeReport")
	made.SetName(r.cfg.Node)
	made.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}})
	made, err = reports.Create(ctx, made, metav1.CreateOptions{FieldManager: component})
	if apierrors.IsNotFound(err) {
		return nil, ErrNotInstalled
	}
	if err != nil {
		return nil, fmt.Errorf("report: create node report: %w", err)
	}
	return made, nil
}

// nodeStatus returns the current status of the node.
func (r *Reporter) nodeStatus() NodeStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := NodeStatus{
		Ready: r.ready, Version: r.cfg.Version, Applied: maps.Clone(r.applied),
		Endpoints: int64(len(r.endpoints)), Updated: metav1.Now(),
	}
	var failing, faulty []Fault
	for key, why := range r.endpoints {
		if why != "" {
			failing = append(failing, Fault{originOf(key).String(), why})
		}
	}
	for id, o := range r.objects {
		if v := o.finding(); v.reason != "" {
			faulty = append(faulty, Fault{id.String(), v.text})
		}
	}
	s.Failing, s.Faulty = int64(len(failing)), int64(len(faulty))
	for _, faults := range [][]Fault{failing, faulty} {
		slices.SortFunc(faults, func(a, b Fault) int {
			return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Reason, b.Reason))
		})
		for _, f := range faults[:min(len(faults), MaxFaults-len(s.Faults))] {
			s.Faults = append(s.Faults, Fault{clip(f.Key, maxNote), clip(f.Reason, maxReason)})
		}
	}
	return s
}
