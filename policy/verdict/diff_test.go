// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

func TestDiff(t *testing.T) {
	before := worldOf(wep("n/web", "10.0.0.1", "app=web"), wep("n/db", "10.0.0.2", ""),
		ingress("p", tcpTo(policy.Allow, 80)))
	after := maps.Clone(before)
	after.Set(ingress("p", tcpTo(policy.Allow, 443)))
	flows := func(lines ...string) []verdict.Flow {
		var out []verdict.Flow
		for _, line := range lines {
			out = append(out, flowOf(t, line))
		}
		return out
	}
	all := flows("tcp 10.0.0.9 10.0.0.1:443", "tcp 10.0.0.9 10.0.0.1:22", "tcp 10.0.0.9 10.0.0.1:80",
		"tcp 10.0.0.2 10.0.0.1:80")
	changes := verdict.Diff(before, after, all)
	require.Len(t, changes, 3)
	// In the order of the flows.
	require.Equal(t, []verdict.Flow{all[0], all[2], all[3]},
		[]verdict.Flow{changes[0].Flow, changes[1].Flow, changes[2].Flow})
	require.Equal(t, verdict.Explain(before, all[0]), changes[0].Before)
	require.Equal(t, verdict.Explain(after, all[0]), changes[0].After)
	// The last one is denied before and after, but not on both sides.
	require.Equal(t, verdict.Deny, changes[2].Before.Result.Combined)
	require.Equal(t, verdict.Deny, changes[2].After.Result.Combined)
	require.NotEqual(t, changes[2].Before.Result.Ingress, changes[2].After.Result.Ingress)

	require.Empty(t, verdict.Diff(before, before, all))
	require.Empty(t, verdict.Diff(before, after, nil))
	// Another rule with the same meaning is no change.
	same := maps.Clone(before)
	same.Set(ingress("p", tcpTo(policy.Allow, 80), log()), ingress("q"))
	require.Empty(t, verdict.Diff(before, same, all))
	// The flow in a change is the one in the call, not its canonical form.
	mapped := flows("tcp ::ffff:10.0.0.9 [::ffff:10.0.0.1]:443")
	require.Equal(t, mapped[0], verdict.Diff(before, after, mapped)[0].Flow)
}

func TestDiffEvaluators(t *testing.T) { // with settings that allow workloads to reach their hosts
	w := worldOf(onNode()...)
	open, err := verdict.NewConfigured(w, verdict.Config{
		Host: policy.HostConfig{EndpointToHostAction: policy.HostAccept},
	})
	require.NoError(t, err)
	changes := verdict.DiffEvaluators(verdict.New(w), open, []verdict.Flow{flowOf(t, podToHost), flowOf(t, podToPod)})
	require.Len(t, changes, 1)
	require.Equal(t, verdict.Allow, changes[0].After.Result.Combined)
}

func TestChangeForms(t *testing.T) {
	after := blocked(t)
	p := after[policy.Key{Kind: policy.KindStagedPolicy, Namespace: "shop", Name: "soon"}].(*policy.Policy)
	delete(after, p.Key())
	p = policy.Clone(p).(*policy.Policy)
	p.Staged = false
	after.Set(p)
	changes := verdict.Diff(blocked(t), after,
		[]verdict.Flow{flowOf(t, "tcp 10.0.0.2 10.0.0.1:80"), flowOf(t, "udp 10.0.0.1 10.0.0.3:53")})
	require.Len(t, changes, 1)
	golden(t, "change.txt", changes[0].String())
	data, err := json.MarshalIndent(changes[0], "", "  ")
	require.NoError(t, err)
	golden(t, "change.json", string(data)+"\n")
	var back verdict.Change
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, changes[0], back)
}
