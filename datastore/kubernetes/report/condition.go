// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// conditionType is the type of the condition of a policy.
const conditionType = "Accepted"

// writeCondition writes the condition of an object if it differs. Other conditions are kept: the
// server refuses the patch if the object has changed since it was read.
func (r *Reporter) writeCondition(ctx context.Context, t task, wanted notice) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(t.object.APIVersion, t.object.Kind))
	objects := r.cfg.Dynamic.Resource(plural).Namespace(t.object.Namespace)
	live, err := objects.Get(ctx, t.object.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("report: get %s: %w", t.object, err)
	}
	if wanted.uid != "" && live.GetUID() != wanted.uid {
		return nil // a new object of that name, which has not been recorded yet
	}
	conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	conditions, changed := setCondition(conditions, wanted, time.Now())
	if !changed {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": live.GetResourceVersion()},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("report: condition of %s: %w", t.object, err)
	}
	_, err = objects.Patch(ctx, t.object.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: component}, "status")
	if err != nil {
		return fmt.Errorf("report: condition of %s: %w", t.object, err)
	}
	r.count(func(s *Stats) { s.Conditions++ })
	return nil
}

// setCondition sets the wanted condition in a list, and reports whether that changes the list. It
// keeps a condition of a later generation.
func setCondition(conditions []any, wanted notice, now time.Time) ([]any, bool) {
	status := string(metav1.ConditionFalse)
	if wanted.reason == "" {
		status = string(metav1.ConditionTrue)
	}
	next := map[string]any{
		"type": conditionType, "status": status, "reason": cmp.Or(wanted.reason, ReasonAccepted),
		"message": wanted.text, "observedGeneration": wanted.generation,
		"lastTransitionTime": now.UTC().Format(time.RFC3339),
	}
	i := slices.IndexFunc(conditions, func(c any) bool {
		found, ok := c.(map[string]any)
		return ok && found["type"] == conditionType
	})
	if i < 0 {
		return append(conditions, next), true
	}
	last, _ := conditions[i].(map[string]any)
	seen, _, _ := unstructured.NestedInt64(last, "observedGeneration")
	if seen > wanted.generation {
		return conditions, false
	}
	if since, ok := last["lastTransitionTime"].(string); ok && last["status"] == status {
		next["lastTransitionTime"] = since
	}
	if seen == wanted.generation && last["status"] == status && last["reason"] == next["reason"] &&
		last["message"] == next["message"] {
		return conditions, false
	}
	conditions[i] = next
	return conditions, true
}
