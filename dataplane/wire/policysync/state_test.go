// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/policy"
)

// If policy allows everything except some sources, a packet whose addresses cannot be compared with
// these is denied.
func TestPacketsWithoutAddressesAreDenied(t *testing.T) {
	state := world(0, "a")
	rules := []dataplane.Rule{
		{Action: policy.Deny, Source: dataplane.Match{Nets: []netip.Prefix{
			netip.MustParsePrefix("10.0.0.2/32"), netip.MustParsePrefix("fe80::2/128"),
		}}},
		{Action: policy.Allow},
	}
	state.Policies[policyKey("a")] = &dataplane.Policy{Tier: "default", Ingress: rules, Egress: rules}
	e := state.Endpoints[key("a")]
	e.Egress = e.Ingress
	s := &policysync.State{Key: key("a"), Objects: state}
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1")
	for _, c := range []struct {
		src, dst netip.Addr
		want     policy.Action
	}{
		{v4, v4, policy.Allow},
		{v6, v6, policy.Allow},
		{netip.MustParseAddr("::ffff:10.0.0.1"), v4, policy.Allow},
		{netip.MustParseAddr("10.0.0.2"), v4, policy.Deny},
		{netip.MustParseAddr("::ffff:10.0.0.2"), v4, policy.Deny},
		{netip.MustParseAddr("fe80::2"), v6, policy.Deny},
		{netip.MustParseAddr("fe80::2%eth0"), v6, policy.Deny},
		{netip.Addr{}, v4, policy.Deny},
		{v4, netip.Addr{}, policy.Deny},
		{netip.Addr{}, v6, policy.Deny},
		{netip.Addr{}, netip.Addr{}, policy.Deny},
		{v4, v6, policy.Deny},
		{v6, v4, policy.Deny},
	} {
		for _, unknown := range []policysync.Unknown{0, policysync.UnknownDSCP} {
			p := dptest.Packet{Src: c.src, Dst: c.dst, Protocol: policy.ProtocolTCP}
			require.Equal(t, c.want, s.Ingress(p, unknown).Action, "%s to %s", c.src, c.dst)
			require.Equal(t, c.want, s.Egress(p, unknown).Action, "%s to %s", c.src, c.dst)
		}
	}
}
