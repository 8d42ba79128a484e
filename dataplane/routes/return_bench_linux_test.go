// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// BenchmarkReturns measures the time from the command that sets an interface up, or adds it again,
// until its route, which is added last, exists. It also measures the time from the deletion of the
// route until it is restored. Many unrelated routes are kept meanwhile.
func BenchmarkReturns(b *testing.B) {
	for what, step := range map[string]struct{ away, back func(ns *netns.NS) error }{
		"flaps": {
			func(ns *netns.NS) error { return ns.Down("c") },
			func(ns *netns.NS) error { return ns.Up("c") },
		},
		"anew": {
			func(ns *netns.NS) error { return ns.DeleteLink("c") },
			func(ns *netns.NS) error {
				_, _, err := netns.Veth(netns.End{NS: ns, Name: "c"}, netns.End{NS: ns, Name: "d"})
				return err
			},
		},
		"drifts": {
			func(*netns.NS) error { return nil },
			func(ns *netns.NS) error {
				return ns.Do(func() error { return exec.Command("ip", "route", "del", "192.0.2.1").Run() })
			},
		},
	} {
		const others = 65_536
		b.Run(fmt.Sprintf("%s/routes=%d", what, others), func(b *testing.B) {
			ns, _ := benchNode(b)
			_, _, err := netns.Veth(netns.End{NS: ns, Name: "c"}, netns.End{NS: ns, Name: "d"})
			require.NoError(b, err)
			k := benchKeeper(b, ns)
			route := routes.Route{Dst: netip.MustParsePrefix("192.0.2.1/32"), Interface: "c"}
			k.Set(benchRoutes(others)...)
			k.Set(
				route, routes.Neighbour{Addr: route.Dst.Addr(), Interface: "c", MAC: routes.MAC{2, 0, 0, 0, 0, 1}},
				routes.Setting{Path: "net/ipv4/conf/c/forwarding", Value: "1", Interface: "c"})
			require.NoError(b, k.Apply(b.Context()))
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- k.Watch(ctx, nil) }()
			monitor, err := rtnl.Listen(rtnl.Config{NetNS: ns.FD()}, rtnl.GroupRoutes)
			require.NoError(b, err)
			var times []time.Duration
			for b.Loop() {
				b.StopTimer()
				require.NoError(b, step.away(ns))
				_, err := monitor.Poll(func(*rtnl.Event) {})
				require.NoError(b, err)
				b.StartTimer()
				start := time.Now()
				require.NoError(b, step.back(ns))
				for back := false; !back; {
					require.NoError(b, monitor.Wait(ctx))
					_, err := monitor.Poll(func(e *rtnl.Event) { back = back || !e.Gone && e.Route.Dst == route.Dst })
					require.NoError(b, err)
				}
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-median")
			b.ReportMetric(float64(times[len(times)-1].Microseconds())/1000, "ms-worst")
			cancel()
			require.ErrorIs(b, <-ended, context.Canceled)
			require.NoError(b, monitor.Close())
		})
	}
}
