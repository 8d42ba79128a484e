// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// watched is a node with a dataplane and a driver as in the package's documentation. The driver
// never retries by itself, so each repair follows a notification.
type watched struct {
	*node
	driver  *dataplane.Driver
	monitor *rtnl.Monitor
}

func newWatched(t *testing.T, cfg routes.Config, interfaces ...string) *watched {
	w := &watched{node: newNode(t, cfg, interfaces...)}
	w.monitor = w.listen(rtnl.GroupRoutes, rtnl.GroupNeighbours, rtnl.GroupLinks)
	var err error
	w.driver, err = dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: []dataplane.Dataplane{w.dp}, MinBackoff: time.Hour, MaxBackoff: time.Hour,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.driver.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range cap(ended) {
			require.ErrorIs(t, <-ended, context.Canceled)
		}
	})
	return w
}

func (w *watched) send(events ...dataplane.Event) {
	w.Helper()
	require.NoError(w, w.driver.Send(w.Context(), dataplane.Batch{Events: events}))
}

// until waits until ok returns true.
func (w *watched) until(what string, ok func() bool) {
	w.Helper()
	w.await(w.monitor, what, ok)
}

// listen returns a monitor of the node's namespace.
func (n *node) listen(groups ...rtnl.Group) *rtnl.Monitor {
	n.Helper()
	m, err := rtnl.Listen(rtnl.Config{NetNS: n.ns.FD()}, groups...)
	require.NoError(n, err)
	n.Cleanup(func() { require.NoError(n, m.Close()) })
	return m
}

// await waits until a condition holds, and tests it after each event of the monitor.
func (n *node) await(m *rtnl.Monitor, what string, ok func() bool) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), 30*time.Second)
	defer cancel()
	for !ok() {
		require.NoError(n, m.Wait(ctx), "%s:\n%s%s%s%s", what, n.ip("addr"), n.ip("route"), n.ip("-6 route"),
			n.ip("neigh"))
		_, err := m.Poll(func(*rtnl.Event) {})
		require.NoError(n, err)
	}
}

// S124: the interface of an endpoint is added after it, flaps, gets its name later, and is replaced
// by another with its name. Each time, all objects of the endpoint are restored at once.
func TestReturningInterfaceIsConfigured(t *testing.T) {
	w := newWatched(t, routes.Config{Sysctls: []routes.Sysctl{{Family: 4, Name: "rp_filter", Value: "1"}}}, "cali2")
	w.send(update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"), update("b", "cali2", mac, "10.0.0.2"), inSync)
	whole := func() bool {
		return slices.Equal([]string{"10.0.0.1 cali1 219", "10.0.0.2 cali2 219", "2001:db8::1 cali1 219"},
			w.routes("main")) &&
			slices.Equal([]string{"10.0.0.1 cali1 " + mac, "10.0.0.2 cali2 " + mac, "2001:db8::1 cali1 " + mac},
				w.neighbours())
	}
	w.until("the other", func() bool { return slices.Contains(w.routes("main"), "10.0.0.2 cali2 219") })
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"comes later", func() { w.addLinks("cali1") }},
		{"flaps", func() { w.ip("link set dev cali1 down"); w.ip("link set dev cali1 up") }},
		{"is renamed", func() { w.rename("cali1", "other"); w.rename("other", "cali1") }},
		{"comes again", func() { w.ip("link del dev cali1"); w.addLinks("cali1") }},
		{"another takes the name", func() {
			w.addLinks("other")
			w.rename("cali1", "old")
			w.rename("other", "cali1")
			w.ip("link del dev old")
		}},
	} {
		step.do()
		start := time.Now()
		w.until(step.what, whole)
		t.Logf("%s: restored after %s", step.what, time.Since(start).Round(time.Microsecond))
		w.wantSysctl("net/ipv4/conf/cali1/rp_filter", "1")
		w.wantSysctl("net/ipv4/conf/cali1/forwarding", "1")
		w.wantSysctl("net/ipv6/conf/cali1/forwarding", "1")
	}
}

// 1,000 pairs of interfaces are added and removed while routes are applied. In the end, exactly the
// existing interfaces have their routes.
func TestInterfaceChurn(t *testing.T) {
	const (
		names  = 50
		rounds = 20
	)
	w := newWatched(t, routes.Config{}, "stays")
	w.send(update("stays", "stays", mac, "10.0.1.0"), inSync)
	churned := make(chan error, 1)
	go func() {
		var batch strings.Builder
		for round := range rounds {
			if round > 0 {
				batch.WriteString("link del group 7\n") // deleting them one by one takes ten times as long
			}
			for i := range names {
				fmt.Fprintf(&batch, "link add dev cali%d group 7 type veth peer name x%d\nlink set dev cali%d up\n", i,
					i, i)
			}
		}
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(batch.String())
		churned <- w.ns.Do(cmd.Run)
	}()
	var want []string
	for running, round := true, 0; running; round++ {
		want = []string{"10.0.1.0 stays 219"}
		for i := range names {
			address := fmt.Sprintf("10.0.%d.%d", 2+round%2, i)
			w.send(update(fmt.Sprint(i), fmt.Sprintf("cali%d", i), "", address))
			want = append(want, fmt.Sprintf("%s cali%d 219", address, i))
		}
		select {
		case err := <-churned:
			require.NoError(t, err)
			running = false
		default:
		}
	}
	slices.Sort(want)
	w.until("the remaining routes", func() bool { return slices.Equal(want, w.routes("main")) })
}
