// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// ObjectKey returns the key of an object. Endpoints are in the namespace "test".
func ObjectKey(kind policy.Kind, name string) policy.Key {
	k := policy.Key{Kind: kind, Name: name}
	if kind == policy.KindWorkloadEndpoint {
		k.Namespace = "test"
	}
	return k
}

// Addresses parses addresses, and panics if one is not valid.
func Addresses(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// EndpointUpdate returns the update of an endpoint with policies of tier "default" for each
// direction.
func EndpointUpdate(name, iface string, in, out []policy.Key, addresses ...string) *dataplane.EndpointUpdate {
	e := &dataplane.Endpoint{Interface: iface, Addresses: Addresses(addresses...), Profiles: []string{"all"}}
	tier := func(keys []policy.Key) []dataplane.TierPolicies {
		if keys == nil {
			return nil
		}
		return []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: keys}}
	}
	e.Ingress, e.Egress = tier(in), tier(out)
	return &dataplane.EndpointUpdate{Key: ObjectKey(policy.KindWorkloadEndpoint, name), Endpoint: e}
}

// EndpointKey returns the key of an endpoint.
func EndpointKey(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: name}
}

// PolicyKey returns the key of a policy of namespace "shop".
func PolicyKey(name string) policy.Key {
	return policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: name}
}

// Nets parses prefixes, and panics if one is not valid.
func Nets(list ...string) (out []netip.Prefix) {
	for _, n := range list {
		out = append(out, netip.MustParsePrefix(n))
	}
	return out
}
