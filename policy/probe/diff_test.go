// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

func TestDiffOfEqualWorlds(t *testing.T) {
	d, err := probe.Diff(exampleWorld(), exampleWorld(), probe.DiffConfig{})
	require.NoError(t, err)
	require.Empty(t, d.Pairs)
	require.Positive(t, d.Flows)
	require.Contains(t, d.String(), "no verdict changes\n")
	data, err := json.Marshal(d)
	require.NoError(t, err)
	require.Contains(t, string(data), `"rejected":[],"pairs":[]`)

	empty, err := probe.Diff(nil, nil, probe.DiffConfig{})
	require.NoError(t, err)
	require.Zero(t, empty.Flows)
}

// Endpoints that cannot be compared and resources that are absent are listed.
func TestDiffListsObjectsThatAreNotCompared(t *testing.T) {
	before, after := exampleWorld(), exampleWorld()
	moved := func(name, addr string) *policy.WorkloadEndpoint {
		return &policy.WorkloadEndpoint{
			Namespace: "shop", Name: name, Node: "n1", Interface: "i" + name,
			Addresses: []netip.Addr{netip.MustParseAddr(addr)},
		}
	}
	before.Set(moved("old", "10.0.0.8"), moved("moved", "10.0.0.3"))
	after.Set(moved("new", "10.0.0.9"), moved("moved", "10.0.0.4"), &policy.Tier{Name: "bad tier"})
	after.Set(&policy.Policy{Namespace: "shop", Name: "db", Selector: `app == "db"`})
	size := len(after)
	d, err := probe.Diff(before, after, probe.DiffConfig{})
	require.NoError(t, err)
	require.Equal(t, []string{"shop/old"}, d.OnlyBefore)
	require.Equal(t, []string{"shop/new"}, d.OnlyAfter)
	require.Equal(t, []string{"shop/moved"}, d.Moved)
	require.Len(t, d.Rejected, 1)
	require.Len(t, after, size, "the worlds do not change")
	require.Contains(t, d.String(), "shop/api -> shop/db\n  Deny, was Allow: tcp/5432\n")
	require.Contains(t, d.String(), "before only, not compared: shop/old\n")
	require.Contains(t, d.String(), "verdicts change between 1 pair\n")

	data, err := json.Marshal(d)
	require.NoError(t, err)
	var again probe.Difference
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, d.String()[:30], again.String()[:30])
	require.Equal(t, []string{"IPv4"}, again.Pairs[0].Changes[0].Ports[0].Families)
}

func TestDiffLimits(t *testing.T) {
	before := exampleWorld()
	after := maps.Clone(before)
	delete(after, policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "db"})
	var limit *probe.LimitError
	_, err := probe.Diff(before, after, probe.DiffConfig{MaxFlows: 3})
	require.ErrorAs(t, err, &limit)
	require.Equal(t, 3, limit.Limit)

	stop := errors.New("stop")
	_, err = probe.Diff(before, after, probe.DiffConfig{Progress: func(int, int) error { return stop }})
	require.ErrorIs(t, err, stop)

	ping, err := probe.ParsePort("icmp")
	require.NoError(t, err)
	d, err := probe.Diff(before, after, probe.DiffConfig{
		Ports: []probe.PortGroup{{Port: ping, Mentioned: true}}, Outside: []probe.Party{},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"icmp"}, d.Ports)
	require.Equal(t, [][]string{{"shop/api"}, {"shop/db"}}, d.Parties)
	require.Equal(t, verdict.Allow, d.Pairs[0].Changes[0].After)
}
