// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// TestDownAddresses holds that the set has the addresses of endpoints that are down, unless an
// endpoint that is up has the address too, whatever the order of changes.
func TestDownAddresses(t *testing.T) {
	r, err := render.New(render.Config{})
	require.NoError(t, err)
	update := func(name string, down bool, addresses ...string) {
		e := &dataplane.Endpoint{Interface: "way-" + name, Down: down}
		for _, a := range addresses {
			e.Addresses = append(e.Addresses, netip.MustParseAddr(a))
		}
		key := policy.Key{Kind: policy.KindWorkloadEndpoint, Name: name}
		r.Update(dataplane.Batch{Events: []dataplane.Event{&dataplane.EndpointUpdate{Key: key, Endpoint: e}}})
	}
	down := func() (addresses []string) {
		table, errs := r.Table()
		require.Empty(t, errs)
		for _, set := range table.Sets {
			if strings.HasPrefix(set.Name, "endpoints-down") {
				for _, e := range set.Elements {
					a, ok := netip.AddrFromSlice(e.Key[0])
					require.True(t, ok)
					addresses = append(addresses, a.String())
				}
			}
		}
		return addresses
	}
	update("a", false, "10.0.0.1", "fd00::1")
	require.Empty(t, down())
	update("b", true, "10.0.0.1", "10.0.0.2", "fd00::2")
	require.Equal(t, []string{"10.0.0.2", "fd00::2"}, down(), "another endpoint with 10.0.0.1 is up")
	update("a", true, "10.0.0.1", "fd00::1")
	require.ElementsMatch(t, []string{"10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"}, down())
	update("b", false, "10.0.0.1")
	require.Equal(t, []string{"fd00::1"}, down())
	update("a", true)
	require.Empty(t, down(), "a has no addresses now")
	update("b", true, "10.0.0.1")
	key := policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "b"}
	r.Update(dataplane.Batch{Events: []dataplane.Event{&dataplane.EndpointRemove{Key: key}}})
	require.Empty(t, down(), "b is gone")
}
