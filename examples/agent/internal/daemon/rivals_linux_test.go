// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// rivals starts two agents with different pods on one node. The settings of the second come on top
// of those of the first.
func rivals(t *testing.T, both, second map[string]string) (node *netns.NS, a, b *running) {
	t.Helper()
	node, dir := shop(t)
	nstest.NewWorkload(t, node, convert.InterfaceName("shop", "late"), "10.0.0.3")
	other := t.TempDir()
	write(t, other, "pods.yaml", namespace+pod("late", "10.0.0.3"))
	a = startWith(t, node, dir, t.TempDir(), both)
	a.until(t, well)
	more := map[string]string{}
	for _, values := range []map[string]string{both, second} {
		for key, value := range values {
			more[key] = value
		}
	}
	return node, a, startWith(t, node, other, t.TempDir(), more)
}

// poll waits until holds reports true. It is for states without an event: the agent's status, and
// the end of an agent's repairs in the kernel's table.
func poll(holds func() bool) bool {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(waitTimeout); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// awaitStatus waits until holds reports true for the status, and returns the status.
func (r *running) awaitStatus(t *testing.T, holds func(api.Status) bool) api.Status {
	t.Helper()
	var s api.Status
	var err error
	done := poll(func() bool {
		s, err = api.Get[api.Status](t.Context(), r.Client, "/v1/status")
		return err == nil && holds(s)
	})
	require.True(t, done, "%+v, %v; log:\n%s", s, err, r.log)
	return s
}

// metric returns the value of a metric without labels.
func (r *running) metric(t *testing.T, name string) int {
	t.Helper()
	_, text := r.http(t, "/metrics")
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	require.Len(t, found, 2, name)
	value, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	return int(value)
}

// requireDispute waits until the agent reports a dispute, and checks that the metrics have it, too.
func (r *running) requireDispute(t *testing.T, text string) {
	t.Helper()
	status := r.awaitStatus(t, func(s api.Status) bool {
		return strings.Contains(strings.Join(s.Disputes, "\n"), text)
	})
	require.False(t, status.Ready)
	require.NotZero(t, status.Drifts)
	require.GreaterOrEqual(t, r.metric(t, "wayleave_disputes"), len(status.Disputes),
		"a dispute lasts at least two minutes")
	require.Zero(t, r.metric(t, "wayleave_ready"))
	code, body := r.http(t, "/readyz")
	require.Equal(t, 503, code)
	require.Contains(t, body, "is changed repeatedly by")
}

// threeRoutes waits until the kernel has the routes of all three pods.
func threeRoutes(t *testing.T, node *netns.NS) {
	t.Helper()
	routes, err := rtnl.Listen(rtnl.Config{NetNS: node.FD()}, rtnl.GroupRoutes)
	require.NoError(t, err)
	defer func() { require.NoError(t, routes.Close()) }()
	waiting, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	ours := func() string { return ip(t, node, "route", "show", "proto", "219") }
	for strings.Count(ours(), "10.0.0.") < 3 {
		require.NoError(t, routes.Wait(waiting), "%s", ours())
		_, err := routes.Poll(func(*rtnl.Event) {})
		require.NoError(t, err)
	}
}

// S174: the second of two agents with one table and one route protocol changes nothing while the
// first runs: neither the table nor a route. It retries with a growing pause, logs the reason once,
// and is not ready. It takes over when the first ends.
func TestSecondAgentOfOwnedTableChangesNothing(t *testing.T) {
	node, first, second := rivals(t, nil, nil)
	table := func() string { return nft(t, node, "-s", "list", "table", "inet", "wayleave") }
	routes := func() string { return ip(t, node, "route", "show", "proto", "219") }
	want, wantRoutes := table(), routes()
	nstest.SkipUnlessOwned(t, strings.Contains(want, "flags owner"))
	const belongs = "table inet wayleave belongs to another process"
	status := second.awaitStatus(t, func(s api.Status) bool { return s.Failed >= 4 })
	require.Contains(t, status.LastError, belongs)
	require.False(t, status.Ready)
	require.Empty(t, status.Disputes)
	require.Zero(t, second.metric(t, "wayleave_disputes"))
	require.Zero(t, second.metric(t, "wayleave_ready"))
	require.GreaterOrEqual(t, second.metric(t, "wayleave_apply_failures_total"), 4)
	code, body := second.http(t, "/readyz")
	require.Equal(t, 503, code)
	require.Contains(t, body, belongs)
	require.Equal(t, 1, strings.Count(second.log.String(), belongs), "%s", second.log)
	require.Contains(t, second.log.String(), `level=WARN msg="programming failed"`)

	require.Equal(t, want, table())
	require.Equal(t, wantRoutes, routes())
	require.Equal(t, 2, strings.Count(wantRoutes, "10.0.0."))
	status = get[api.Status](t, first, "/v1/status")
	require.True(t, status.Ready)
	require.Zero(t, status.Drifts)
	require.Zero(t, first.metric(t, "wayleave_disputes"))
	first.end(t)
	second.awaitStatus(t, func(s api.Status) bool { return s.Ready })
	require.Contains(t, second.log.String(), "programming works again")
	require.Contains(t, table(), convert.InterfaceName("shop", "late"))
	require.Contains(t, routes(), "10.0.0.3")
	second.end(t)
}

// Two agents with `shared-table` and one table replace each other's rules and routes. Both report
// that and are not ready. The log does not grow with each repair, and the routes of both stay. The
// table of the agent that remains comes back.
func TestAgentsOfASharedTableReportADispute(t *testing.T) {
	const repairs = 20
	node, first, second := rivals(t, map[string]string{"shared-table": "true"}, nil)
	for _, r := range []*running{first, second} {
		r.requireDispute(t, "nft: table inet wayleave is changed repeatedly by ")
	}
	threeRoutes(t, node)
	for _, r := range []*running{first, second} {
		before := get[api.Status](t, r, "/v1/status").Repairs
		after := r.awaitStatus(t, func(s api.Status) bool { return s.Repairs >= before+repairs })
		log := r.log.String()
		require.LessOrEqual(t, strings.Count(log, "repaired nftables table"), 5, "%s", log)
		require.LessOrEqual(t, strings.Count(log, `msg="drift detected" backend=nft`), 5, "%s", log)
		require.Equal(t, 1, strings.Count(log,
			`level=WARN msg="another process changes an object repeatedly; a second agent may be running" backend=nft`))
		t.Logf("%d drifts, %d repairs, %d lines of log", after.Drifts, after.Repairs, strings.Count(log, "\n"))
	}
	second.end(t)
	write(t, first.dir, "policy.yaml", allow("cart", "web", 81))
	first.until(t, func(s pipeline.State) bool { return well(s) && strings.Contains(s.Table().String(), "81") })
	var now string
	clean := poll(func() bool {
		now = nft(t, node, "-s", "list", "table", "inet", "wayleave")
		return strings.Contains(now, convert.InterfaceName("shop", "web")) && strings.Contains(now, "81") &&
			!strings.Contains(now, convert.InterfaceName("shop", "late"))
	})
	require.True(t, clean, now)
	first.end(t)
}

// Two agents with one route protocol remove each other's routes a few times. Then both report a
// dispute, and the routes of both stay.
func TestAgentsWithOneRouteProtocolReportDispute(t *testing.T) {
	node, first, second := rivals(t, nil, map[string]string{"table": "other"})
	for _, r := range []*running{first, second} {
		r.requireDispute(t, "routes: route 10.0.0.")
	}
	threeRoutes(t, node)
	for _, r := range []*running{first, second} {
		require.Contains(t, r.log.String(), "it may use the same protocol number")
		r.end(t)
	}
}

// Two agents with different route protocols on one node do not dispute each other's routes.
func TestDifferentRouteProtocolsCauseNoDispute(t *testing.T) {
	node, first, second := rivals(t, nil, map[string]string{"table": "other", "route-protocol": "220"})
	second.until(t, well)
	require.Equal(t, 2, strings.Count(ip(t, node, "route", "show", "proto", "219"), "10.0.0."))
	require.Equal(t, 1, strings.Count(ip(t, node, "route", "show", "proto", "220"), "10.0.0."))
	for _, r := range []*running{first, second} {
		status := get[api.Status](t, r, "/v1/status")
		require.True(t, status.Ready)
		require.Zero(t, status.Drifts)
		require.Zero(t, r.metric(t, "wayleave_disputes"))
		r.end(t)
	}
}
