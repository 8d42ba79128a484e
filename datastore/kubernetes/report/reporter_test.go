// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/datastore/kubernetes/report"
	"github.com/wayleave/wayleave/policy"
)

// hooks returns the methods of a Reporter as hooks.
func hooks(r *report.Reporter) (kubernetes.Hooks, calcgraph.Hooks) {
	return kubernetes.Hooks{Problems: r.Problems, Converted: r.Converted, Deleted: r.Deleted},
		calcgraph.Hooks{Rejected: r.Rejected, Doubt: r.Doubt}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := report.New(report.Config{
		Node: "A", Interval: time.Millisecond, Barrier: noBarrier, Version: strings.Repeat("x", 257),
	})
	for _, want := range []string{"Client", "Dynamic", "Node", "Interval", "Barrier", "Version"} {
		require.ErrorContains(t, err, want)
	}
}

func TestRunOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		r, stop := c.start(t, "n1")
		hooks(r)
		require.ErrorIs(t, r.Run(t.Context()), report.ErrRunning)
		stop()
		c.writes()
		r.Problems(object("NetworkPolicy", "web"), []error{errors.New("broken")})
		wait(time.Hour)
		require.Empty(t, c.writes())
	})
}

// Input before Run is written by Run. So is input before a second Run.
func TestInputBeforeRunIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(clusterPolicy("deny"))
		r, err := report.New(report.Config{Client: c.client, Dynamic: c.dynamic, Node: "n1"})
		require.NoError(t, err)
		for i := range 2 {
			r.Ready()
			r.Problems(object("NetworkPolicy", fmt.Sprint("web", i)), []error{errors.New("broken")})
			r.Converted(object("ClusterNetworkPolicy", "deny"), int64(i+1), nil)
			r.Endpoints(slices.Values([]dataplane.EndpointChange{endpoint("web", errors.New("broken"))}))
			var running sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			running.Go(func() { _ = r.Run(ctx) })
			wait(2 * time.Minute)
			cancel()
			running.Wait()
			require.Len(t, c.events(t), i+2)
			require.Equal(t, []string{fmt.Sprintf("Accepted=True Accepted %d: ", i+1)}, c.conditions(t, "deny"))
		}
	})
}

// An error is logged once, until another error occurs or it ends.
func TestErrorsAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		failure := c.fail(&failure{
			verb: "create", resource: "events",
			err: apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no role")),
		})
		var log bytes.Buffer
		r, _ := c.start(t, "n1", func(cfg *report.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		for i := range 100 {
			r.Problems(object("NetworkPolicy", fmt.Sprint("p", i)), []error{errors.New("broken")})
		}
		wait(time.Hour)
		require.Equal(t, 1, strings.Count(log.String(), "reporting failed"))
		require.Zero(t, r.Stats().Events)
		require.Less(t, failure.failed(), 2500, "each of 100 is retried after at most 5 minutes")
		failure.set(nil)
		wait(10 * time.Minute)
		require.EqualValues(t, 100, r.Stats().Events)
		require.Equal(t, 1, strings.Count(log.String(), "reporting works again"))
		for _, e := range c.events(t) {
			require.Contains(t, e, " x1: ", "attempts are not counted")
		}
	})
}

func TestConcurrentInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(clusterPolicy("deny"))
		r, _ := c.start(t, "n1")
		var inputs sync.WaitGroup
		for i := range 8 {
			inputs.Go(func() {
				for j := range 200 {
					name := fmt.Sprint("p", j%10)
					deny := object("ClusterNetworkPolicy", "deny")
					r.Problems(object("NetworkPolicy", name), []error{fmt.Errorf("broken %d", i)}[:j%2])
					r.Converted(deny, int64(j+1), nil)
					r.Rejected(policy.Key{Kind: policy.KindTier, Name: name}, errors.New("broken"))
					r.Doubt(policy.Key{Kind: policy.KindPolicy, Name: name}, nil)
					r.Endpoints(slices.Values([]dataplane.EndpointChange{endpoint("web", nil)}))
					r.Ready()
					r.Stats()
					if j%50 == 0 {
						time.Sleep(time.Second)
					}
				}
			})
		}
		inputs.Wait()
		r.Converted(object("ClusterNetworkPolicy", "deny"), 1000, nil)
		wait(5 * time.Minute)
		require.Equal(t, []string{"Accepted=True Accepted 1000: "}, c.conditions(t, "deny"))
	})
}
