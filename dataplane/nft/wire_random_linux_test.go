// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy/verdict"
)

// wireSeed is the only seed to run.
var wireSeed = flag.Int("wire.seed", -1, "run only this seed of the tests on the wire")

// wireWhole reports whether to run all tests on the wire, instead of the daily sample.
func wireWhole() bool { return os.Getenv("WIRE") == "whole" }

// wireSeeds returns the seeds to run: those of the sample, all of them, or the seed of the flag.
func wireSeeds(sample, whole int) (seeds []uint64) {
	if wireWhole() {
		sample = whole
	}
	for seed := range sample {
		seeds = append(seeds, uint64(seed))
	}
	if *wireSeed >= 0 {
		seeds = []uint64{uint64(*wireSeed)}
	}
	return seeds
}

// randomWire returns a node with all interfaces of random worlds.
func randomWire(t *testing.T) *wire {
	t.Helper()
	interfaces := []string{"eth0", "eth1", "eth2"}
	for _, ns := range []string{"", "a", "b"} {
		for n := range 8 {
			interfaces = append(interfaces, fmt.Sprintf("wl%s%d", ns, n))
		}
	}
	return newWire(t, interfaces, map[string][]netip.Addr{
		"eth0": nfttest.Addresses("198.51.100.1", "fdff::1"), "eth1": nfttest.Addresses("198.51.100.9"),
	})
}

// TestWireVerdicts sends packets of random flows through random worlds, with host endpoints of all
// kinds. There are first packets of every protocol, between workloads, the host's processes and
// outside networks, also to addresses that a foreign service table translates. There are packets
// that are invalid for connection tracking. And there are answers, errors and later packets of
// connections that were opened before policy existed. Exactly the packets must arrive that the
// reference evaluator allows. Worlds are reached by steps.
func TestWireVerdicts(t *testing.T) { nfttest.EachFormInParallel(t, testWireVerdicts) }

func testWireVerdicts(t *testing.T, classes render.ClassesConfig) {
	b := randomWire(t)
	count := wireCount{}
	for _, seed := range wireSeeds(16, 500) {
		wireWorld(t, b, seed, classes, count)
	}
	t.Logf("%v", count)
	if *wireSeed < 0 {
		require.Greater(t, count["flows"], 3000)
		for _, part := range []string{
			"TCP", "UDP", "SCTP", "ICMP", "ICMPv6", "253", "Established", "Invalid", "translated", "from host",
			"to host", "reply", "related",
		} {
			require.Greater(t, count[part+" allowed"], 8, part)
			require.Greater(t, count[part+" denied"], 8, part)
		}
	}
}

// wireCount counts the sent packets.
type wireCount map[string]int

func (c wireCount) add(w wireFlow, allowed bool) {
	c["flows"]++
	decision := " denied"
	if allowed {
		decision = " allowed"
	}
	for name, is := range map[string]bool{
		w.Protocol.String(): true, string(w.State): w.State != "", "translated": w.OrigDst.IsValid(),
		"from host": w.from.Own, "to host": w.to.Own,
		"related": w.related, "reply": w.reply,
	} {
		if is {
			c[name+decision]++
		}
	}
}

// wireWorld checks one random world after several steps, and again after a load from scratch with
// open connections.
func wireWorld(t *testing.T, b *wire, seed uint64, classes render.ClassesConfig, count wireCount) {
	t.Helper()
	c := nfttest.NewCluster(t, seed, classes)
	c.Interfaces["eth1"], c.Interfaces["eth2"] = nfttest.Addresses("198.51.100.9"), []netip.Addr{}
	d, err := nft.New(onFastPath(nft.Config{Renderer: c.Config, NetNS: b.node.FD()}))
	require.NoError(t, err)
	for range 3 {
		for range 20 {
			c.Mutate()
		}
		require.NoError(t, d.Apply(t.Context(), c.Graph.Flush()), "seed %d", seed)
		e, err := verdict.NewConfigured(c.Resources, c.Settings)
		require.NoError(t, err)
		flows := randomWireFlows(c, e, 120, func(f verdict.Flow) bool {
			return f.State != verdict.StateEstablished && f.State != verdict.StateRelated
		})
		load(t, b.node, foreignNAT(flows))
		b.resetConntrack(t)
		wireCheck(t, b, d, e, flows, seed, count)
	}
	require.NoError(t, d.Teardown(t.Context()))
	e, err := verdict.NewConfigured(c.Resources, c.Settings)
	require.NoError(t, err)
	open := randomWireFlows(c, e, 100, func(f verdict.Flow) bool { return f.State == verdict.StateEstablished })
	load(t, b.node, foreignNAT(open))
	b.resetConntrack(t)
	for i := range open {
		open[i].establish(t, b)
	}
	require.NoError(t, d.Apply(t.Context(), c.Graph.Snapshot()), "seed %d", seed)
	wireCheck(t, b, d, e, open, seed, count)
	require.NoError(t, d.Teardown(t.Context()))
	require.NoError(t, d.Close())
}

// randomWireFlows makes up to n flows of a kind.
func randomWireFlows(c *nfttest.Cluster, e *verdict.Evaluator, n int, want func(verdict.Flow) bool) []wireFlow {
	l := wireFlows{used: map[string]bool{}}
	workloads := c.Workloads(e)
	for tries := 0; len(l.flows) < n && tries < 20*n; tries++ {
		if f, from, to := c.Flow(workloads); want(f) {
			l.add(f, from, to, c.IntN(6))
		}
	}
	return l.flows
}

// wireCheck compares the packets that pass with the evaluator.
func wireCheck(
	t *testing.T, b *wire, d *nft.Dataplane, e *verdict.Evaluator, flows []wireFlow, seed uint64, count wireCount,
) {
	t.Helper()
	for _, w := range flows {
		if w.OrigDst.IsValid() && impossible(w, e.Explain(w.Flow)) {
			continue
		}
		want, got := e.Evaluate(w.Flow).Combined != verdict.Deny, w.passes(t, b)
		count.add(w, want)
		if want != got {
			require.Equal(
				t, want, got, "seed %d: %s (reply %t, related %t)\n%s\n%s", seed, w.Flow, w.reply, w.related,
				e.Explain(w.Flow), d.Table(),
			)
		}
	}
}

// impossible reports whether a flow cannot be translated. This is so if policy allows the flow
// untracked. It is also so for a flow of the host if its outgoing interface has untracked policy.
// The reason is that the packet is not routed there before translation.
func impossible(w wireFlow, x *verdict.Explanation) bool {
	return slices.ContainsFunc(append(x.Stages, x.Egress, x.Ingress), func(d *verdict.Direction) bool {
		return d.Decision.By == verdict.ByInvalidFlow || d.Stage == verdict.StageUntracked &&
			(d.Outcome == verdict.Allow || w.from.Own)
	})
}
