// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Each field of policy.Header and policy.HeaderMatch is a header field of the table, by its name.
func TestHeaderNames(t *testing.T) {
	n := newHeaderNames()
	flow, match := map[string]bool{}, map[string]bool{}
	for h := range ruleset.HeaderField(ruleset.HeaderFields) {
		if index := n.flow[h]; index != nil {
			flow[reflect.TypeFor[verdict.Flow]().FieldByIndex(index).Name] = true
		}
		for _, index := range n.match[h] {
			match[reflect.TypeFor[policy.HeaderMatch]().FieldByIndex(index).Name] = true
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policy.Header]()) {
		require.True(t, flow[f.Name], "no header field is %s of policy.Header", f.Name)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policy.HeaderMatch]()) {
		require.True(t, match[f.Name], "no header field is %s of policy.HeaderMatch", f.Name)
	}
	require.True(t, flow["ICMPType"] && flow["ICMPCode"])
}

// Flows get the values, and all values of rules are mentioned.
func TestHeaderValues(t *testing.T) {
	n := newHeaderNames()
	f := verdict.Flow{}
	n.set(&f, header{ruleset.HeaderDSCP: 46, ruleset.HeaderICMPType: 8, ruleset.HeaderICMPCode: 1})
	require.Equal(t, verdict.Flow{ICMPType: 8, ICMPCode: 1, Header: policy.Header{DSCP: 46}}, f)
	var values []int
	n.mentioned(&policy.HeaderMatch{DSCP: []policy.DSCP{1, 2}, NotDSCP: []policy.DSCP{3}},
		func(h ruleset.HeaderField, value int) {
			require.Equal(t, ruleset.HeaderDSCP, h)
			values = append(values, value)
		})
	require.Equal(t, []int{1, 2, 3}, values)
}
