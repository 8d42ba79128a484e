// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"math/rand/v2"
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

// TestGolden holds the rendered text of each scenario against its file, which nft must load. With
// -update it writes the files.
func TestGolden(t *testing.T) { nfttest.EachForm(t, testGolden) }

func testGolden(t *testing.T, classes render.ClassesConfig) {
	for _, sc := range scenarios(classes) {
		t.Run(sc.name, func(t *testing.T) {
			table, errs := rendered(t, sc.config, sc.batches...)
			require.Empty(t, errs)
			file := sc.golden()
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(table.String()), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), table.String())
			load(t, nstest.New(t), table.String())
		})
	}
}

// TestDiffInKernel plays the difference between each scenario and the next, forth and back, to nft: what is
// there afterwards is what loading the second alone gives.
func TestDiffInKernel(t *testing.T) { nfttest.EachFormInParallel(t, testDiffInKernel) }

func testDiffInKernel(t *testing.T, classes render.ClassesConfig) {
	var last *ruleset.Table
	for _, sc := range scenarios(classes) {
		if sc.config.Table != "" {
			continue // blocks knows the usual name only
		}
		table, _ := rendered(t, sc.config, sc.batches...)
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
	w := world{rand.New(rand.NewPCG(1, 2))}
	old, _ := rendered(t, render.Config{Classes: classes}, transition(w.state()))
	for range 12 {
		new, _ := rendered(t, render.Config{Classes: classes}, transition(w.state()))
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
