// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// TestGoldensLoad loads the golden file of each scenario with nft.
func TestGoldensLoad(t *testing.T) { nfttest.EachForm(t, testGoldensLoad) }

func testGoldensLoad(t *testing.T, classes render.ClassesConfig) {
	for _, sc := range nfttest.Scenarios(classes) {
		t.Run(sc.Name, func(t *testing.T) {
			text, err := os.ReadFile(sc.Golden("render/testdata"))
			require.NoError(t, err)
			load(t, nstest.New(t), string(text))
		})
	}
}

// TestDiffInKernel plays the difference between each scenario and the next, forth and back, to nft: what is
// there afterwards is what loading the second alone gives.
func TestDiffInKernel(t *testing.T) { nfttest.EachFormInParallel(t, testDiffInKernel) }

func testDiffInKernel(t *testing.T, classes render.ClassesConfig) {
	var last *ruleset.Table
	for _, sc := range nfttest.Scenarios(classes) {
		if sc.Config.Table != "" {
			continue // blocks knows the usual name only
		}
		table, _ := nfttest.Rendered(t, sc.Config, sc.Batches...)
		requireDiff(t, last, table)
		requireDiff(t, table, last)
		ops, err := ruleset.Diff(table, table.Clone())
		require.NoError(t, err)
		require.Empty(t, ops)
		last = table
	}
}

// TestRandomDiffInKernel does the same with random states, one after the other.
func TestRandomDiffInKernel(t *testing.T) { nfttest.EachFormInParallel(t, testRandomDiffInKernel) }

func testRandomDiffInKernel(t *testing.T, classes render.ClassesConfig) {
	w := nfttest.NewWorld(1, 2)
	old, _ := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(w.State()))
	for range 12 {
		new, _ := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(w.State()))
		requireDiff(t, old, new)
		old = new
	}
	requireDiff(t, old, nil)
	requireDiff(t, nil, old)
}

// requireDiff plays the difference to nft. A nil table is no table.
func requireDiff(t *testing.T, old, new *ruleset.Table) {
	t.Helper()
	ops, err := ruleset.Diff(old, new)
	require.NoError(t, err)
	diff := ruleset.Script(ops)
	require.Equal(t, old.Equal(new), diff == "", "diff:\n%s", diff)
	patched, fresh := nstest.New(t), nstest.New(t)
	if old != nil {
		load(t, patched, old.String())
	}
	load(t, patched, diff)
	if new != nil {
		load(t, fresh, new.ReplaceScript())
	}
	require.Equal(t, blocks(list(t, fresh)), blocks(list(t, patched)), "diff:\n%s", diff)
}

// blocks splits a listing into its sets and chains, sorted: their order is that of their making.
func blocks(listing string) []string {
	out := strings.Split(listing, "\n\n")
	for i := range out {
		out[i] = strings.TrimSuffix(strings.TrimPrefix(out[i], "table inet wayleave {\n"), "\n}\n")
	}
	slices.Sort(out)
	return out
}
