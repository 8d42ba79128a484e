// SPDX-License-Identifier: Apache-2.0

package prove_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/prove"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

func TestConfigIsChecked(t *testing.T) {
	_, err := prove.Table(t.Context(), prove.Config{})
	require.EqualError(t, err, "prove: Config.World: required\nprove: Config.Node: required\n"+
		"prove: Config.Table: required")
	table := rendered(t, render.Config{}, shop())
	_, err = prove.Table(t.Context(), prove.Config{World: shop(), Node: node, Table: table, Verdict: verdict.Config{
		Host: policy.HostConfig{EndpointToHostAction: "maybe"},
	}})
	require.ErrorContains(t, err, "maybe")
	table.Chains = table.Chains[1:]
	_, err = prove.Table(t.Context(), prove.Config{World: shop(), Node: node, Table: table})
	require.Error(t, err)
}

// The table of a node without objects in the world agrees with policy.
func TestNodeWithoutObjects(t *testing.T) {
	for name, w := range map[string]verdict.World{"no objects": {}, "objects of another node": shop()} {
		table := rendered(t, render.Config{}, verdict.World{})
		r, err := prove.Table(t.Context(), prove.Config{World: w, Node: "new", Table: table})
		require.NoError(t, err, name)
		require.Positive(t, r.Packets, name)
		require.True(t, r.Agrees(), "%s: %s", name, r)
	}
}

// The proof ends when the context is done, and when Progress returns an error.
func TestProofEnds(t *testing.T) {
	w := shop()
	cfg := prove.Config{World: w, Node: node, Table: rendered(t, render.Config{}, w)}
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Progress = func(done, all int) error {
		require.LessOrEqual(t, done, all)
		cancel()
		return nil
	}
	_, err := prove.Table(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	_, err = prove.Table(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled, "before the first step")

	failure := errors.New("enough")
	calls := 0
	cfg.Progress = func(int, int) error {
		calls++
		return failure
	}
	_, err = prove.Table(t.Context(), cfg)
	require.ErrorIs(t, err, failure)
	require.Less(t, calls, 5)
}

// Progress counts up to all steps.
func TestProgress(t *testing.T) {
	w := shop()
	var last, steps int
	_, err := prove.Table(t.Context(), prove.Config{
		World: w, Node: node, Table: rendered(t, render.Config{}, w), Progress: func(done, all int) error {
			require.Equal(t, last+1, done)
			last, steps = done, all
			return nil
		},
	})
	require.NoError(t, err)
	require.Equal(t, steps, last)
}

// A report has a limited number of differences, each with the reasons of policy and of the table,
// as text and as JSON.
func TestReport(t *testing.T) {
	w := shop()
	table := rendered(t, render.Config{}, w)
	require.True(t, deleted("workload-sends", "VXLAN")(table))
	r, err := prove.Table(t.Context(), prove.Config{World: w, Node: node, Table: table, Limit: 2})
	require.NoError(t, err)
	require.Len(t, r.Differences, 2)
	require.Greater(t, r.Different, int64(2))
	d := r.Differences[0]
	require.True(t, d.Allowed)
	require.Equal(t, verdict.Deny, d.Explanation.Result.Combined)
	require.Equal(t, verdict.ByEncapsulation, d.Explanation.Egress.Decision.By)
	require.Contains(t, r.String(), "policy: Deny; table: accepts")
	require.Contains(t, r.String(), "policy and table differ for")
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var again prove.Report
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, r.Packets, again.Packets)
	require.Equal(t, d.Steps, again.Differences[0].Steps)
}

// Differences between the settings of the node and those of the table are found.
func TestSettings(t *testing.T) {
	w := shop()
	all := []policy.HostConfig{
		{},
		{EndpointToHostAction: policy.HostAccept},
		{EndpointToHostAction: policy.HostReturn},
		{HostToEndpointAction: policy.HostDrop},
		{HostToEndpointAction: policy.HostReturn},
		{AllowVXLANFromWorkloads: true},
		{AllowIPIPFromWorkloads: true},
		{VXLANPort: 8472},
		{VXLANFromNodesOnly: true},
		{IPIPFromNodesOnly: true},
	}
	for i, host := range all {
		table := rendered(t, render.Config{Host: host}, w)
		for j, other := range all {
			r, err := prove.Table(t.Context(), prove.Config{
				World: w, Node: node, Table: table, Verdict: verdict.Config{Host: other}, Limit: 1,
			})
			require.NoError(t, err)
			accepts := i+j == 3 && i*j == 2 // for a process that nothing else denies, both have the same result
			require.Equal(t, i == j || accepts, r.Agrees(), "%+v, %+v\n%s", host, other, r)
		}
	}
}

// The packets of an endpoint that the table lacks drop. Those of an endpoint that only the table
// has pass.
func TestTableOfAnotherWorldDiffers(t *testing.T) {
	w := shop()
	whole := rendered(t, render.Config{}, w)
	part := shop()
	delete(part, policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "front-2"})
	require.False(t, proved(t, w, rendered(t, render.Config{}, part)).Agrees())
	require.False(t, proved(t, part, whole).Agrees())
	delete(part, policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "db"})
	require.False(t, proved(t, w, rendered(t, render.Config{}, part)).Agrees())
}
