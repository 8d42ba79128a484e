// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/nflog"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// revision returns revision n of a policy, and the ID of its rule.
func revision(n int) (*policy.Policy, string) {
	addr := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	p := &policy.Policy{Namespace: "shop", Name: "web", Ingress: []policy.Rule{{
		Action: policy.Deny, Source: policy.EntityRule{Nets: []netip.Prefix{netip.PrefixFrom(addr, 32)}},
	}}}
	return p, policy.RuleIDs(p.Key(), policy.Ingress, p.Ingress)[0]
}

// The cache always has the rules that exist and the rules that were deleted recently. Older entries
// are evicted, so the memory for deleted rules and for interface names is bounded.
func TestRuleCacheEvictsDeletedRules(t *testing.T) {
	c, world := newRuleCache(), verdict.World{}
	steady := &policy.Profile{Name: "steady", Egress: []policy.Rule{{Action: policy.Allow}}}
	world[steady.Key()] = steady
	c.fill(world)
	has := func(prefix string) bool {
		return c.verdict(nflog.Entry{Prefix: prefix}, nil).Policy != nil
	}
	var ids []string
	most := 0
	for n := range 10 * spare {
		p, id := revision(n)
		ids = append(ids, id)
		world[p.Key()] = p
		c.record(policy.Update{Key: p.Key(), Resource: p})
		select {
		case <-c.full:
			c.age()
			require.True(t, has("deny "+id), "before fill")
			c.fill(world)
		default:
		}
		most = max(most, c.now.size()+c.older.size())
		require.True(t, has("deny "+ids[max(0, n-spare)]), n)
	}
	require.Less(t, most, 3*spare)
	require.True(t, has("allow "+policy.RuleIDs(steady.Key(), policy.Egress, steady.Egress)[0]))
	require.False(t, has("deny "+ids[0]))

	finds := 0
	for n := range uint32(3 * spare) {
		v := c.verdict(nflog.Entry{In: n + 1}, func(i uint32) string {
			finds++
			return fmt.Sprint(i)
		})
		require.Equal(t, fmt.Sprint(n+1), v.In)
		require.Empty(t, v.Out)
		require.LessOrEqual(t, len(c.interfaces), spare)
	}
	require.Equal(t, 3*spare, finds)
}

// An update that is recorded before fill takes precedence over the world of fill, which is older.
func TestUpdateIsNewerThanFill(t *testing.T) {
	c, addr := newRuleCache(), netip.MustParseAddr("10.0.0.1")
	endpoint := func(name string) *policy.WorkloadEndpoint {
		return &policy.WorkloadEndpoint{
			Namespace: "shop", Name: name, Node: "n", Interface: "way1", Addresses: []netip.Addr{addr},
		}
	}
	before := endpoint("before")
	c.record(policy.Update{Key: endpoint("after").Key(), Resource: endpoint("after")})
	c.fill(verdict.World{before.Key(): before})
	require.Equal(t, "shop/after", c.verdict(nflog.Entry{Src: addr}, nil).From)
}

// Rules of the built-in profile, and those that replace an invalid or missing profile, have an
// owner in the log.
func TestRuleCacheHasDefaultsOfProfiles(t *testing.T) {
	c := newRuleCache()
	host := &policy.HostEndpoint{
		Name: "eth0", Node: "n", InterfaceName: "eth0", Profiles: []string{policy.DefaultAllowProfile, "lost"},
	}
	require.NoError(t, host.Validate())
	invalid := &policy.Profile{Name: policy.DefaultAllowProfile, Ingress: []policy.Rule{{}}}
	c.record(policy.Update{Key: host.Key(), Resource: host})
	c.record(policy.Update{Key: invalid.Key(), Resource: invalid})
	builtin, _ := policy.BuiltinProfile(policy.DefaultAllowProfile)
	closed, err := policy.Update{Key: invalid.Key(), Resource: invalid}.Admit()
	require.Error(t, err)
	for _, p := range []*policy.Profile{builtin, closed.(*policy.Profile)} {
		id := policy.RuleIDs(p.Key(), policy.Ingress, p.Ingress)[0]
		require.Equal(t, p.Key(), *c.verdict(nflog.Entry{Prefix: "x " + id}, nil).Policy)
	}
	lost := (&policy.Profile{Name: "lost"}).Key()
	id := policy.RuleIDs(lost, policy.Egress, []policy.Rule{{Action: policy.Deny}})[0]
	require.Equal(t, lost, *c.verdict(nflog.Entry{Prefix: "deny " + id}, nil).Policy)
}
