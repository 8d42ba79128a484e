// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"context"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
)

// addressFlows are flows of several addresses, one of them translated.
func addressFlows() []conntrack.Flow {
	translated := flow(6, "10.0.0.9:7", "10.96.0.1:80")
	translated.Reply = tuple(6, "10.0.0.5:8080", "192.0.2.1:61000")
	return []conntrack.Flow{
		translated, flow(6, "10.0.0.5:1", "10.0.0.6:2"), flow(17, "10.0.0.6:1", "10.0.0.5:2"),
		flow(6, "10.0.0.6:1", "10.0.0.7:2"),
		flow(6, "[fd00::5]:1", "[fd00::6]:2"), flow(6, "[fd00::6]:1", "[fd00::7]:2"),
	}
}

// filtering are kernels that filter dumps by address in several ways.
func filtering() map[string]func(*fakeKernel) {
	return map[string]func(*fakeKernel){
		"few flows": func(k *fakeKernel) {},
		"filters":   func(k *fakeKernel) { k.more = 9 * conntrack.FlowsPerFilter },
		"ignores them": func(k *fakeKernel) {
			k.more, k.filter = 9*conntrack.FlowsPerFilter, func(uint8, bool) bool { return true }
		},
		"refuses them": func(k *fakeKernel) {
			k.more, k.refuseFilters = 9*conntrack.FlowsPerFilter, syscall.EOPNOTSUPP
		},
		"without filters": func(k *fakeKernel) {
			k.more, k.refuseFilters = 9*conntrack.FlowsPerFilter, syscall.EINVAL
		},
		"inverts IPv6's": func(k *fakeKernel) {
			k.more = 9 * conntrack.FlowsPerFilter
			k.filter = func(family uint8, match bool) bool { return match == (family == 2) }
		},
	}
}

// S168: exactly the flows of an address end, however the kernel filters.
func TestEndAddresses(t *testing.T) {
	all := addressFlows()
	for address, want := range map[string]struct{ addresses, hosts []int }{
		"10.0.0.5":        {[]int{3, 4, 5}, []int{3, 4, 5}},
		"::ffff:10.0.0.5": {[]int{3, 4, 5}, []int{3, 4, 5}},
		"10.96.0.1":       {[]int{1, 2, 3, 4, 5}, []int{0, 1, 2, 3, 4, 5}},
		"192.0.2.1":       {[]int{1, 2, 3, 4, 5}, []int{0, 1, 2, 3, 4, 5}},
		"10.0.0.9":        {[]int{1, 2, 3, 4, 5}, []int{1, 2, 3, 4, 5}},
		"fd00::5":         {[]int{0, 1, 2, 3, 5}, []int{0, 1, 2, 3, 5}},
		"fd00::5%eth0":    {[]int{0, 1, 2, 3, 5}, []int{0, 1, 2, 3, 5}},
		"fd00::8":         {[]int{0, 1, 2, 3, 4, 5}, []int{0, 1, 2, 3, 4, 5}},
	} {
		for name, prepare := range filtering() {
			for _, by := range []string{"addresses", "hosts", "hosts that a function selects"} {
				k := newFakeKernel(all...)
				prepare(k)
				c, err := k.dial()
				require.NoError(t, err)
				end, left := c.EndAddresses, want.addresses
				switch by {
				case "hosts":
					end, left = c.EndHosts, want.hosts
				case "hosts that a function selects":
					left = want.hosts
					end = func(ctx context.Context, list ...netip.Addr) (int, error) {
						return c.EndHostsFunc(ctx, func(a netip.Addr) bool { return a == list[0].Unmap().WithZone("") })
					}
				}
				ended, err := end(t.Context(), netip.MustParseAddr(address))
				require.NoError(t, err)
				require.Equal(t, len(all)-len(left), ended, "%s, kernel %s", address, name)
				for i, at := range left {
					require.Equal(t, all[at].Original, k.flows[i].Original, "%s, kernel %s", address, name)
				}
				again, err := end(t.Context(), netip.MustParseAddr(address))
				require.NoError(t, err)
				require.Zero(t, again)
			}
		}
	}
}

// Without flows or without addresses there is no walk. Filters that do not work are tried once.
func TestEndAddressesSkipsNeedlessWalks(t *testing.T) {
	k := newFakeKernel()
	c, err := k.dial()
	require.NoError(t, err)
	_, err = c.EndAddresses(t.Context(), netip.MustParseAddr("10.0.0.5"))
	require.NoError(t, err)
	k.flows = addressFlows()
	_, err = c.EndAddresses(t.Context())
	require.NoError(t, err)
	require.Zero(t, k.dumps)
	for name, want := range map[string]struct{ dumps, filtered int }{
		"few flows": {4, 0},
		// If fd00::9 has no flow, one more dump tests each time whether the filter works.
		"filters":        {2 * (4 + 4 + 1), 2 * (4 + 4 + 1)},
		"ignores them":   {4 + 2, 2},
		"refuses them":   {4 + 2, 2},
		"inverts IPv6's": {2*4 + 2 + 1, 2*4 + 1},
	} {
		k := newFakeKernel(addressFlows()...)
		filtering()[name](k)
		c, err := k.dial()
		require.NoError(t, err)
		for range 2 {
			for _, address := range []string{"10.0.0.5", "fd00::9"} {
				_, err = c.EndAddresses(t.Context(), netip.MustParseAddr(address))
				require.NoError(t, err)
			}
		}
		require.Equal(t, want.dumps, k.dumps, name)
		require.Equal(t, want.filtered, k.filtered, name)
	}
}

// A filter that does not work is tried only for the first of several addresses.
func TestEndAddressesTriesBrokenFilterOnce(t *testing.T) {
	for name, addresses := range map[string][2]string{
		"ignores them":   {"10.0.0.5", "10.0.0.6"},
		"refuses them":   {"fd00::5", "fd00::6"},
		"inverts IPv6's": {"fd00::5", "fd00::6"},
	} {
		k := newFakeKernel(addressFlows()...)
		filtering()[name](k)
		c, err := k.dial()
		require.NoError(t, err)
		_, err = c.EndAddresses(t.Context(), netip.MustParseAddr(addresses[0]), netip.MustParseAddr(addresses[1]))
		require.NoError(t, err)
		require.Equal(t, 1, k.filtered, name)
		require.Equal(t, 2, k.dumps, name)
	}
}
