// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// S176: a code point is a number from 0 to 63, including 0.
func TestDSCP(t *testing.T) {
	for n := range policy.MaxDSCP + 1 {
		data, err := json.Marshal(n)
		require.NoError(t, err)
		require.Equal(t, n.String(), string(data))
		var back policy.DSCP
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, n, back)
	}
	for _, in := range []string{"64", "256", "-1", "46.0", "4e1", "null", "true", `"46"`, `"EF"`, "[]"} {
		var d policy.DSCP
		require.Error(t, json.Unmarshal([]byte(in), &d), in)
	}
}

// S176: rules have lists of code points.
func TestDecodeDSCP(t *testing.T) {
	const head, tail = `{"kind":"Policy","name":"p","ingress":[{"action":"Allow",`, `}]}`
	r, err := policy.Decode([]byte(head + `"dscp":[46,0],"notDSCP":[10]` + tail))
	require.NoError(t, err)
	require.NoError(t, r.Validate())
	rule := r.(*policy.Policy).Ingress[0]
	require.Equal(t, policy.Rule{
		Action: policy.Allow, HeaderMatch: policy.HeaderMatch{DSCP: []policy.DSCP{46, 0}, NotDSCP: []policy.DSCP{10}},
	}, rule)
	data, err := policy.Encode(r)
	require.NoError(t, err)
	require.Contains(t, string(data), `"dscp":[46,0],"notDSCP":[10]`)

	for bad, field := range map[string]string{
		`"dscp":[64]`:        "ingress[0].dscp[0]",
		`"dscp":[1,-1]`:      "ingress[0].dscp[1]",
		`"notDSCP":["EF"]`:   "ingress[0].notDSCP[0]",
		`"dscp":46`:          "ingress[0].dscp",
		`"dscp":null`:        "ingress[0].dscp",
		`"notdscp":[46]`:     "ingress[0].notdscp",
		`"dscp":[1],"dscp":`: "",
	} {
		r, err := policy.Decode([]byte(head + bad + tail))
		if err == nil { // The rule is in doubt (S167), the policy is not.
			err = r.(*policy.Policy).Doubts()
		}
		require.ErrorContains(t, err, field, bad)
	}
}

func TestValidateDSCP(t *testing.T) {
	rule := func(dscp, not []policy.DSCP) *policy.Policy {
		m := policy.HeaderMatch{DSCP: dscp, NotDSCP: not}
		return &policy.Policy{Name: "p", Ingress: []policy.Rule{{Action: policy.Allow, HeaderMatch: m}}}
	}
	all := make([]policy.DSCP, 64)
	for i := range all {
		all[i] = policy.DSCP(i)
	}
	require.NoError(t, rule(all, all).Validate())
	require.Equal(t, []string{"ingress[0].dscp[1]"}, problems(t, rule([]policy.DSCP{63, 64}, nil)))
	require.Equal(t, []string{"ingress[0].notDSCP[0]"}, problems(t, rule(nil, []policy.DSCP{255})))
	require.Equal(t, []string{"ingress[0].dscp"}, problems(t, rule(slices.Concat(all, all[:1]), nil)))
}

// Rules without DSCP keep their IDs. Lists with the same values, but divided differently, have
// different IDs.
func TestRuleIDsOfDSCP(t *testing.T) {
	rules := []policy.Rule{
		{Action: policy.Allow},
		{Action: policy.Allow, HeaderMatch: ofDSCP(0)},
		{Action: policy.Allow, HeaderMatch: notDSCP(0)},
		{Action: policy.Allow, HeaderMatch: ofDSCP(0, 0)},
		{Action: policy.Allow, HeaderMatch: policy.HeaderMatch{DSCP: []policy.DSCP{0}, NotDSCP: []policy.DSCP{0}}},
		{Action: policy.Allow},
		{Action: policy.Allow},
		{Action: policy.Allow},
		{Action: policy.Allow},
	}
	ids := policy.RuleIDs(policy.Key{Kind: policy.KindPolicy, Name: "p"}, policy.Ingress, rules)
	slices.Sort(ids)
	require.Len(t, slices.Compact(ids), len(rules))
}

func ofDSCP(list ...policy.DSCP) policy.HeaderMatch  { return policy.HeaderMatch{DSCP: list} }
func notDSCP(list ...policy.DSCP) policy.HeaderMatch { return policy.HeaderMatch{NotDSCP: list} }
