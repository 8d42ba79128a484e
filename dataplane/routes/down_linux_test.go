// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

// lines keeps a log for a test.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return len(line), nil
}

func (l *lines) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.all...)
}

// downRig is a node with policy (in memory) and routes. Its driver logs, and counts the attempts.
type downRig struct {
	*node
	driver   *dataplane.Driver
	log      *lines
	mu       sync.Mutex
	failures []error // of attempts
}

func newDownRig(t *testing.T, interfaces ...string) *downRig {
	r := &downRig{node: newNode(t, routes.Config{Sysctls: []routes.Sysctl{
		{Family: 4, Name: "rp_filter", Value: "1"},
	}}, interfaces...), log: &lines{}}
	var err error
	r.driver, err = dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: []dataplane.Dataplane{dptest.NewMirror(), r.dp},
		Logger:     slog.New(slog.NewTextHandler(r.log, nil)),
		Hooks: dataplane.Hooks{Applied: func(info dataplane.AppliedInfo) {
			if info.Err != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.failures = append(r.failures, info.Err)
			}
		}},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.driver.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return r
}

func (r *downRig) send(events ...dataplane.Event) {
	r.Helper()
	require.NoError(r, r.driver.Send(r.Context(), dataplane.Batch{Events: events}))
}

// reaches waits for a status of endpoint a.
func (r *downRig) reaches(what string, ok func(dataplane.EndpointStatus) bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	for c := range r.driver.EndpointChanges(ctx) {
		if c.Key == key("a") && !c.Removed && ok(c.Status) {
			return
		}
	}
	require.FailNow(r, what, "%+v\n%s", r.driver.Status(), strings.Join(r.log.list(), ""))
}

// failing returns the errors of all attempts.
func (r *downRig) failing() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.failures...)
}

// programmed waits as a CNI ADD does, and then checks that route and neighbour entry exist.
func (r *downRig) programmed() <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.driver.WaitProgrammed(r.Context(), key("a")) }()
	return done
}

func (r *downRig) wantUp(done <-chan error) {
	r.Helper()
	require.NoError(r, <-done)
	require.Equal(r, []string{"10.0.0.1 cali1 219"}, r.routes("main"))
	require.Equal(r, []string{"10.0.0.1 cali1 " + mac}, r.neighbours())
	r.wantSysctl("net/ipv4/conf/cali1/rp_filter", "1")
}

func down(cause error) func(dataplane.EndpointStatus) bool {
	return func(s dataplane.EndpointStatus) bool {
		return s.State == dataplane.EndpointDown && errors.Is(s.Err, cause)
	}
}

// S124: a workload's interface is added after its endpoint, flaps, is deleted before the endpoint,
// and is added again. The endpoint is down in between, and nothing fails.
func TestEndpointWithoutInterfaceIsDown(t *testing.T) {
	r := newDownRig(t, "cali2")
	r.send(update("a", "cali1", mac, "10.0.0.1"), update("b", "cali2", "", "10.0.0.2"), inSync)
	r.reaches("not there", down(routes.ErrNoInterface))
	added := r.programmed()
	r.send(gone("b"))
	require.NoError(t, r.driver.WaitApplied(t.Context()))
	require.Empty(t, added, "ADD waits")
	r.addLinks("cali1")
	r.wantUp(added)

	require.NoError(t, r.ns.Down("cali1"))
	r.reaches("set down", down(routes.ErrInterfaceDown))
	require.NoError(t, r.ns.Up("cali1"))
	r.wantUp(r.programmed())

	require.NoError(t, r.ns.DeleteLink("cali1"))
	r.reaches("deleted", down(routes.ErrNoInterface))
	r.addLinks("cali1")
	r.wantUp(r.programmed())

	// The ordinary end of a pod: the link is removed, then the endpoint.
	require.NoError(t, r.ns.DeleteLink("cali1"))
	r.reaches("deleted", down(routes.ErrNoInterface))
	status := r.driver.Status()
	require.NoError(t, status.LastError)
	require.False(t, status.Pending)
	r.send(gone("a"))
	require.NoError(t, r.driver.WaitRemoved(t.Context(), key("a")))
	require.Empty(t, r.routes("main"))

	require.NoError(t, r.failing())
	require.Zero(t, r.driver.Stats().Failed)
	log := strings.Join(r.log.list(), "")
	require.Equal(t, 4, strings.Count(log, `level=INFO msg="endpoint is down" endpoint=WorkloadEndpoint/shop/a`), log)
	require.NotContains(t, log, "level=WARN")
	require.NotContains(t, log, "faults", "the status has the errors")
}

// Another fault beside a missing interface is a failure: of the same endpoint, of one whose gateway
// needs another interface, and of a node.
func TestOtherFaultsAreFailures(t *testing.T) {
	n := newNode(t, routes.Config{Gateways: []netip.Addr{addr("169.254.1.1")}}, "cali2")
	faults := func(events ...dataplane.Event) map[policy.Key]*dataplane.ApplyError {
		objects, general := dataplane.ApplyErrors(n.apply(events...))
		require.False(t, general)
		return objects
	}
	require.NoError(t, n.ns.Up("lo"))
	objects := faults(update("a", "cali1", mac, "10.0.0.1"), inSync)
	require.True(t, objects[key("a")].Down)
	require.ErrorIs(t, objects[key("a")], routes.ErrNoInterface)
	objects = faults(update("a", "cali1", "wrong", "10.0.0.1"))
	require.False(t, objects[key("a")].Down, "its MAC address is invalid, too")
	objects = faults(update("a", "cali1", mac, "10.0.0.1"), update("c", "cali9", mac, "10.0.0.1"))
	require.True(t, objects[key("a")].Down)
	require.False(t, objects[key("c")].Down, "another endpoint has its address, too")
	require.NoError(t, n.ns.Down("lo"))
	objects = faults(gone("c"), update("b", "cali2", mac, "10.0.0.2"))
	require.ErrorIs(t, objects[key("b")], routes.ErrInterfaceDown)
	require.False(t, objects[key("b")].Down, "the route to its gateway is missing, not its own interface")
	require.False(t, objects[key("a")].Down)
	require.NoError(t, n.ns.Up("lo"))

	n.ip("route add 10.0.0.4 dev lo proto static")
	objects = faults(gone("a"), update("b", "cali2", mac, "10.0.0.4"))
	require.ErrorIs(t, objects[key("b")], routes.ErrForeign)
	require.False(t, objects[key("b")].Down)
	node := policy.Key{Kind: policy.KindNode, Name: "far"}
	objects = faults(remote("10.65.3.0/26", "far", "192.0.2.9", dataplane.PoolDirect, false))
	require.ErrorIs(t, objects[node], routes.ErrNoInterface)
	require.False(t, objects[node].Down)
}

// If an interface is removed, or goes down, while a pass adds a route over it, the same pass
// reports its endpoint as down.
func TestInterfaceGoesDuringPass(t *testing.T) {
	for cause, end := range map[error]func(*node) error{
		routes.ErrNoInterface:   func(n *node) error { return n.ns.DeleteLink("cali1") },
		routes.ErrInterfaceDown: func(n *node) error { return n.ns.Down("cali1") },
	} {
		n := newNode(t, routes.Config{}, "cali1")
		ended := false
		n.dp.Faulty(func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error {
			if !ended {
				ended = true
				require.NoError(t, end(n))
			}
			return conn.Do(b, failed)
		})
		objects, general := dataplane.ApplyErrors(n.apply(update("a", "cali1", "", "10.0.0.1"), inSync))
		require.False(t, general)
		require.True(t, ended)
		require.ErrorIs(t, objects[key("a")], cause)
		require.True(t, objects[key("a")].Down)
	}
}

// An object that waits for an interface is not retried, because a notification follows. All others
// are retried.
func TestObjectsWithoutInterfaceAreNotRetried(t *testing.T) {
	near := routes.MAC{2, 0, 0, 0, 0, 1}
	for name, c := range map[string]struct {
		object  routes.Object
		retries bool
	}{
		"no interface": {routes.Route{Dst: prefix("10.1.0.0/24"), Interface: "b"}, false},
		"down":         {routes.Neighbour{Addr: addr("10.0.0.1"), Interface: "c", MAC: near}, false},
		"no setting":   {routes.Setting{Path: "net/ipv4/conf/b/rp_filter", Value: "1", Interface: "b"}, false},
		"no gateway":   {routes.Route{Dst: prefix("10.1.0.0/24"), Gateway: addr("192.0.2.1")}, true},
		"no sysctl":    {routes.Setting{Path: "net/ipv4/conf/a/none", Value: "1", Interface: "a"}, true},
		"invalid":      {routes.Route{Dst: prefix("10.1.0.0/24")}, true},
	} {
		k := newKeeping(t, routes.KeeperConfig{}, "a", "c")
		require.NoError(t, k.ns.Down("c"))
		k.k.Set(c.object)
		require.Error(t, k.k.Apply(t.Context()), name)
		require.Equal(t, c.retries, k.k.Retries(), name)
	}
}
