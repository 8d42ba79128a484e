// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// applyDelta applies the next delta to the table of the deltas. The result must equal the
// renderer's table.
func applyDelta(c *nfttest.Cluster, t *testing.T, seed uint64) {
	t.Helper()
	change, err := c.State.Prepare(c.Renderer.Flush())
	require.NoError(t, err, "seed %d", seed)
	c.State.Commit(change)
	table, _ := c.Renderer.Table()
	require.Equal(t, table.String(), c.State.Table().String(), "seed %d", seed)
	change, err = c.State.Prepare(c.Renderer.Flush())
	require.NoError(t, err)
	require.Empty(t, change.Ops, "seed %d: the next delta is empty", seed)
}

// checkFlows compares the verdicts of the rendered table and of the reference evaluator on random
// flows.
func checkFlows(c *nfttest.Cluster, t *testing.T, seed uint64, flows int) (checked int) {
	t.Helper()
	table, errs := c.Renderer.Table()
	require.Empty(t, errs, "seed %d", seed)
	fresh, err := render.New(c.Config)
	require.NoError(t, err)
	fresh.SetInterfaces(c.Known())
	fresh.Update(c.Graph.Snapshot())
	again, _ := fresh.Table()
	require.Equal(t, again.String(), table.String(), "seed %d: the table depends on earlier states", seed)
	require.True(t, again.Equal(table), "seed %d", seed)
	ready := newSimTable(t, table)
	e, err := verdict.NewConfigured(c.Resources, c.Settings)
	require.NoError(t, err)
	workloads := c.Workloads(e)
	for range flows {
		f, from, to := c.Flow(workloads)
		from.Iface, f.InInterface = c.At(from.Iface, f.Src)
		to.Iface, f.OutInterface = c.At(to.Iface, f.Dst)
		unknown := f.InInterface == "" && from.Iface != "" || f.OutInterface == "" && to.Iface != ""
		if f.InInterface != "" && f.InInterface == f.OutInterface && !f.OrigDst.IsValid() {
			continue // S103: it does not leave the workload
		}
		allowed, untracked := simulateFlow(t, ready, f, from, to)
		if untracked && f.OrigDst.IsValid() {
			continue // untracked packets are not translated
		}
		checked++
		if unknown { // S171
			require.False(t, allowed, "seed %d: no endpoint has it\n%s\n%s\n%s", seed, f, from.Iface, table)
			continue
		}
		if want := e.Evaluate(f).Combined != verdict.Deny; want != allowed {
			if from.Own && slices.ContainsFunc(
				e.Explain(f).Stages, func(d *verdict.Direction) bool { return d.Decision.By == verdict.ByInvalidFlow },
			) {
				// The packet is translated, although untracked policy of another interface applies
				// to it. So tracked policy evaluates it.
				continue
			}
			if !allowed && from.Own && f.OrigDst.IsValid() && namesPortsUntracked(c) {
				continue // the original ports cannot be looked up after translation, so fewer packets pass
			}
			require.Equal(t, want, allowed, "seed %d\n%s\n%s\n%s", seed, f, e.Explain(f), table)
		}
	}
	return checked
}

// namesPortsUntracked reports whether untracked policy matches named ports or services of
// destinations.
func namesPortsUntracked(c *nfttest.Cluster) bool {
	named := func(r policy.Rule) bool {
		ports := slices.Concat(r.Destination.Ports, r.Destination.NotPorts)
		return r.Destination.Services != nil || slices.ContainsFunc(
			ports, func(p policy.Port) bool { return p.Name != "" },
		)
	}
	for _, r := range c.Resources {
		if p, ok := r.(*policy.Policy); ok && p.DoNotTrack && slices.ContainsFunc(p.Egress, named) {
			return true
		}
	}
	return false
}

// TestVerdicts runs more than 100,000 random flows of random worlds, with host endpoints of all
// kinds, through the table of the graph and the renderer. The verdicts must equal those of the
// reference evaluator. Each world is reached by steps. After each step, the table must equal that
// of a fresh renderer with the graph's state (S100).
func TestVerdicts(t *testing.T) {
	nfttest.EachFormInParallel(t, func(t *testing.T, classes render.ClassesConfig) {
		testVerdicts(t, classes, nfttest.NewCluster)
	})
}

// S171: the same with workloads that become ports of bridges, move to other bridges, and leave
// them.
func TestVerdictsBridged(t *testing.T) {
	nfttest.EachFormInParallel(t, func(t *testing.T, classes render.ClassesConfig) {
		testVerdicts(t, classes, nfttest.NewBridgedCluster)
	})
}

func testVerdicts(
	t *testing.T, classes render.ClassesConfig,
	cluster func(*testing.T, uint64, render.ClassesConfig) *nfttest.Cluster,
) {
	worlds, checked := worldFlags.Seeds(200, 16), 0
	for _, seed := range worlds {
		c := cluster(t, seed, classes)
		for range 5 {
			for range 12 {
				c.Mutate()
			}
			c.Renderer.Update(c.Graph.Flush())
			if len(c.Config.Bridges) > 0 {
				c.Bridge()
				c.Renderer.SetInterfaces(c.Known())
			}
			applyDelta(c, t, seed)
			checked += checkFlows(c, t, seed, 130)
		}
	}
	t.Logf("%d flows", checked)
	require.Greater(t, checked, 500*len(worlds))
}
