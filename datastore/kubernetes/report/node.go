// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// AnnotationReady is an annotation of the Node. Its value is "true" once the node's kernel has the
// first complete state. The annotation stays when the agent ends.
const AnnotationReady = "wayleave.dev/ready"

// reasonNode is the reason of the Node's condition NetworkUnavailable=False.
const reasonNode = "WayleaveReady"

// nodeCheck is the minimum time between two reads of the Node. Up to as much is added at random.
const nodeCheck = time.Minute

// nodeWriter has the last write of the Node. It belongs to the goroutine of Run.
type nodeWriter struct {
	written bool
	retry   backoff
}

// writeNode writes the condition and the annotation of the Node, unless it has them. It returns the
// time until the next check.
func (r *Reporter) writeNode(ctx context.Context) (again time.Duration) {
	r.mu.Lock()
	ready := r.ready
	r.mu.Unlock()
	if !ready {
		return 0
	}
	err := r.patchNode(ctx)
	if apierrors.IsNotFound(err) {
		err = nil // kubelet creates it
	}
	r.recordResult(ctx, PartNode, err)
	again = r.node.retry.after(err, nodeCheck/60, nodeCheck)
	if err == nil {
		again = wait.Jitter(nodeCheck, 1)
	}
	return again
}

func (r *Reporter) patchNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	nodes := r.cfg.Client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, r.cfg.Node, metav1.GetOptions{ResourceVersion: "0"}) // from the server's cache
	if err != nil {
		return fmt.Errorf("report: get Node %s: %w", r.cfg.Node, err)
	}
	if node.Annotations[AnnotationReady] != "true" {
		metadata := map[string]any{"annotations": map[string]any{AnnotationReady: "true"}}
		if err := r.patch(ctx, map[string]any{"metadata": metadata}); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeNetworkUnavailable
	})
	now := metav1.Now()
	condition := corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: reasonNode,
		Message: "Wayleave has programmed the node", LastHeartbeatTime: now, LastTransitionTime: now,
	}
	if i >= 0 && node.Status.Conditions[i].Status == corev1.ConditionFalse {
		last := node.Status.Conditions[i]
		if r.node.written || last.Reason == reasonNode {
			r.node.written = true
			return nil // another writer may have another reason for the same status
		}
		condition.LastTransitionTime = last.LastTransitionTime
	}
	status := map[string]any{"conditions": []corev1.NodeCondition{condition}}
	if err := r.patch(ctx, map[string]any{"status": status}, "status"); err != nil {
		return err
	}
	r.node.written = true
	return nil
}

func (r *Reporter) patch(ctx context.Context, change map[string]any, subresources ...string) error {
	data, err := json.Marshal(change)
	if err == nil {
		_, err = r.cfg.Client.CoreV1().Nodes().Patch(ctx, r.cfg.Node, types.StrategicMergePatchType, data,
			metav1.PatchOptions{FieldManager: component}, subresources...)
	}
	if err != nil {
		return fmt.Errorf("report: patch Node %s: %w", r.cfg.Node, err)
	}
	r.count(func(s *Stats) { s.Node++ })
	return nil
}
