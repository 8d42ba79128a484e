// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/memory"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// kernelState returns the nftables rules, and the agent's routes and neighbour entries. The kernel
// adds routes of its own at any time.
func kernelState(t *testing.T, node *netns.NS) string {
	t.Helper()
	return nstest.WithoutOwner(nft(t, node, "-s", "list", "ruleset")) +
		ip(t, node, "-4", "route", "show", "table", "all", "proto", "219") +
		ip(t, node, "-6", "route", "show", "table", "all", "proto", "219") +
		ip(t, node, "neigh", "show", "proto", "219")
}

// A start that is refused for lack of memory writes neither rules nor routes. This holds even if
// the rest of the agent continues before the process ends. The kernel state of an earlier agent
// stays.
func TestRefusedStartWritesNothing(t *testing.T) {
	iface := convert.InterfaceName("shop", "web")
	for name, change := range map[string]func(node *netns.NS, dir string){
		"first start": nil,
		"other rules": func(_ *netns.NS, dir string) { write(t, dir, "policy.yaml", allow("cart", "web", 443)) },
		"only a route is missing": func(node *netns.NS, _ string) {
			ip(t, node, "route", "del", "10.0.0.1/32", "dev", iface)
		},
	} {
		t.Run(name, func(t *testing.T) {
			node, dir := shop(t)
			if change != nil {
				r := start(t, node, dir, t.TempDir())
				r.until(t, well)
				require.Contains(t, kernelState(t, node), "10.0.0.1 dev "+iface)
				r.end(t)
				change(node, dir)
			}
			before := kernelState(t, node)

			runtime.GC() // to update the memory statistics of the runtime
			attempted := make(chan struct{}, 1000)
			r := start(t, node, dir, t.TempDir(), func(cfg *daemon.Config) {
				cfg.Memory = memory.Limit{Env: 1}
				cfg.Programmed = func(s pipeline.State) {
					if s.InSync || s.Err != nil {
						attempted <- struct{}{}
					}
				}
				cfg.Exceeded = func(error) { <-attempted }
			})
			var exceeded *memory.ExceededError
			require.ErrorAs(t, <-r.ended, &exceeded)
			require.Contains(t, r.log.String(), `msg="memory limit" limit="0 MiB (GOMEMLIMIT)"`)
			require.Contains(t, r.log.String(), "ending: not enough memory to start")
			require.Equal(t, before, kernelState(t, node), r.log)
		})
	}
}
