// SPDX-License-Identifier: Apache-2.0

package flows_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/flows"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// A pattern pairs no pod with itself.
func TestPatternPairsNoPodWithItself(t *testing.T) {
	world := verdict.World{}
	for name, addr := range map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"} {
		e := &policy.WorkloadEndpoint{Namespace: "cni", Name: name, Node: "n", Interface: "way" +
			name, Addresses: []netip.Addr{netip.MustParseAddr(addr)}}
		world[e.Key()] = e
	}
	list, err := flows.Parse(world, "cni/*", "cni/*", "tcp/80")
	require.NoError(t, err)
	require.Len(t, list, 2)
	for _, flow := range list {
		require.NotEqual(t, flow.Src, flow.Dst)
	}
	list, err = flows.Parse(world, "cni/*", "cni/b", "tcp/80")
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, err = flows.Parse(world, "cni/a*", "cni/a", "tcp/80")
	require.ErrorContains(t, err, "policy does not apply to what a pod sends to itself")
	list, err = flows.Parse(world, "cni/a", "cni/a", "tcp/80")
	require.NoError(t, err)
	require.Len(t, list, 1, "a pod can be named explicitly on both sides")
}
