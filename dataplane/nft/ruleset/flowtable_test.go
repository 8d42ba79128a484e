// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// fastPath is a table with a flowtable, as nft 1.0.6 lists it.
const fastPath = `table inet fast-path {
	set uplinks {
		type ifname
		elements = { "up0" }
	}

	flowtable fast {
		hook ingress priority filter + 5
		devices = { way0, up0, "0x1" }
	}

	flowtable none {
		hook ingress priority filter
	}

	chain forward {
		type filter hook forward priority 10000; policy accept;
		ct state == established oifname @uplinks flow add @fast
	}
}
`

// TestFlowtableText: nft 1.1 lists devices in quotation marks.
func TestFlowtableText(t *testing.T) {
	table := parse(t, fastPath)
	require.Equal(t, fastPath, table.String())
	require.NoError(t, table.Validate())
	require.Equal(t, &ruleset.Flowtable{Name: "fast", Priority: 5, Devices: []string{"way0", "up0", "0x1"}},
		table.Flowtables[0])
	require.Equal(t, []ruleset.Statement{ruleset.FlowAdd{Flowtable: "fast"}}, table.Chains[0].Rules[0].Statements)
	quoted := strings.Replace(fastPath, "way0, up0", `"way0", "up0"`, 1)
	require.True(t, table.Equal(parse(t, quoted)))

	state, err := ruleset.StateOf(table)
	require.NoError(t, err)
	require.Equal(t, fastPath, state.Table().String())
	require.Equal(t, fastPath, state.Clone().Table().String())
	table.Normalize()
	require.Equal(t, []string{"0x1", "up0", "way0"}, table.Flowtables[0].Devices)
}

// TestFlowtablesStay: the rules of a table with flowtables can change, its flowtables cannot.
func TestFlowtablesStay(t *testing.T) {
	table := parse(t, fastPath)
	less := table.Clone()
	less.Chains[0].Rules = nil
	ops, err := ruleset.Diff(table, less)
	require.NoError(t, err)
	require.Len(t, ops, 1)
	require.Equal(t, ruleset.DeleteRule, ops[0].Kind)

	const refused = "ruleset: other flowtables than before, for which there are no operations"
	_, err = ruleset.Diff(nil, less)
	require.EqualError(t, err, refused)
	for _, change := range []func(*ruleset.Table){
		func(o *ruleset.Table) { o.Flowtables = o.Flowtables[:1] },
		func(o *ruleset.Table) { o.Flowtables[0].Priority++ },
		func(o *ruleset.Table) { o.Flowtables[0].Devices[1] = "up1" },
		func(o *ruleset.Table) { o.Flowtables[1].Name = "other" },
	} {
		other := table.Clone()
		change(other)
		require.False(t, table.Equal(other))
		_, err = ruleset.Diff(table, other)
		require.EqualError(t, err, refused)
	}
}

func TestValidateFlowtables(t *testing.T) {
	for want, change := range map[string]func(*ruleset.Table){
		"flowtable 0: not a name":      func(o *ruleset.Table) { o.Flowtables[1].Name = "0" },
		"flowtable fast: occurs twice": func(o *ruleset.Table) { o.Flowtables[1].Name = "fast" },
		"priority 4294967296":          func(o *ruleset.Table) { o.Flowtables[0].Priority = 1 << 32 },
		`"a/b" is not the name`:        func(o *ruleset.Table) { o.Flowtables[0].Devices[0] = "a/b" },
		"flowtable fast: in family":    func(o *ruleset.Table) { o.Family = ruleset.FamilyBridge },
		"a flowtable is nil":           func(o *ruleset.Table) { o.Flowtables[1] = nil },
		"chain forward: rule 1: no fl": func(o *ruleset.Table) { o.Flowtables = o.Flowtables[1:] },
		"no flowtable fast":            func(o *ruleset.Table) { o.Flowtables = nil },
		"flow add is not the last": func(o *ruleset.Table) {
			r := &o.Chains[0].Rules[0]
			r.Statements = append(r.Statements, ruleset.Verdict{Kind: ruleset.Accept})
		},
	} {
		table := parse(t, fastPath)
		change(table)
		require.ErrorContains(t, table.Validate(), want)
	}
}
