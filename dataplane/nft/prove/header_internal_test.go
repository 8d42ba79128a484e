// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/fieldwalk"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Each field of policy.Header is a header field of the table with the same name. Each field of
// policy.HeaderMatch has values of one of them.
func TestHeaderNames(t *testing.T) {
	n := newHeaderNames()
	flow := map[string]bool{}
	for h := range ruleset.HeaderField(ruleset.HeaderFields) {
		if index := n.flow[h]; index != nil {
			flow[reflect.TypeFor[verdict.Flow]().FieldByIndex(index).Name] = true
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policy.Header]()) {
		require.True(t, flow[f.Name], "no header field is %s of policy.Header", f.Name)
	}
	filled := policy.HeaderMatch{}
	fieldwalk.Fill(reflect.ValueOf(&filled).Elem())
	for i, leaf := range fieldwalk.Leaves(reflect.ValueOf(&filled).Elem()) {
		m, values := policy.HeaderMatch{}, 0
		fieldwalk.Leaves(reflect.ValueOf(&m).Elem())[i].Value.Set(leaf.Value)
		m.HeaderValues(func(string, uint64, uint64) { values++ })
		require.Positive(t, values, leaf.Path)
		n.mentioned(&m, func(ruleset.HeaderField, int, int) { values-- })
		require.Zero(t, values, "no header field has the values of %s", leaf.Path)
	}
	require.True(t, flow["ICMPType"] && flow["ICMPCode"])
}

// Flows get the values, and mentioned has all values of the rules.
func TestHeaderValues(t *testing.T) {
	n, typ, code := newHeaderNames(), 3, 4
	f := verdict.Flow{}
	n.set(&f, header{ruleset.HeaderDSCP: 46, ruleset.HeaderICMPType: 8, ruleset.HeaderICMPCode: 1})
	require.Equal(t, verdict.Flow{ICMPType: 8, ICMPCode: 1, Header: policy.Header{DSCP: 46}}, f)
	values := map[ruleset.HeaderField][]int{}
	n.mentioned(&policy.HeaderMatch{
		ICMP: &policy.ICMP{Type: &typ, Code: &code}, NotICMP: &policy.ICMP{Type: &code},
		DSCP: []policy.DSCP{1, 2}, NotDSCP: []policy.DSCP{3},
	}, func(h ruleset.HeaderField, first, last int) { values[h] = append(values[h], first, last) })
	require.Equal(t, map[ruleset.HeaderField][]int{
		ruleset.HeaderICMPType: {3, 3, 4, 4}, ruleset.HeaderICMPCode: {4, 4}, ruleset.HeaderDSCP: {1, 1, 2, 2, 3, 3},
	}, values)
}
