// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore/kubernetes/report"
)

func noBarrier(context.Context) error { return nil }

func TestOneNodeWritesForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(clusterPolicy("deny"))
		leader, stop := c.start(t, "n1")
		other, _ := c.start(t, "n2")
		web, deny := object("NetworkPolicy", "web"), object("ClusterNetworkPolicy", "deny")
		for _, r := range []*report.Reporter{leader, other} {
			r.Problems(web, []error{errors.New("broken")})
			r.Converted(deny, 3, nil)
		}
		wait(time.Minute)
		require.True(t, leader.Stats().Leading)
		require.False(t, other.Stats().Leading)
		require.Zero(t, other.Stats().Events+other.Stats().Conditions)
		events := c.events(t)
		require.Len(t, events, 1)
		require.Equal(t, []string{"Accepted=True Accepted 3: "}, c.conditions(t, "deny"))
		c.writes()

		stop()
		other.Converted(deny, 4, problem(deny, "spec.ingress[0]", "unknown", false))
		wait(2 * time.Minute)
		require.True(t, other.Stats().Leading)
		require.Contains(t, c.events(t), events[0], "no second Event of the same problem")
		require.Len(t, c.events(t), 2)
		require.Zero(t, other.Stats().Failed, "the Event already exists")
		require.Equal(t, []string{"Accepted=False RuleClosed 4: spec.ingress[0]: unknown"}, c.conditions(t, "deny"))
	})
}

// A new leader writes only conditions that differ.
func TestNewLeaderComparesConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(clusterPolicy("same"), clusterPolicy("differs"))
		leader, stop := c.start(t, "n1")
		leader.Converted(object("ClusterNetworkPolicy", "same"), 1, nil)
		leader.Converted(object("ClusterNetworkPolicy", "differs"), 1, nil)
		wait(time.Minute)
		stop()
		other, _ := c.start(t, "n2")
		other.Converted(object("ClusterNetworkPolicy", "same"), 1, nil)
		differs := object("ClusterNetworkPolicy", "differs")
		other.Converted(differs, 2, problem(differs, "spec.tier", "unknown", true))
		c.writes()
		wait(2 * time.Minute)
		require.True(t, other.Stats().Leading)
		require.Equal(t, 1, c.writes()["clusternetworkpolicies/status"])
		require.Equal(t, []string{"Accepted=False Rejected 2: spec.tier: unknown"}, c.conditions(t, "differs"))
	})
}

// A leader that cannot renew its Lease stops leading, and leads again later.
func TestLostLeaseEndsLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(clusterPolicy("deny"))
		away := c.fail(&failure{verb: "*", resource: "leases"})
		r, _ := c.start(t, "n1")
		r.Converted(object("ClusterNetworkPolicy", "deny"), 1, nil)
		wait(time.Minute)
		require.True(t, r.Stats().Leading)
		require.Len(t, c.conditions(t, "deny"), 1)
		away.set(errors.New("connection refused"))
		wait(3 * time.Minute)
		require.False(t, r.Stats().Leading)
		require.ErrorContains(t, r.Stats().Errors[report.PartLease], "refused")
		require.NoError(t, c.dynamic.Tracker().Update(cnps, clusterPolicy("deny"), "")) // of another leader
		wait(time.Hour)
		require.Empty(t, c.conditions(t, "deny"))
		away.set(nil)
		wait(3 * time.Minute)
		require.True(t, r.Stats().Leading)
		require.Len(t, c.conditions(t, "deny"), 1)
		require.Empty(t, r.Stats().Errors)
	})
}

func TestForbiddenLeasePreventsSharedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(clusterPolicy("deny"))
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "x", errors.New("no role"))
		c.fail(&failure{verb: "*", resource: "leases", err: forbidden})
		r, _ := c.start(t, "n1")
		r.Ready()
		r.Problems(object("NetworkPolicy", "web"), []error{errors.New("broken")})
		r.Converted(object("ClusterNetworkPolicy", "deny"), 1, nil)
		r.Endpoints(slices.Values([]dataplane.EndpointChange{endpoint("web", errors.New("broken"))}))
		wait(time.Hour)
		s := r.Stats()
		require.False(t, s.Leading)
		require.True(t, apierrors.IsForbidden(s.Errors[report.PartLease]))
		require.Equal(t, []string{"shop Pod/web NotProgrammed x1: broken"}, c.events(t))
		require.Empty(t, c.conditions(t, "deny"))
		require.EqualValues(t, 2, s.Node, "the rest is written")
		require.NotZero(t, s.Reports)
	})
}
