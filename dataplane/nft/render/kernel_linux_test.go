// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// TestGoldensLoad loads the golden file of each scenario with nft.
func TestGoldensLoad(t *testing.T) { nfttest.EachForm(t, testGoldensLoad) }

func testGoldensLoad(t *testing.T, classes render.ClassesConfig) {
	for _, sc := range scenarios(classes) {
		t.Run(sc.Name, func(t *testing.T) {
			text, err := os.ReadFile(sc.golden("testdata"))
			require.NoError(t, err)
			load(t, nstest.New(t), string(text))
		})
	}
}

// TestDiffInKernel loads the difference between each scenario and the next with nft, in both
// directions. The resulting table equals the second scenario's.
func TestDiffInKernel(t *testing.T) { nfttest.EachFormInParallel(t, testDiffInKernel) }

func testDiffInKernel(t *testing.T, classes render.ClassesConfig) {
	var last *ruleset.Table
	for _, sc := range scenarios(classes) {
		if sc.Config.Table != "" {
			continue // Diff needs tables with one name
		}
		table, _ := sc.rendered(t)
		requireDiff(t, last, table)
		requireDiff(t, table, last)
		again, _ := sc.rendered(t)
		ops, err := ruleset.Diff(table, again)
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

// requireDiff loads the difference with nft. A nil table means no table.
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
	want, got := nfttest.Blocks(nfttest.Listing(t, fresh)), nfttest.Blocks(nfttest.Listing(t, patched))
	require.Equal(t, want, got, "diff:\n%s", diff)
}

// The table that Apply programs for each scenario has the same listing as the golden file that nft
// loads.
func TestApplyListsLikeGoldens(t *testing.T) {
	nfttest.EachFormInParallel(t, testApplyListsLikeGoldens)
}

func testApplyListsLikeGoldens(t *testing.T, classes render.ClassesConfig) {
	for _, sc := range scenarios(classes) {
		t.Run(sc.Name, func(t *testing.T) {
			golden, err := os.ReadFile(sc.golden("testdata"))
			require.NoError(t, err)
			ours, theirs := nstest.New(t), nstest.New(t)
			load(t, theirs, string(golden))
			name := sc.program(t, ours).Name
			require.Equal(t, nfttest.Blocks(nfttest.TableListing(t, theirs, name)),
				nfttest.Blocks(nfttest.TableListing(t, ours, name)))
		})
	}
}

// program applies a scenario in a namespace, and returns the table.
func (sc scenario) program(t *testing.T, ns *netns.NS) *ruleset.Table {
	t.Helper()
	// Fixed interfaces: modules such as ipip add a device to each namespace.
	interfaces := func() (map[string]render.Interface, error) { return ports(sc.Ports), nil }
	d, err := nft.New(nft.Config{Renderer: sc.Config, NetNS: ns.FD(), Interfaces: interfaces})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	for _, b := range sc.Batches {
		require.NoError(t, d.Apply(t.Context(), b))
	}
	return d.Table()
}

// TestListingsAreComplete checks that nft lists all objects that Apply programs for each scenario.
// scripts/test-nft runs it with the nft of several Debian releases. Older ones cannot load the
// golden files.
func TestListingsAreComplete(t *testing.T) { nfttest.EachForm(t, testListingsAreComplete) }

func testListingsAreComplete(t *testing.T, classes render.ClassesConfig) {
	for _, sc := range scenarios(classes) {
		t.Run(sc.Name, func(t *testing.T) {
			ns := nstest.New(t)
			table := sc.program(t, ns)
			listing := nstest.NFT(t, ns, "", "list", "table", "inet", table.Name)
			require.NotRegexp(t, `\[(unknown|invalid)`, listing)
			for _, s := range table.Sets {
				require.Regexp(t, `\n\t(set|map) `+regexp.QuoteMeta(s.Name)+` \{\n`, listing)
			}
			for _, c := range table.Chains {
				_, body, found := strings.Cut(listing, "\n\tchain "+c.Name+" {")
				require.True(t, found, "chain %s in %s", c.Name, listing)
				body, _, _ = strings.Cut(body, "\n\t}\n")
				lines := regexp.MustCompile(`(?m)^\t\t[^\t]`).FindAllString(body, -1)
				require.Len(t, lines, len(c.Rules)+hooks(c), body)
			}
		})
	}
}

// hooks returns the number of lines with a hook in a listing.
func hooks(c *ruleset.Chain) int {
	if c.Hook != nil {
		return 1
	}
	return 0
}

// load loads a text with nft -f.
func load(t *testing.T, ns *netns.NS, text string) {
	t.Helper()
	nstest.NFT(t, ns, text, "-f", "-")
}
