// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// S178: an address is in the set as long as a node has it, also in a clone.
func TestNodeAddresses(t *testing.T) {
	r, err := render.New(render.Config{Host: policy.HostConfig{VXLANFromNodesOnly: true}})
	require.NoError(t, err)
	step := func(e dataplane.Event, want ...string) {
		t.Helper()
		r.Flush()
		require.False(t, r.Pending())
		r.Update(dataplane.Batch{Events: []dataplane.Event{e}})
		require.True(t, r.Pending())
		require.ElementsMatch(t, want, nodeAddresses(t, r))
		require.ElementsMatch(t, want, nodeAddresses(t, r.Clone()))
	}
	node := func(name string, nets ...string) dataplane.Event {
		return &dataplane.NodeUpdate{Node: &dataplane.Node{Name: name, Addresses: nfttest.Nets(nets...)}}
	}
	step(node("a", "192.0.2.1/24"), "192.0.2.1")
	step(node("b", "192.0.2.2/24", "2001:db8::2/64"), "192.0.2.1", "192.0.2.2", "2001:db8::2")
	step(node("c", "192.0.2.2/32", "192.0.2.3/32"), "192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::2")
	step(node("b", "192.0.2.4/24"), "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	step(&dataplane.NodeRemove{Name: "c"}, "192.0.2.1", "192.0.2.4")

	r.Flush()
	r.Update(dataplane.Batch{Events: []dataplane.Event{node("a", "192.0.2.1/32"), &dataplane.NodeRemove{Name: "x"}}})
	require.False(t, r.Pending(), "no address has changed")
}

// nodeAddresses returns the elements of the sets of nodes.
func nodeAddresses(t *testing.T, r *render.Renderer) (addrs []string) {
	t.Helper()
	table, errs := r.Table()
	require.Empty(t, errs)
	for _, s := range table.Sets {
		if !strings.HasPrefix(s.Name, "nodes") {
			continue
		}
		for _, e := range s.Elements {
			a, ok := netip.AddrFromSlice(e.Key[0])
			require.True(t, ok)
			addrs = append(addrs, a.String())
		}
	}
	return addrs
}
