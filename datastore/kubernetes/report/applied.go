// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"
)

// NodeState is the progress of a node.
type NodeState string

// The states of a node.
const (
	// NodeApplied: the node has applied the version, and its report has no faults.
	NodeApplied NodeState = "applied"
	// NodeBehind: the node has a recent report, and has not applied the version yet.
	NodeBehind NodeState = "behind"
	// NodeFaulty: the node has applied the version, but its report has faults. The faults may
	// concern any objects, not only the changed one.
	NodeFaulty NodeState = "faulty"
	// NodeSilent: the node has no report, or the report cannot be read or is older than 15 minutes.
	NodeSilent NodeState = "silent"
)

// silentAfter is the age from which a report no longer counts. Three writes are missing then.
const silentAfter = 15 * time.Minute

// NodeProgress is the progress of one node.
type NodeProgress struct {
	// Node is the name of the node.
	Node string
	// State of the node.
	State NodeState
	// Status is the report of the node; the zero value if there is none.
	Status NodeStatus
}

// Progress has the nodes, and how many of them have applied a version.
type Progress struct {
	// Nodes of the cluster, sorted by name.
	Nodes []NodeProgress
	// Applied is the number of nodes in the state NodeApplied.
	Applied int
}

// Complete reports whether all nodes have applied the version. It reports false if there are no
// nodes.
func (p Progress) Complete() bool { return p.Applied == len(p.Nodes) && p.Applied > 0 }

// String returns two numbers, as in "2/3": how many nodes have applied the version, and how many
// nodes there are.
func (p Progress) String() string { return fmt.Sprintf("%d/%d", p.Applied, len(p.Nodes)) }

// Applied returns which nodes have applied a change of an object. The parameter kind names the kind
// of the object, for example "networkpolicies.networking.k8s.io". The parameter resourceVersion
// identifies the change. After you have written an object, pass the resourceVersion that the server
// returned. If you have deleted an object, pass the resourceVersion of the deletion. If you pass
// the resourceVersion of a list of objects, Applied returns which nodes have applied all changes up
// to the list.
//
// The report of a node has, for each kind, the last resourceVersion that the node has applied. The
// node has applied the change if this version is equal to resourceVersion or higher. Applied
// compares the two as decimal numbers of any length, as Kubernetes defines since 1.35. A report
// that is older than 15 minutes does not count: its node has the state NodeSilent. The node writes
// the time into the report, and Applied compares this time with the caller's clock. So the two
// clocks should agree.
//
// Errors: ErrNotInstalled; a resourceVersion that is no number; errors of the client.
func Applied(ctx context.Context, client dynamic.Interface, kind, resourceVersion string) (Progress, error) {
	if _, err := resourceversion.CompareResourceVersion(resourceVersion, resourceVersion); err != nil {
		return Progress{}, fmt.Errorf("report: applied: %w", err)
	}
	nodes := map[string]NodeProgress{}
	err := list(ctx, client, schema.GroupVersionResource{Version: "v1", Resource: "nodes"},
		func(node *unstructured.Unstructured) {
			nodes[node.GetName()] = NodeProgress{Node: node.GetName(), State: NodeSilent}
		})
	if err != nil {
		return Progress{}, err
	}
	now := time.Now()
	err = list(ctx, client, Resource(), func(report *unstructured.Unstructured) {
		if _, ok := nodes[report.GetName()]; ok { // otherwise it is about to be deleted
			nodes[report.GetName()] = progressOf(report, kind, resourceVersion, now)
		}
	})
	if apierrors.IsNotFound(err) {
		return Progress{}, fmt.Errorf("report: applied: %w", ErrNotInstalled)
	}
	if err != nil {
		return Progress{}, err
	}
	p := Progress{Nodes: slices.Collect(maps.Values(nodes))}
	slices.SortFunc(p.Nodes, func(a, b NodeProgress) int { return cmp.Compare(a.Node, b.Node) })
	for _, n := range p.Nodes {
		if n.State == NodeApplied {
			p.Applied++
		}
	}
	return p, nil
}

// list reads the objects of a kind in pages, and calls a function for each.
func list(
	ctx context.Context, client dynamic.Interface, kind schema.GroupVersionResource,
	visit func(*unstructured.Unstructured),
) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.Resource(kind).List(ctx, options)
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		if object, ok := item.(*unstructured.Unstructured); ok {
			visit(object)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("report: list %s: %w", kind.Resource, err)
	}
	return nil
}

// progressOf returns the progress of a node from its report.
func progressOf(report *unstructured.Unstructured, kind, resourceVersion string, now time.Time) NodeProgress {
	n := NodeProgress{Node: report.GetName(), State: NodeSilent}
	content, _ := report.Object["status"].(map[string]any)
	var status NodeStatus
	if content == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status) != nil {
		return n
	}
	n.Status = status
	if now.Sub(status.Updated.Time) > silentAfter {
		return n
	}
	order, err := resourceversion.CompareResourceVersion(status.Applied[kind], resourceVersion)
	switch {
	case !status.Ready || status.Applied[kind] == "":
		n.State = NodeBehind
	case err != nil:
	case order < 0:
		n.State = NodeBehind
	case status.Failing > 0 || status.Faulty > 0 || len(status.Faults) > 0:
		n.State = NodeFaulty
	default:
		n.State = NodeApplied
	}
	return n
}
