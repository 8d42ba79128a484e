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

// TestCasesInKernel has the kernel take the table of every world of the numbered cases and of every
// step of the scripts: it lists the same whether nft reads the table's text or our applier is led
// from one to the next.
func TestCasesInKernel(t *testing.T) { nfttest.EachFormInParallel(t, testCasesInKernel) }

func testCasesInKernel(t *testing.T, classes render.ClassesConfig) {
	for _, n := range numberedCases(t) {
		t.Run(n.name, func(t *testing.T) {
			ns := nstest.New(t)
			n.run(t, classes, func(c *cluster) { requireTaken(t, ns, c.state.Table()) })
		})
	}
	for _, s := range readScripts(t) {
		t.Run(s.name(), func(t *testing.T) {
			ns, c := nstest.New(t), scriptNode(t, classes)
			for _, updates := range s.steps(t) {
				c.play(t, updates)
				requireTaken(t, ns, c.state.Table())
			}
		})
	}
}

func requireTaken(t *testing.T, ours *netns.NS, table *ruleset.Table) {
	t.Helper()
	theirs := nstest.New(t)
	load(t, theirs, table.String())
	require.NoError(t, write(ours, table))
	require.Equal(t, blocks(list(t, theirs)), blocks(list(t, ours)))
}
