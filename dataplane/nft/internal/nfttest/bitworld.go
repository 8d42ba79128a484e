// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// BitWorld returns the events of an endpoint with the policies 0 to n-1. The senders have the
// numbers 1 to 2^n - 1. Sender number k has the address 10.0.0.0 + k. It is in the IP set s:i if
// bit i of k is 1. Policy i allows the senders in s:i to connect to the TCP port that port(i)
// returns. So each sender is a class of its own: no two senders are in the same sets.
func BitWorld(n int, port func(i int) uint16) (events []dataplane.Event) {
	tier := dataplane.TierPolicies{Tier: "t", DefaultAction: policy.Deny}
	for i := range n {
		set := &dataplane.IPSetUpdate{ID: dataplane.IPSetID(fmt.Sprint("s:", i))}
		for a := 1; a < 1<<n; a++ {
			if a>>i&1 == 1 {
				addr := netip.AddrFrom4([4]byte{10, byte(a >> 16), byte(a >> 8), byte(a)})
				set.Members = append(set.Members, dataplane.Member{Prefix: netip.PrefixFrom(addr, addr.BitLen())})
			}
		}
		key := policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint(i)}
		tier.Policies = append(tier.Policies, key)
		events = append(events, set, &dataplane.PolicyUpdate{Key: key, Policy: &dataplane.Policy{
			Ingress: []dataplane.Rule{{
				ID: key.Name, Action: policy.Allow, Protocol: policy.ProtocolTCP,
				Source:      dataplane.Match{Sets: []dataplane.IPSetID{set.ID}},
				Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(port(i))}},
			}},
		}})
	}
	return append(events, &dataplane.EndpointUpdate{Key: EndpointKey("way0"), Endpoint: &dataplane.Endpoint{
		Interface: "way0", Addresses: Addresses("10.255.0.1"), Ingress: []dataplane.TierPolicies{tier},
	}})
}
