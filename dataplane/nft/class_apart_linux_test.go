// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// Changes of addresses are apart unless one packet looks up two of them. A packet does so between
// two workloads of the node, or if an address moves from one map to the other.
func TestChangesOfAddressesAreApart(t *testing.T) {
	first := func() dptest.State {
		s := bothWays(members("192.0.2.1", "2001:db8::1"), members("192.0.2.2", "2001:db8::1"))
		s.Sets["s:from"] = withMembers(s.Sets["s:from"], "198.51.100.0/24")
		return s
	}
	for _, c := range []struct {
		name     string
		to, from []string // added members, the latter as prefixes too
		apart    bool
	}{
		{"nothing", nil, nil, true},
		{"a remote address", []string{"192.0.2.9"}, nil, true},
		{"remote addresses", []string{"192.0.2.8", "192.0.2.9"}, nil, true},
		{"a local address, which may send to itself", []string{"10.99.0.1"}, nil, false},
		{"both families of a workload", []string{"10.99.0.1", "fd00:99::1"}, nil, false},
		{"two local addresses", []string{"10.99.0.1"}, []string{"10.99.0.2/32"}, false},
		{"a remote prefix", nil, []string{"203.0.113.0/24"}, true},
		{"a remote prefix and an address elsewhere", []string{"192.0.2.9"}, []string{"203.0.113.0/24"}, true},
		{"a remote prefix and an address in it", []string{"203.0.113.9"}, []string{"203.0.113.0/24"}, false},
		{"a prefix with two local addresses", nil, []string{"10.99.0.0/30"}, false},
		{
			"a prefix with a local address, and another local address",
			[]string{"10.99.0.3"},
			[]string{"10.99.0.0/31"},
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := render.New(render.Config{})
			require.NoError(t, err)
			before, after := first(), first()
			after.Sets["s:to"] = withMembers(after.Sets["s:to"], c.to...)
			after.Sets["s:from"] = withMembers(after.Sets["s:from"], c.from...)
			r.Update(dptest.Transition(dptest.NewState(), before))
			r.Flush()
			r.Update(dptest.Transition(before, after))
			require.Equal(t, c.apart, r.Flush().Apart)
		})
	}
}

// Changes of addresses are never apart from the change of a rule in the same delta.
func TestRulesAreNotApart(t *testing.T) {
	r, err := render.New(render.Config{})
	require.NoError(t, err)
	first, second := permitted(0, true), permitted(0, false)
	r.Update(dptest.Transition(dptest.NewState(), first))
	r.Flush()
	r.Update(dptest.Transition(first, second))
	d := r.Flush()
	require.False(t, d.Apart)
	live := 0
	for _, e := range d.Elements {
		for _, list := range [][]ruleset.Element{e.Add, e.Delete} {
			live += len(list)
		}
	}
	require.Positive(t, live, "the outcomes of classes that have addresses change with the rest")
}

// A packet looks up its source twice in two cases. In the first case, it does so for the workload
// that receives it, and for a host endpoint that forwards it. In the second case, it does so for a
// host endpoint, before and after connection tracking.
func TestLookedUpTwiceIsNotApart(t *testing.T) {
	tiers := []dataplane.TierPolicies{
		{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{nfttest.PolicyKey("host")}},
	}
	for name, c := range map[string]struct {
		host dataplane.HostEndpoint
		kind func(*dataplane.Policy)
	}{
		"forwards": {dataplane.HostEndpoint{ForwardIngress: tiers}, func(*dataplane.Policy) {}},
		"untracked": {
			dataplane.HostEndpoint{UntrackedIngress: tiers}, func(p *dataplane.Policy) { p.Untracked = true },
		},
		"pre-DNAT": {dataplane.HostEndpoint{PreDNATIngress: tiers}, func(p *dataplane.Policy) { p.PreDNAT = true }},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := render.New(render.Config{})
			require.NoError(t, err)
			state := func(to ...string) dptest.State {
				s := bothWays(members(to...), members("192.0.2.2"))
				host, rules := c.host, *s.Policies[nfttest.PolicyKey("receives")]
				host.Interface = "eth0"
				c.kind(&rules)
				s.Policies[nfttest.PolicyKey("host")] = &rules
				s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "uplink"}] = &host
				return s
			}
			first, second := state("192.0.2.1"), state("192.0.2.1", "192.0.2.9")
			r.Update(dptest.Transition(dptest.NewState(), first))
			r.Flush()
			r.Update(dptest.Transition(first, second))
			require.False(t, r.Flush().Apart)
			table, errs := r.Table()
			require.Empty(t, errs)
			require.Contains(t, table.String(), "192.0.2.9 :")
		})
	}
}
