// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// TestCasesInKernel programs the table of every world of the numbered cases and of every step of
// the scripts. The kernel lists the same table whether nft loads its text or the Applier programs
// it step by step.
func TestCasesInKernel(t *testing.T) { nfttest.EachFormInParallel(t, testCasesInKernel) }

func testCasesInKernel(t *testing.T, classes render.ClassesConfig) {
	for _, n := range nfttest.NumberedCases(t, "render/testdata") {
		t.Run(n.Name, func(t *testing.T) {
			ns := nstest.New(t)
			check := func(c *nfttest.Cluster) { requireSameListing(t, ns, c.State.Table()) }
			n.Run(t, classes, check, func(*nfttest.Cluster, string) {})
		})
	}
	for _, s := range nfttest.ReadScripts(t, "render/testdata") {
		t.Run(s.Name(), func(t *testing.T) {
			ns, c := nstest.New(t), nfttest.NewScriptNode(t, classes)
			for _, updates := range s.Steps(t) {
				c.Play(t, updates)
				requireSameListing(t, ns, c.State.Table())
			}
		})
	}
}

func requireSameListing(t *testing.T, ours *netns.NS, table *ruleset.Table) {
	t.Helper()
	theirs := nstest.New(t)
	load(t, theirs, table.String())
	require.NoError(t, write(ours, table))
	require.Equal(t, blocks(list(t, theirs)), blocks(list(t, ours)))
}
