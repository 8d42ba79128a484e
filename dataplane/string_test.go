// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

func member(s string) dataplane.Member { return dataplane.Member{Prefix: netip.MustParsePrefix(s)} }

func httpMember() dataplane.Member {
	return dataplane.Member{Prefix: netip.MustParsePrefix("10.0.0.1/32"), Protocol: policy.ProtocolTCP, Port: 80}
}

func fullRule() dataplane.Rule {
	echo, code := 0, 3
	return dataplane.Rule{
		ID: "r1", Action: policy.Allow, IPVersion: 4, Protocol: policy.ProtocolTCP, NotProtocol: policy.ProtocolSCTP,
		HeaderMatch: policy.HeaderMatch{
			ICMP: &policy.ICMP{Type: &echo}, NotICMP: &policy.ICMP{Type: &echo, Code: &code},
		},
		Source: dataplane.Match{
			Nets:    []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
			NotNets: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, Sets: []dataplane.IPSetID{"s:a", "s:b"},
			NotSets: []dataplane.IPSetID{"s:c"},
		},
		Destination: dataplane.Match{
			Ports: []policy.Port{policy.PortNumber(80), policy.PortRange(90, 99)}, PortSets: []dataplane.IPSetID{"p:x"},
			NotPorts: []policy.Port{policy.PortNumber(95)}, NotPortSets: []dataplane.IPSetID{"p:y"},
		},
	}
}

func fullEndpoint() *dataplane.Endpoint {
	tier := dataplane.TierPolicies{
		Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{policyKey("p"), policyKey("q")},
	}
	return &dataplane.Endpoint{
		Interface: "wl1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		MAC: "02:00:00:00:00:01", Down: true, Ingress: []dataplane.TierPolicies{
			tier, {Tier: "t", DefaultAction: policy.Pass, Policies: []policy.Key{policyKey("r")}},
		}, Profiles: []string{"kns.n", "ksa.n.d"},
	}
}

func TestEventStrings(t *testing.T) {
	staged := &dataplane.Policy{
		Tier: "default", Staged: true, Ingress: []dataplane.Rule{fullRule()},
		Egress: []dataplane.Rule{{Action: policy.Deny}},
	}
	batch := dataplane.Batch{Events: []dataplane.Event{
		&dataplane.IPSetUpdate{ID: "s:a", Members: []dataplane.Member{member("10.0.0.1/32"), member("fd00::/64")}},
		&dataplane.IPSetUpdate{ID: "p:x", Type: dataplane.IPSetPorts, Members: []dataplane.Member{httpMember()}},
		&dataplane.IPSetUpdate{ID: "s:b"},
		&dataplane.IPSetDelta{
			ID: "s:a", Added: []dataplane.Member{member("10.0.0.2/32")},
			Removed: []dataplane.Member{member("10.0.0.1/32")},
		},
		&dataplane.PolicyUpdate{Key: policyKey("p"), Policy: staged},
		&dataplane.PolicyUpdate{Key: policyKey("q"), Policy: &dataplane.Policy{Tier: "t"}},
		&dataplane.ProfileUpdate{Name: "kns.n", Profile: &dataplane.Profile{
			Egress: []dataplane.Rule{{Action: policy.Log}, {Action: policy.Pass, Protocol: 253}},
		}},
		&dataplane.EndpointUpdate{Key: endpointKey("w"), Endpoint: fullEndpoint()},
		&dataplane.EndpointUpdate{Key: endpointKey("x"), Endpoint: nil},
		&dataplane.EndpointRemove{Key: endpointKey("v")},
		&dataplane.ProfileRemove{Name: "kns.o"},
		&dataplane.PolicyRemove{Key: policyKey("o")},
		&dataplane.IPSetRemove{ID: "s:z"},
		&dataplane.InSync{},
	}}
	require.Equal(t, `ipset s:a nets [10.0.0.1/32 fd00::/64]
ipset p:x ports [10.0.0.1,tcp:80]
ipset s:b nets []
ipset s:a +10.0.0.2/32 -10.0.0.1/32
policy Policy/p tier default staged: ingress allow ipv4 tcp !sctp type 0 !type 0 code 3 `+
		`src s:a s:b !s:c nets 10.0.0.0/8,fd00::/8 !nets 10.1.0.0/16 dst ports 80,90-99,p:x !ports 95,p:y; egress deny
policy Policy/q tier t: no rules
profile kns.n: egress log; egress pass 253
endpoint WorkloadEndpoint/n/w wl1 [10.0.0.1 fd00::1] mac 02:00:00:00:00:01 down `+
		`ingress default:deny[Policy/p Policy/q],t:pass[Policy/r] egress - profiles [kns.n ksa.n.d]
endpoint WorkloadEndpoint/n/x nil
remove endpoint WorkloadEndpoint/n/v
remove profile kns.o
remove policy Policy/o
remove ipset s:z
in-sync`, batch.String())
	require.True(t, batch.CarriesInSync())
	require.False(t, dataplane.Batch{}.CarriesInSync())
	require.True(t, dataplane.Batch{}.Empty())
	require.Equal(t, "failed", dataplane.EndpointFailed.String())
}

func TestMemberCompare(t *testing.T) {
	want := []dataplane.Member{
		member("10.0.0.0/8"), member("10.0.0.0/16"), member("10.0.0.1/32"), httpMember(), member("10.0.0.2/32"),
		member("::/0"), member("fd00::/8"),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, dataplane.Member.Compare)
	require.Equal(t, want, got)
}

// TestEqualOfNil: a nil pointer equals only nil, and lists are compared in order.
func TestEqualOfNil(t *testing.T) {
	reversed := fullEndpoint()
	slices.Reverse(reversed.Profiles)
	require.False(t, fullEndpoint().Equal(reversed))
	var none *dataplane.Endpoint
	require.True(t, none.Equal(nil))
	require.False(t, none.Equal(fullEndpoint()))
	require.False(t, (&dataplane.Policy{}).Equal(nil))
	require.False(t, (&dataplane.Profile{}).Equal(nil))
}

func TestApplyErrors(t *testing.T) {
	a, b := objectError(endpointKey("a")), objectError(endpointKey("b"))
	objects, general := dataplane.ApplyErrors(fmt.Errorf("round: %w", errors.Join(a, errors.Join(b, a))))
	require.Len(t, objects, 2)
	require.False(t, general)
	require.ErrorIs(t, objects[endpointKey("a")], errBoom)
	require.EqualError(t, a, "x: add WorkloadEndpoint/n/a: boom")

	for _, err := range []error{
		errBoom, &dataplane.ApplyError{Backend: "x", Op: "commit"}, fmt.Errorf("y: %w", errBoom),
	} {
		objects, general = dataplane.ApplyErrors(errors.Join(a, err))
		require.Len(t, objects, 1)
		require.True(t, general, err)
	}
	objects, general = dataplane.ApplyErrors(nil)
	require.Empty(t, objects)
	require.False(t, general)
}
