// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func smallConfig() config {
	return config{Nodes: 5, PodsPerNode: 6, Policies: 7, Processes: 2}
}

func TestEveryNodeHasTheSetOfTheChanges(t *testing.T) {
	w := newWorld(smallConfig())
	require.Len(t, w.pods, 30)
	require.Len(t, w.policies, 8)
	before := map[string]string{}
	for _, n := range w.nodes {
		state, err := w.state(n.Name)
		require.NoError(t, err)
		require.Contains(t, state, "dst ports 8000", n.Name)
		before[n.Name] = state
	}
	toggle(w.target.Labels)
	toggle(w.batch.Labels)
	w.editPort()
	for _, n := range w.nodes {
		state, err := w.state(n.Name)
		require.NoError(t, err)
		require.Contains(t, state, "dst ports 8001", n.Name)
		require.Contains(t, state, "nets ["+w.target.Status.PodIP+"/32]", n.Name)
		for _, a := range w.batchAddresses() {
			require.Contains(t, state, netip.PrefixFrom(a, 32).String(), n.Name)
		}
		require.NotEqual(t, before[n.Name], state)
	}
	require.Len(t, w.batchAddresses(), 12)
}

func TestToggleReturns(t *testing.T) {
	labels, address := map[string]string{}, podAddress(1)
	marks, patch := toggle(labels)
	require.Equal(t, mark("+10.0.0.1"), marks(address))
	require.Contains(t, patch, `"client":"true"`)
	require.Len(t, labels, 1)
	marks, patch = toggle(labels)
	require.Equal(t, mark("-10.0.0.1"), marks(address))
	require.Contains(t, patch, `"client":null`)
	require.Empty(t, labels)
}

func TestNodesAreShared(t *testing.T) {
	shares := nodeNames(config{Nodes: 5, Processes: 2})
	require.Equal(t, [][]string{
		{"node-00000", "node-00002", "node-00004"}, {"node-00001", "node-00003"},
	}, shares)
	require.Len(t, nodeNames(config{Nodes: 2, Processes: 4}), 2)
}

func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, err string }{
		{"--nodes 3 --backend etcd,etcd-proxy --scenario label,churn", ""},
		{"--backend all --scenario all", ""},
		{"--nodes 0", "--nodes must be positive"},
		{"--pods-per-node 1", "at least 2"},
		{"--nodes 1000000 --pods-per-node 100", "at most"},
		{"--backend consul", `no backend "consul"`},
		{"--scenario none", `no scenario "none"`},
		{"more", "unexpected arguments: more"},
	} {
		var out strings.Builder
		cfg, err := parse(strings.Fields(c.args), &out)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.args)
			continue
		}
		require.NoError(t, err, c.args)
		require.NotEmpty(t, cfg.Scenarios)
	}
	cfg, err := parse([]string{"--omit", "crds"}, io.Discard)
	require.NoError(t, err)
	require.Len(t, cfg.Omit, 11)
	require.NotContains(t, cfg.Omit, "networkpolicies.networking.k8s.io")
	var out strings.Builder
	require.Zero(t, command(t.Context(), []string{"--help"}, &out, &out))
	for _, s := range scenarios() {
		require.Contains(t, out.String(), s.what)
	}
}
