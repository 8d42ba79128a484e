// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// nothing is the source of a closed Allow or Log rule.
var nothing = policy.EntityRule{NotNets: policy.Nets{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}

// S167: an error in a rule closes only that rule, and is recorded with its field.
func TestDecodeDoubts(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`"source":{"notNets":["::ffff:10.0.0.0%eth0/120"]}`, `egress[1].source.notNets[0]: parse net`},
		{`"protocol":0`, `egress[1].protocol: parse protocol "0"`},
		{`"ipVersion":0`, `egress[1].ipVersion: want 4 or 6, not 0`},
		{`"ipVersion":-0`, `egress[1].ipVersion: want 4 or 6, not 0`},
		{`"ipVersion":"4"`, `egress[1].ipVersion: want a number, not a string`},
		{`"protocol":256`, `egress[1].protocol: parse protocol "256"`},
		{`"protocol":null`, `egress[1].protocol: want a string or a number, not null`},
		{`"notProtocol":""`, `egress[1].notProtocol: parse protocol ""`},
		{`"destination":{"ports":[0]}`, `egress[1].destination.ports[0]: want a number from 1 to 65535, not 0`}, // S49
		{`"destination":{"ports":[80.5]}`, `egress[1].destination.ports[0]: want a number from 1 to 65535, not 80.5`},
		{
			`"destination":{"ports":["9:8"]}`,
			`egress[1].destination.ports[0]: parse port "9:8": the range ends before it starts`,
		},
		{`"destination":{"ports":80}`, `egress[1].destination.ports: want a list, not a number`},
		{`"destination":{"services":null}`, `egress[1].destination.services: want an object, not null`},
		{`"destination":{"services":{"selector":""}}`, `egress[1].destination.services.selector: unknown field`},
		{`"destination":{"services":["web"]}`, `egress[1].destination.services: want an object, not a list`},
		{`"destination":null`, `egress[1].destination: want an object, not null`},
		{`"icmp":{"type":1.5}`, `egress[1].icmp.type: want a whole number, not 1.5`},
		{`"icmp":null`, `egress[1].icmp: want an object, not null`},
		{`"metadata":` + strings.Repeat("[", 100) +
			strings.Repeat("]", 100), `egress[1].metadata: want an object, not a list`},
		{
			`"destination":{"ports":[80,99999]}`,
			`egress[1].destination.ports[1]: want a number from 1 to 65535, not 99999`,
		},
		{`"source":{"net":"10.0.0.0/8"}`, `egress[1].source.net: unknown field`},
		{`"protocol":"TCP","protocol":"UDP"`, `egress[1].protocol: given twice`},
		{`"action":"Allow"`, `egress[1].action: given twice`},
		{`"source":{"selector":"a == '\ud800'"}`, `egress[1].source.selector: the text is damaged`},
		{`"\ud800":1`, `unknown field`},
	} {
		for action, closed := range map[string]policy.Rule{
			"Allow": {Action: policy.Allow, Source: nothing}, "Log": {Action: policy.Log, Source: nothing},
			"Deny": {Action: policy.Deny}, "Pass": {Action: policy.Deny}, "Alow": {Action: policy.Deny},
			"": {Action: policy.Deny},
		} {
			in := fmt.Sprintf(
				`{"kind":"Policy","namespace":"ns","name":"p","egress":[{"action":"Allow"},{"action":%q,%s}]}`, action,
				c.in,
			)
			got, err := policy.Decode([]byte(in))
			require.NoError(t, err, in)
			p := got.(*policy.Policy)
			require.NoError(t, p.Validate(), "a closed rule is valid")
			require.Len(t, p.Egress, 2)
			require.ErrorContains(t, p.Doubts(), c.want)
			require.ErrorContains(t, p.Doubts(), "policy: in doubt: Policy/ns/p: ")
			rule := p.Egress[1]
			rule.Doubts = nil
			if strings.Contains(c.in, `"action"`) { // the action is unknown then
				closed = policy.Rule{Action: policy.Deny}
			}
			require.Equal(t, closed, rule, in)
			admitted, err := policy.Update{Key: p.Key(), Resource: p}.Admit()
			require.Equal(t, p.Doubts(), err)
			require.Same(t, p, admitted)
			back, err := policy.Decode(encode(t, p))
			require.NoError(t, err)
			require.Equal(t, got, back, "the doubts are part of the JSON form")
		}
	}
}

// S167: if the rules of a direction cannot be decoded, the direction denies everything.
func TestDecodeDoubtfulLists(t *testing.T) {
	for in, want := range map[string]string{
		`{"kind":"Policy","name":"p","ingress":5}`:         `ingress: want a list, not a number`,
		`{"kind":"Policy","name":"p","ingress":null}`:      `ingress: want a list, not null`,
		`{"kind":"Policy","name":"p","ingress":[null]}`:    `ingress[0]: want an object, not null`,
		`{"kind":"Policy","name":"p","ingress":["Allow"]}`: `ingress[0]: want an object, not a string`,

		`{"kind":"Policy","name":"p","ingress":[{"action":"Allow"}],"ingress":[]}`: `ingress: given twice`,
	} {
		got, err := policy.Decode([]byte(in))
		require.NoError(t, err, in)
		p := got.(*policy.Policy)
		require.ErrorContains(t, p.Doubts(), want)
		require.Len(t, p.Ingress, 1)
		require.Equal(t, policy.Deny, p.Ingress[0].Action)
		require.True(t, p.AppliesTo(policy.Ingress))
		require.False(t, p.AppliesTo(policy.Egress))
	}
}

// S167: with an error in the scope, the policy is absent. So is every other kind with an error
// (S101).
func TestDecodeScope(t *testing.T) {
	for in, field := range map[string]string{
		`{"kind":"Policy","name":"p","subject":"x","ingress":[{"action":"Deny"}]}`:     "subject",
		`{"kind":"Policy","name":"p","types":"Ingress","ingress":[{"action":"Deny"}]}`: "types",
		`{"kind":"Profile","name":"p","ingress":[{"action":"Deny","ports":[80]}]}`:     "ingress[0].ports",
	} {
		got, err := policy.Decode([]byte(in))
		require.Nil(t, got)
		var bad *policy.DecodeError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, field, bad.Problems[0].Field)
	}
}

// S167: an unknown performance hint changes nothing and is reported.
func TestUnknownHints(t *testing.T) {
	for _, hints := range []string{`["Fast"]`, `[5]`, `"AssumeNeededOnEveryNode"`} {
		got, err := policy.Decode(
			[]byte(`{"kind":"Policy","name":"p","ingress":[{"action":"Deny"}],"performanceHints":` + hints + `}`),
		)
		require.NoError(t, err)
		admitted, err := policy.Update{Key: got.Key(), Resource: got}.Admit()
		require.Same(t, got, admitted)
		require.ErrorContains(t, err, "performanceHints[0]: unknown hint")
		require.Equal(t, []policy.Rule{{Action: policy.Deny}}, got.(*policy.Policy).Ingress)
	}
}

// S167: Admit closes invalid rules of a policy made in Go, and does not change the original.
func TestAdmit(t *testing.T) {
	why := &policy.RuleMetadata{Annotations: map[string]string{"why": "x"}}
	faulty := policy.Rule{
		Protocol: policy.ProtocolTCP, Metadata: why,
		Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80), {}}},
	}
	deny, allow := faulty, faulty
	deny.Action, allow.Action = policy.Deny, policy.Allow
	p := &policy.Policy{
		Name: "p", Order: ptr(1.0), Ingress: []policy.Rule{allow, goodRule(), deny}, Egress: []policy.Rule{{}},
	}
	before := policy.Clone(p)
	got, err := policy.Update{Key: p.Key(), Resource: p}.Admit()
	require.Equal(t, before, p)
	var doubt *policy.DoubtError
	require.ErrorAs(t, err, &doubt)
	require.Equal(t, p.Key(), doubt.Key)
	var fields []string
	for _, problem := range doubt.Problems {
		fields = append(fields, problem.Field)
	}
	require.Equal(t, []string{"ingress[0].destination.ports[1]", "ingress[2].destination.ports[1]", "egress[0].action"},
		fields)
	admitted := got.(*policy.Policy)
	require.NoError(t, admitted.Validate())
	require.Equal(t, []policy.Rule{
		{Action: policy.Allow, Source: nothing, Metadata: why, Doubts: doubt.Problems[:1]},
		goodRule(),
		{Action: policy.Deny, Metadata: why, Doubts: doubt.Problems[1:2]},
	}, admitted.Ingress)
	require.Equal(t, []policy.Rule{{Action: policy.Deny, Doubts: doubt.Problems[2:]}}, admitted.Egress)
	again, err := policy.Update{Key: p.Key(), Resource: admitted}.Admit()
	require.Same(t, admitted, again)
	require.Equal(t, doubt, err)

	p.Selector = "a =="
	got, err = policy.Update{Key: p.Key(), Resource: p}.Admit()
	require.Nil(t, got)
	var invalid *policy.ValidationError
	require.ErrorAs(t, err, &invalid)
	require.Len(t, invalid.Problems, 4, "those of the rules are reported too")
}

// S167: too many rules become one closed rule. It denies, unless all of them are Allow or Log.
func TestAdmitTooManyRules(t *testing.T) {
	for _, c := range []struct {
		last policy.Action
		want policy.Rule
	}{
		{policy.Log, policy.Rule{Action: policy.Allow, Source: nothing}},
		{policy.Pass, policy.Rule{Action: policy.Deny}},
	} {
		rules := make([]policy.Rule, 10_001)
		for i := range rules {
			rules[i].Action = policy.Allow
		}
		rules[10_000].Action = c.last
		p := &policy.Policy{Name: "p", Ingress: rules}
		got, err := policy.Update{Key: p.Key(), Resource: p}.Admit()
		require.ErrorContains(t, err, "ingress: 10001 entries are more than 10000")
		require.Len(t, got.(*policy.Policy).Ingress, 1)
		rule := got.(*policy.Policy).Ingress[0]
		rule.Doubts = nil
		require.Equal(t, c.want, rule)
	}
}

// A rule with doubts that is not closed is invalid.
func TestDoubtsMustBeClosed(t *testing.T) {
	for name, r := range map[string]policy.Rule{
		"criteria": {
			Action: policy.Allow, Protocol: policy.ProtocolTCP, Doubts: []policy.Problem{{Field: "x", Msg: "y"}},
		},
		"allows everything":  {Action: policy.Allow, Doubts: []policy.Problem{{Msg: "y"}}},
		"control characters": {Action: policy.Deny, Doubts: []policy.Problem{{Msg: "\x1b[2J"}}},
		"too many":           {Action: policy.Deny, Doubts: make([]policy.Problem, 9)},
	} {
		p := &policy.Policy{Name: "p", Ingress: []policy.Rule{r}}
		require.Equal(t, []string{"ingress[0].doubts"}, problems(t, p), name)
		got, err := policy.Update{Key: p.Key(), Resource: p}.Admit()
		require.Error(t, err, name)
		require.NoError(t, got.Validate(), name)
		require.NotContains(t, err.Error(), "\x1b")
	}
	require.Equal(t, []string{"egress[0].doubts"}, problems(t, &policy.Profile{
		Name: "p", Egress: []policy.Rule{{Action: policy.Deny, Doubts: []policy.Problem{{Msg: "y"}}}},
	}))
}

// Admit returns a policy without doubts unchanged. Of other kinds, it returns the whole object or
// none (S101). An invalid profile with a built-in name denies (S34).
func TestAdmitOthers(t *testing.T) {
	for _, r := range good() {
		got, err := policy.Update{Key: r.Key(), Resource: r}.Admit()
		require.NoError(t, err)
		require.Same(t, r, got)
	}
	builtin := &policy.Profile{Name: policy.DefaultAllowProfile, Ingress: []policy.Rule{{}}}
	got, err := policy.Update{Key: builtin.Key(), Resource: builtin}.Admit()
	deny := []policy.Rule{{Action: policy.Deny}}
	require.Equal(t, &policy.Profile{Name: builtin.Name, Ingress: deny, Egress: deny}, got)
	var doubt *policy.DoubtError
	require.ErrorAs(t, err, &doubt)
	require.Equal(t, "ingress[0].action", doubt.Problems[0].Field)
	bad := &policy.Profile{Name: "p", Ingress: []policy.Rule{{}}}
	got, err = policy.Update{Key: bad.Key(), Resource: bad}.Admit()
	require.Nil(t, got)
	require.ErrorContains(t, err, "ingress[0].action")
	got, err = policy.Update{
		Key: policy.Key{Kind: policy.KindPolicy, Name: "q"}, Resource: &policy.Policy{Name: "p"},
	}.Admit()
	require.Nil(t, got)
	require.ErrorContains(t, err, "another key")
	got, err = policy.Update{Key: bad.Key(), Resource: (*policy.Policy)(nil)}.Admit()
	require.Nil(t, got)
	require.Error(t, err)
	got, err = policy.Update{Key: bad.Key()}.Admit()
	require.NoError(t, err)
	require.Nil(t, got)
}
