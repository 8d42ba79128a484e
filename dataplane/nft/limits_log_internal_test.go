// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// Each limit is logged once when it is near, and again only after the use was clearly below it. The
// first group that becomes chains is logged too, and further groups only when their number doubles.
func TestLimitIsLoggedOnceWhileNear(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var l limitsLog
	group := func(cost int) render.ClassGroup {
		return render.ClassGroup{
			Direction: "ingress", Tiers: "tier default", Endpoints: 3, Cost: cost,
			Policy:   policy.Key{Kind: policy.KindPolicy, Name: "allow"},
			Endpoint: policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web-1"},
		}
	}
	update := func(total, largest, chainGroups, chainCost int) []string {
		out.Reset()
		s := render.ClassStats{
			Cost: total, MaxTotal: 1000, Largest: group(largest), MaxPerGroup: 100, ChainGroups: chainGroups,
		}
		if chainGroups > 0 {
			s.Chains = []render.ClassGroup{group(chainCost)}
		}
		l.update(log, s)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if lines[0] == "" {
			return nil
		}
		return lines
	}
	for _, step := range []struct {
		total, largest, chains, chainCost int
		want                              []string
	}{
		{total: 799, largest: 79},
		{total: 800, largest: 79, want: []string{"cost=800 limit=1000"}},
		{total: 790, largest: 80, want: []string{`cost=80 limit=100`}},
		{total: 810, largest: 71},
		{total: 700, largest: 90},
		{total: 1000, largest: 100},
		{total: 900, largest: 100, chains: 1, chainCost: 101, want: []string{`limit=100 option=MaxPerGroup`}},
		{total: 990, largest: 100},
		{total: 900, largest: 100, chains: 1, chainCost: 101},
		{total: 900, largest: 100, chains: 2, chainCost: 99, want: []string{`limit=1000 option=MaxTotal`}},
		{total: 900, largest: 100, chains: 3, chainCost: 99},
		{total: 699, largest: 69, chains: 1, chainCost: 101},
		{total: 699, largest: 69, want: []string{"lookups again"}},
		{total: 699, largest: 69},
		{total: 800, largest: 80, want: []string{"cost=800", "cost=80 "}},
	} {
		got := update(step.total, step.largest, step.chains, step.chainCost)
		require.Len(t, got, len(step.want), "%+v: %q", step, got)
		for i, want := range step.want {
			require.Contains(t, got[i], want, "%+v", step)
			if !strings.Contains(want, "again") {
				require.Contains(t, got[i], `ingress of WorkloadEndpoint/shop/web-1 and 2 more, tier default, `+
					`first policy Policy/allow`)
			}
		}
	}
	var none limitsLog
	out.Reset()
	none.update(log, render.ClassStats{}) // before the first change
	require.Empty(t, out.String())
}
