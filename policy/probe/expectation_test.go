// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

func TestExpectationJSON(t *testing.T) {
	var x probe.Expectation
	text := `{"name":"n","from":["a/b"],"to":["c/d","e/f"],"port":["tcp/80","icmp"],"allow":true}`
	require.NoError(t, json.Unmarshal([]byte(text), &x))
	data, err := json.Marshal(x)
	require.NoError(t, err)
	require.Equal(t, text, string(data))
	require.Equal(t, "n: a/b -> c/d, e/f tcp/80, icmp: allowed", x.String())

	for _, row := range []struct{ text, says string }{
		{`{"from":"a/b","to":"c/d","port":"icmp"}`, "allow is missing"},
		{`{"to":"c/d","port":"icmp","allow":true}`, "from is missing"},
		{`{"from":"a/b","port":"icmp","allow":true}`, "to is missing"},
		{`{"name":"x","from":"a/b","to":"c/d","allow":true}`, `expectation "x": port is missing`},
		{`{"from":[],"to":"c/d","port":"icmp","allow":true}`, "the list is empty"},
		{`{"from":null,"to":"c/d","port":"icmp","allow":true}`, "empty"},
		{`{"from":[""],"to":"c/d","port":"icmp","allow":true}`, "a text is empty"},
		{`{"from":"a/b","to":"c/d","port":80,"allow":true}`, "want a text"},
		{`{"from":"a/b","to":"c/d","port":"tcp","allow":true}`, `port: "tcp"`},
		{`{"from":"a/b","to":"c/d","port":"icmp","allow":true,"deny":1}`, `unknown field "deny"`},
		{`[]`, "expectation: "},
	} {
		require.ErrorContains(t, json.Unmarshal([]byte(row.text), &probe.Expectation{}), row.says, row.text)
	}
}

func TestCheck(t *testing.T) {
	world := exampleWorld()
	index, e := probe.NewIndex(world), verdict.New(world)
	ping, err := probe.ParsePort("icmp")
	require.NoError(t, err)
	x := probe.Expectation{From: []string{"shop/api"}, To: []string{"shop/db"}, Ports: []probe.Port{ping}}
	r, err := x.Check(index, e)
	require.NoError(t, err)
	require.True(t, r.Holds)
	require.Equal(t, "ok   shop/api -> shop/db icmp: denied (1 flow)\n", r.String())

	x.Allow = true
	r, err = x.Check(index, e)
	require.NoError(t, err)
	require.False(t, r.Holds)
	require.Contains(t, r.String(),
		"FAIL shop/api -> shop/db icmp: allowed (1 flow)\n     shop/api -> shop/db icmp: Deny\n")
	require.Contains(t, r.String(), "Policy/shop/db: nothing matches")

	data, err := json.Marshal(r)
	require.NoError(t, err)
	var again probe.Result
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, r.Expectation, again.Expectation)
	require.Equal(t, "Deny", string(again.Failed[0].Outcome))

	for _, row := range []struct {
		from []string
		says string
	}{
		{[]string{"shop/no"}, `"shop/no"`},
		{[]string{"shop/db"}, "shop/db and shop/db are the same party"},
		{[]string{"fd00::1"}, "fd00::1 has no flow to shop/db on icmp"},
		{nil, "want a sender"},
	} {
		x.From = row.from
		_, err = x.Check(index, e)
		require.ErrorContains(t, err, row.says)
	}
}
