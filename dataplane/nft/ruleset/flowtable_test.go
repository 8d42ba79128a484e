// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// fastPath is a normalized table with flowtables, as String writes it.
const fastPath = `table inet fast-path {
	set uplinks {
		type ifname
		elements = { "up0" }
	}

	flowtable fast {
		hook ingress priority filter + 5
		devices = { "0x1", up0, way0 }
		counter
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
	require.Equal(t, &ruleset.Flowtable{
		Name: "fast", Priority: 5, Devices: []string{"0x1", "up0", "way0"}, Counter: true,
	}, table.Flowtables[0])
	without := parse(t, strings.Replace(fastPath, "\t\tcounter\n", "", 1))
	require.False(t, without.Flowtables[0].Counter)
	require.False(t, table.Equal(without))
	require.Equal(t, []ruleset.Statement{ruleset.FlowAdd{Flowtable: "fast"}}, table.Chains[0].Rules[0].Statements)
	quoted := strings.Replace(fastPath, "up0, way0", `"up0", "way0"`, 1)
	require.True(t, table.Equal(parse(t, quoted)))

	state, err := ruleset.StateOf(table)
	require.NoError(t, err)
	require.Equal(t, fastPath, state.Table().String())
	require.Equal(t, fastPath, state.Clone().Table().String())
}

// listedFastPath is a table in the format of nft 1.0.6, which sorts devices and prints no quotation
// marks. It was written by hand.
const listedFastPath = `table inet fast-path {
	flowtable fast { # handle 1
		hook ingress priority filter + 5
		devices = { eth0, way1 }
	}

	chain forward { # handle 2
		type filter hook forward priority filter; policy accept;
		ct state established flow add @fast # handle 3
	}
}
`

func TestParseListedFlowtable(t *testing.T) {
	table := parse(t, listedFastPath)
	require.NoError(t, table.Validate())
	require.Equal(t, []*ruleset.Flowtable{{Name: "fast", Priority: 5, Devices: []string{"eth0", "way1"}}},
		table.Flowtables)
	require.Equal(t, []ruleset.Statement{ruleset.FlowAdd{Flowtable: "fast"}}, table.Chains[0].Rules[0].Statements)
}

// TestParseFlowtablePriority: the priority does not depend on the family of the table.
func TestParseFlowtablePriority(t *testing.T) {
	for text, want := range map[string]int{
		"filter": 0, "filter + 10": 10, "filter - 20": -20, "0": 0, "5": 5, "-300": -300,
	} {
		for _, family := range []string{"inet", "ip", "ip6", "bridge"} {
			table := parse(t, "table "+family+" t { flowtable f { hook ingress priority "+text+"; }; }")
			require.Equal(t, want, table.Flowtables[0].Priority, "%s in family %s", text, family)
			require.True(t, table.Equal(parse(t, table.String())))
		}
	}
}

// TestFlowtableOrder: Diff and State ignore the order of flowtables and of their devices, and
// String keeps it.
func TestFlowtableOrder(t *testing.T) {
	table, other := parse(t, fastPath), parse(t, fastPath)
	slices.Reverse(other.Flowtables)
	slices.Reverse(other.Flowtables[1].Devices)
	text := other.String()
	require.Contains(t, text, `devices = { way0, up0, "0x1" }`)
	for _, pair := range [][2]*ruleset.Table{{table, other}, {other, table}} {
		ops, err := ruleset.Diff(pair[0], pair[1])
		require.NoError(t, err)
		require.Empty(t, ops)
	}
	state, err := ruleset.StateOf(other)
	require.NoError(t, err)
	require.Equal(t, fastPath, state.Table().String())
	require.Equal(t, text, other.String())
	other.Normalize()
	require.Equal(t, fastPath, other.String())
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

	_, err = ruleset.Diff(nil, less)
	require.EqualError(t, err, "ruleset: flowtable fast: no operation adds it\n"+
		"ruleset: flowtable none: no operation adds it")
	for want, change := range map[string]func(*ruleset.Table){
		"flowtable none: no operation deletes it": func(o *ruleset.Table) { o.Flowtables = o.Flowtables[:1] },
		"flowtable fast: no operation changes it": func(o *ruleset.Table) { o.Flowtables[0].Priority++ },
		"flowtable none: no operation changes it": func(o *ruleset.Table) { o.Flowtables[1].Devices = []string{"up1"} },
		"flowtable other: no operation adds it\n" +
			"ruleset: flowtable none: no operation deletes it": func(o *ruleset.Table) {
			o.Flowtables[1].Name = "other"
		},
		"flowtable more: no operation adds it": func(o *ruleset.Table) {
			o.Flowtables = append(o.Flowtables, &ruleset.Flowtable{Name: "more"})
			o.Chains[0].Rules[0].Statements[0] = ruleset.FlowAdd{Flowtable: "more"}
		},
		"a flowtable is nil": func(o *ruleset.Table) { o.Flowtables = append(o.Flowtables, nil) },
		"flowtable none: occurs twice": func(o *ruleset.Table) {
			o.Flowtables = append(o.Flowtables, o.Flowtables[1])
		},
	} {
		other := table.Clone()
		change(other)
		require.False(t, table.Equal(other))
		_, err = ruleset.Diff(table, other)
		require.EqualError(t, err, "ruleset: "+want)
	}
}

func TestValidateFlowtables(t *testing.T) {
	for want, change := range map[string]func(*ruleset.Table){
		"flowtable 0: not a name":      func(o *ruleset.Table) { o.Flowtables[1].Name = "0" },
		"flowtable fast: occurs twice": func(o *ruleset.Table) { o.Flowtables[1].Name = "fast" },
		"priority 4294967296":          func(o *ruleset.Table) { o.Flowtables[0].Priority = 1 << 32 },
		`"a/b" is not the name`:        func(o *ruleset.Table) { o.Flowtables[0].Devices[0] = "a/b" },
		"flowtable fast: in family":    func(o *ruleset.Table) { o.Family = ruleset.FamilyBridge },
		"flowtable fast: device up0 occurs twice": func(o *ruleset.Table) {
			o.Flowtables[0].Devices[2] = "up0"
		},
		"flowtable none: device up0 is in flowtable fast, too": func(o *ruleset.Table) {
			o.Flowtables[1].Devices = []string{"up0"}
		},
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
