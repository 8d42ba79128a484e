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

// edition returns a policy as it is after so many edits, and the id of its rule.
func edition(n int) (*policy.Policy, string) {
	addr := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	p := &policy.Policy{Namespace: "shop", Name: "web", Ingress: []policy.Rule{{
		Action: policy.Deny, Source: policy.EntityRule{Nets: []netip.Prefix{netip.PrefixFrom(addr, 32)}},
	}}}
	return p, policy.RuleIDs(p.Key(), policy.Ingress, p.Ingress)[0]
}

// However long verdicts are followed, what is gone takes no more than a bounded amount of memory.
// What is there is always known, and what has gone lately, too.
func TestRuleBookForgets(t *testing.T) {
	b, world := newRuleBook(), verdict.World{}
	steady := &policy.Profile{Name: "steady", Egress: []policy.Rule{{Action: policy.Allow}}}
	world[steady.Key()] = steady
	b.fill(world)
	knows := func(prefix string) bool {
		return b.verdict(nflog.Entry{Prefix: prefix}, nil).Policy != nil
	}
	var ids []string
	most := 0
	for n := range 10 * spare {
		p, id := edition(n)
		ids = append(ids, id)
		world[p.Key()] = p
		b.note(policy.Update{Key: p.Key(), Resource: p})
		select {
		case <-b.full:
			b.age()
			require.True(t, knows("deny "+id), "before the world has been looked at")
			b.fill(world)
		default:
		}
		most = max(most, b.now.size()+b.older.size())
		require.True(t, knows("deny "+ids[max(0, n-spare)]), n)
	}
	require.Less(t, most, 3*spare)
	require.True(t, knows("allow "+policy.RuleIDs(steady.Key(), policy.Egress, steady.Egress)[0]))
	require.False(t, knows("deny "+ids[0]))

	asked := 0
	for n := range uint32(3 * spare) {
		v := b.verdict(nflog.Entry{In: n + 1}, func(i uint32) string {
			asked++
			return fmt.Sprint(i)
		})
		require.Equal(t, fmt.Sprint(n+1), v.In)
		require.Empty(t, v.Out)
		require.LessOrEqual(t, len(b.interfaces), spare)
	}
	require.Equal(t, 3*spare, asked)
}

// What is noted while the world is being looked at is newer than the world.
func TestRuleBookIsUpToDate(t *testing.T) {
	b, addr := newRuleBook(), netip.MustParseAddr("10.0.0.1")
	endpoint := func(name string) *policy.WorkloadEndpoint {
		return &policy.WorkloadEndpoint{
			Namespace: "shop", Name: name, Node: "n", Interface: "way1", Addresses: []netip.Addr{addr},
		}
	}
	before := endpoint("before")
	b.note(policy.Update{Key: endpoint("after").Key(), Resource: endpoint("after")})
	b.fill(verdict.World{before.Key(): before})
	require.Equal(t, "shop/after", b.verdict(nflog.Entry{Src: addr}, nil).From)
}

// Rules of the built-in profile, and those that replace an invalid or missing profile, have an owner in the log.
func TestRuleBookKnowsDefaultsOfProfiles(t *testing.T) {
	b := newRuleBook()
	host := &policy.HostEndpoint{
		Name: "eth0", Node: "n", InterfaceName: "eth0", Profiles: []string{policy.DefaultAllowProfile, "lost"},
	}
	require.NoError(t, host.Validate())
	invalid := &policy.Profile{Name: policy.DefaultAllowProfile, Ingress: []policy.Rule{{}}}
	b.note(policy.Update{Key: host.Key(), Resource: host})
	b.note(policy.Update{Key: invalid.Key(), Resource: invalid})
	builtin, _ := policy.BuiltinProfile(policy.DefaultAllowProfile)
	closed, err := policy.Update{Key: invalid.Key(), Resource: invalid}.Admit()
	require.Error(t, err)
	for _, p := range []*policy.Profile{builtin, closed.(*policy.Profile)} {
		id := policy.RuleIDs(p.Key(), policy.Ingress, p.Ingress)[0]
		require.Equal(t, p.Key(), *b.verdict(nflog.Entry{Prefix: "x " + id}, nil).Policy)
	}
	lost := (&policy.Profile{Name: "lost"}).Key()
	id := policy.RuleIDs(lost, policy.Egress, []policy.Rule{{Action: policy.Deny}})[0]
	require.Equal(t, lost, *b.verdict(nflog.Entry{Prefix: "deny " + id}, nil).Policy)
}
