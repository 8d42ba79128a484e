// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/calcgraph/replay"
	"github.com/wayleave/wayleave/policy"
)

// TestEveryKind: the recording of a resource of each kind decodes to the same resource, also if it
// was not canonical.
func TestEveryKind(t *testing.T) {
	order := 1.5
	addr, cidr := netip.MustParseAddr("192.0.2.1"), netip.MustParsePrefix("10.0.0.0/24")
	resources := []policy.Resource{
		&policy.Policy{Name: "p", Selector: `a == "<b>" && has(c)`, Order: &order, Types: []policy.Type{"INGRESS"}},
		&policy.Policy{Name: "p", Staged: true},
		&policy.Tier{Name: "t", Order: &order, DefaultAction: policy.Pass},
		&policy.Profile{Name: "p", LabelsToApply: map[string]string{"a": "\u2028"}},
		&policy.NetworkSet{Name: "n", Nets: policy.Nets{cidr}},
		&policy.WorkloadEndpoint{Name: "w", Node: "n1", Interface: "wl1", MAC: "AA:00:00:00:00:01"},
		&policy.HostEndpoint{Name: "h", Node: "n1", InterfaceName: "eth0", ExpectedIPs: []netip.Addr{addr}},
		&policy.IPPool{Name: "i", CIDR: cidr},
		&policy.Block{CIDR: cidr, Node: "n1"},
		&policy.Node{
			Name: "n1", Addresses: []netip.Prefix{netip.PrefixFrom(addr, 24)}, VXLANTunnelMACAddr: "AA:00:00:00:00:02",
		},
		&policy.ServiceBackends{Namespace: "a", Name: "s-1", Service: "s", Addresses: []netip.Addr{addr}},
	}
	synctest.Test(t, func(t *testing.T) {
		l := start(t, calcgraph.Config{Node: "n1"})
		for _, r := range resources {
			l.update(t, policy.Update{Key: r.Key(), Resource: r})
		}
		require.NoError(t, l.runner.InSync(t.Context()))
		l.stop(t)
		require.Empty(t, l.rejected)
		require.Equal(t, l.batches.String(), play(t, l.recording.Bytes()).batches.String())
		rec, err := replay.Read(&l.recording)
		require.NoError(t, err)
		var got []policy.Resource
		for step, err := range rec.Steps() {
			require.NoError(t, err)
			if step.Kind == replay.StepUpdate {
				got = append(got, step.Update.Resource)
			}
		}
		require.Len(t, got, len(resources))
		for i, r := range resources {
			require.True(t, policy.Equal(policy.Canonical(r), got[i]), "%s", r.Key())
		}
	})
}
