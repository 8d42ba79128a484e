// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// TestFlowtablesAreRefused: an Applier writes no flowtables, so it refuses a table that has one.
func TestFlowtablesAreRefused(t *testing.T) {
	const refused = "flowtable fast: an Applier writes no flowtables"
	ns := nstest.New(t)
	a, err := applier.New(applier.Config{Name: tableName, NetNS: ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	table, with := tenBy(10, rule(drop)), tenBy(10, rule(drop))
	with.Flowtables = []*ruleset.Flowtable{{Name: "fast"}}

	for range 2 {
		before := nft(t, ns, "", "list", "ruleset")
		require.ErrorContains(t, a.Apply(bg, with), refused)
		_, err = a.PlanTable(with)
		require.ErrorContains(t, err, refused)
		_, err = applier.Compare(bg, ns.FD(), with)
		require.ErrorContains(t, err, refused)
		delta := ruleset.NewState(with.Family, with.Name).DeltaTo(with)
		require.ErrorContains(t, a.Update(bg, delta), "flowtable fast: no operation adds it")
		require.ErrorContains(t, a.Update(bg, &ruleset.Delta{Chains: []*ruleset.Chain{{
			Name: "fast", Rules: []ruleset.Rule{rule(ruleset.FlowAdd{Flowtable: "fast"})},
		}}}), "no flowtable fast")
		require.Equal(t, before, nft(t, ns, "", "list", "ruleset"))

		require.NoError(t, a.Apply(bg, table), "the same without the flowtable")
		c, err := applier.Compare(bg, ns.FD(), table)
		require.NoError(t, err)
		require.True(t, c.Equal(), c)
	}
	require.Empty(t, a.Table().Flowtables)
}
