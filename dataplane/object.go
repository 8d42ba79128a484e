// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// Policy is a policy with its selectors resolved to IP sets.
type Policy struct {
	// Tier of the policy, for information. A dataplane does not need it, because the lists of each
	// endpoint are already in the order of tiers and policies.
	Tier string
	// Staged policies are for information. A dataplane must not enforce them.
	Staged bool
	// Forward means that the policy, on host endpoints, also applies to forwarded traffic: it may
	// be in the lists HostEndpoint.ForwardIngress and ForwardEgress.
	Forward bool
	// Untracked policies decide before connection tracking: they are in
	// HostEndpoint.UntrackedIngress and UntrackedEgress, and in no other list.
	Untracked bool
	// PreDNAT policies decide before destination NAT: they are in HostEndpoint.PreDNATIngress, and
	// in no other list.
	PreDNAT bool
	// Ingress and Egress are the rules, in order.
	Ingress, Egress []Rule
}

// Profile is a profile with its selectors resolved to IP sets.
type Profile struct {
	// Ingress and Egress are the rules, in order. In a profile, Pass acts as Deny.
	Ingress, Egress []Rule
}

// Endpoint is a local workload endpoint with the policy that applies to it.
//
// Endpoints to which the same policies apply share their lists of tiers, so a receiver must not
// change the lists. Equal compares shared lists in constant time.
type Endpoint struct {
	// Interface is the name of the endpoint's interface in the host's network namespace.
	Interface string
	// Addresses of the workload, sorted.
	Addresses []netip.Addr
	// MAC is the MAC address of the workload's end of the link. Empty if unknown.
	MAC string
	// Down means that no packet may pass from or to the endpoint, not even one of an established
	// connection.
	Down bool
	// Ingress has the tiers for traffic to the workload, Egress those for traffic from the
	// workload, both in order. A list has a tier only if a policy of the tier applies to the
	// endpoint in that direction.
	Ingress, Egress []TierPolicies
	// Profiles are evaluated in order if no tier decided. The graph sends a profile for each name.
	// If the datastore has none, this is the built-in profile of that name, or else a profile that
	// denies everything.
	Profiles []string
	// NATs are the floating addresses of the workload: external addresses that destination NAT maps
	// to an address of the workload. They are sorted and distinct.
	NATs []policy.IPNAT
	// AllowedSources are prefixes that the workload may send from, besides Addresses. They are
	// sorted and distinct.
	AllowedSources []netip.Prefix
}

// HostEndpoint is a host endpoint of this node with the policy that applies to it. If several host
// endpoints have the same interface, only the one with the smallest key applies there.
//
// Host endpoints to which the same policies apply share their lists of tiers, so a receiver must
// not change the lists. Equal compares shared lists in constant time.
type HostEndpoint struct {
	// Interface is the name of the interface, or policy.AllInterfaces. Empty means all interfaces
	// that have one of Addresses.
	Interface string
	// Addresses are the addresses that the interface is expected to have, sorted.
	Addresses []netip.Addr
	// Ingress has the tiers for traffic to the host's own processes, Egress those for traffic from
	// these processes. Both are ordered as in Endpoint.
	Ingress, Egress []TierPolicies
	// ForwardIngress and ForwardEgress apply to traffic that the host forwards: ForwardIngress to
	// packets that enter through the interface, and ForwardEgress to packets that leave through it.
	// If a list is empty, all such traffic is allowed. Profiles do not apply to forwarded traffic.
	ForwardIngress, ForwardEgress []TierPolicies
	// UntrackedIngress and UntrackedEgress apply before connection tracking. The default action of
	// their tiers is Pass: if no policy decides, the other lists are evaluated next.
	UntrackedIngress, UntrackedEgress []TierPolicies
	// PreDNATIngress applies before destination NAT. The default action of its tiers is Pass.
	PreDNATIngress []TierPolicies
	// Profiles are evaluated in order if no tier of Ingress or Egress decided. The graph sends a
	// profile for each name, as for Endpoint.Profiles.
	Profiles []string
}

// TierPolicies are the policies of one tier that apply to an endpoint in one direction.
type TierPolicies struct {
	// Tier is the name of the tier.
	Tier string
	// DefaultAction is Deny or Pass. It applies to a packet if no rule of Policies decided. If all
	// of Policies are staged, it does not apply, and the next tier is evaluated.
	DefaultAction policy.Action
	// Policies of the tier in order, including staged ones.
	Policies []policy.Key
}
