// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// foreign returns a condition of another controller, with an unknown field.
func foreign(status string) map[string]any {
	return map[string]any{
		"type": "Audited", "status": status, "reason": "Weekly", "message": "", "novel": "x",
		"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": int64(1),
	}
}

// transition returns the time of the last change of condition Accepted.
func (c *cluster) transition(t *testing.T, name string) string {
	live, err := c.dynamic.Resource(cnps).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	list, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
	require.NoError(t, err)
	return list[1].(map[string]any)["lastTransitionTime"].(string)
}

func TestConditionFollowsThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(clusterPolicy("deny", foreign("True")))
		r, _ := c.start(t, "n1")
		deny := object("ClusterNetworkPolicy", "deny")
		const audited = "Audited=True Weekly 1: "
		remark := []error{&convert.Error{Object: deny, Field: "spec.x", Err: convert.ErrIgnored}}
		var last string
		for i, step := range []struct {
			generation int64
			problems   []error
			want       string
			writes     int
			moves      bool // the status changes
		}{
			{1, remark, "Accepted=True Accepted 1: ", 1, true},
			{1, nil, "Accepted=True Accepted 1: ", 0, false},
			{2, nil, "Accepted=True Accepted 2: ", 1, false},
			{3, problem(deny, "spec.tier", "unknown", true), "Accepted=False Rejected 3: spec.tier: unknown", 1, true},
			{3, problem(deny, "spec.tier", "unknown", true), "Accepted=False Rejected 3: spec.tier: unknown", 0, false},
			{4, problem(deny, "spec.egress", "odd", false), "Accepted=False RuleClosed 4: spec.egress: odd", 1, false},
			{5, nil, "Accepted=True Accepted 5: ", 1, true},
		} {
			r.Converted(deny, step.generation, step.problems)
			wait(time.Minute)
			require.Equal(t, []string{audited, step.want}, c.conditions(t, "deny"), "step %d", i)
			require.Equal(t, step.writes, c.writes()["clusternetworkpolicies/status"], "step %d", i)
			require.Equal(t, step.moves, c.transition(t, "deny") != last, "step %d", i)
			last = c.transition(t, "deny")
		}
		live, err := c.dynamic.Resource(cnps).Get(t.Context(), "deny", metav1.GetOptions{})
		require.NoError(t, err)
		list, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
		require.NoError(t, err)
		require.Equal(t, foreign("True"), list[0])

		r.Rejected(policy.Key{Kind: policy.KindPolicy, Name: "kcnp.deny"}, errors.New("by the graph"))
		r.Converted(deny, 5, nil)
		wait(time.Minute)
		require.Equal(t, []string{audited, "Accepted=False Rejected 5: by the graph"}, c.conditions(t, "deny"))
		r.Converted(deny, 6, nil)
		wait(time.Minute)
		require.Equal(t, []string{audited, "Accepted=True Accepted 6: "}, c.conditions(t, "deny"))
		c.writes()

		r.Deleted(deny)
		wait(time.Minute)
		require.Zero(t, c.writes()["clusternetworkpolicies/status"])
	})
}

// A change by another writer between the read and the write is not reverted.
func TestConditionOfOtherWriterStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(clusterPolicy("deny", foreign("True")))
		conflict := true
		c.dynamic.PrependReactor("patch", "clusternetworkpolicies",
			func(a clienttesting.Action) (bool, apiruntime.Object, error) {
				require.Contains(t, string(a.(clienttesting.PatchAction).GetPatch()), `"resourceVersion":"`)
				if !conflict {
					return false, nil, nil
				}
				conflict = false
				changed := clusterPolicy("deny", foreign("False"))
				require.NoError(t, c.dynamic.Tracker().Update(cnps, changed, ""))
				return true, nil, apierrors.NewConflict(cnps.GroupResource(), "deny", nil)
			})
		r, _ := c.start(t, "n1")
		r.Converted(object("ClusterNetworkPolicy", "deny"), 1, nil)
		wait(time.Minute)
		require.Equal(t, []string{"Audited=False Weekly 1: ", "Accepted=True Accepted 1: "}, c.conditions(t, "deny"))
		require.EqualValues(t, 1, r.Stats().Failed)
	})
}

// A node that is behind does not overwrite the condition of a later version of a policy or of a new
// policy.
func TestConditionOfLaterVersionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := map[string]any{
			"type": "Accepted", "status": "False", "reason": "Rejected", "message": "m", "observedGeneration": int64(7),
			"lastTransitionTime": "2026-01-01T00:00:00Z",
		}
		c := newCluster(clusterPolicy("deny", later), clusterPolicy("new"))
		r, _ := c.start(t, "n1")
		r.Converted(object("ClusterNetworkPolicy", "deny"), 6, nil)
		old := object("ClusterNetworkPolicy", "new")
		old.UID = "another"
		r.Converted(old, 6, nil)
		wait(time.Hour)
		require.Equal(t, []string{"Accepted=False Rejected 7: m"}, c.conditions(t, "deny"))
		require.Empty(t, c.conditions(t, "new"))
		r.Converted(object("ClusterNetworkPolicy", "new"), 1, nil)
		r.Converted(object("ClusterNetworkPolicy", "deny"), 8, nil)
		wait(time.Minute)
		require.Equal(t, []string{"Accepted=True Accepted 1: "}, c.conditions(t, "new"))
		require.Equal(t, []string{"Accepted=True Accepted 8: "}, c.conditions(t, "deny"))
	})
}

// Malformed conditions do not prevent the write of a condition.
func TestMalformedConditionsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		number, empty := map[string]any{"type": int64(5)}, map[string]any{"type": "Accepted"}
		c := newCluster(clusterPolicy("deny", "text", number, empty))
		r, _ := c.start(t, "n1")
		r.Converted(object("ClusterNetworkPolicy", "deny"), 1, nil)
		wait(time.Minute)
		live, err := c.dynamic.Resource(cnps).Get(t.Context(), "deny", metav1.GetOptions{})
		require.NoError(t, err)
		list, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
		require.NoError(t, err)
		require.Len(t, list, 3)
		require.Equal(t, "True", list[2].(map[string]any)["status"])
	})
}
