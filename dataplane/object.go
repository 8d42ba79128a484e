// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// Policy is a policy with its selectors resolved to IP sets.
type Policy struct {
	// Tier the policy is in; for information, the order is in the endpoints.
	Tier string
	// Staged policies must not be enforced.
	Staged bool
	// Forward means that the policy counts on host endpoints for forwarded traffic too: it may be in
	// the lists HostEndpoint.ForwardIngress and ForwardEgress.
	Forward bool
	// Untracked policies decide before connection tracking: they are in
	// HostEndpoint.UntrackedIngress and UntrackedEgress and in no other list.
	Untracked bool
	// PreDNAT policies decide before destination NAT: they are in HostEndpoint.PreDNATIngress and
	// in no other list.
	PreDNAT bool
	// Ingress and Egress rules in order.
	Ingress, Egress []Rule
}

// Profile is a profile with its selectors resolved to IP sets.
type Profile struct {
	// Ingress and Egress rules in order. Pass acts as Deny here.
	Ingress, Egress []Rule
}

// Endpoint is a local workload endpoint with the policy that applies to it.
//
// Endpoints that the same policies select share the lists of tiers: a receiver must not change
// them. To compare two that are shared takes no time.
type Endpoint struct {
	// Interface is the name of the host's side of the link.
	Interface string
	// Addresses of the workload, sorted.
	Addresses []netip.Addr
	// MAC of the workload's side; empty if unknown.
	MAC string
	// Down means that the endpoint must not have any traffic, established connections included.
	Down bool
	// Ingress tiers apply to traffic to the workload, Egress tiers to traffic from it, in
	// order. A tier is listed in a direction only if a policy in it applies in that direction.
	Ingress, Egress []TierPolicies
	// Profiles, in order: consulted if no tier decided. All exist: a profile that is missing in the
	// datastore comes with rules that deny everything.
	Profiles []string
	// NATs are the floating addresses of the workload, sorted and each once.
	NATs []policy.IPNAT
	// AllowedSources are prefixes that the workload may send from besides Addresses, sorted and
	// each once.
	AllowedSources []netip.Prefix
}

// HostEndpoint is a host endpoint of this node with the policy that applies to it. Where
// several host endpoints claim one interface the one with the smallest key counts.
//
// Endpoints that the same policies select share the lists of tiers: a receiver must not change
// them. To compare two that are shared takes no time.
type HostEndpoint struct {
	// Interface is the name of the interface, or policy.AllInterfaces. Empty means the interfaces
	// that hold one of Addresses.
	Interface string
	// Addresses that are expected on the interface, sorted.
	Addresses []netip.Addr
	// Ingress tiers apply to traffic to the host's own processes, Egress tiers to traffic from
	// them, as in Endpoint.
	Ingress, Egress []TierPolicies
	// ForwardIngress and ForwardEgress apply to what the host forwards in by the interface and out
	// by it. Without a tier in a direction, all such traffic is allowed; profiles are not
	// consulted.
	ForwardIngress, ForwardEgress []TierPolicies
	// UntrackedIngress and UntrackedEgress apply before connection tracking. The default action of
	// their tiers is Pass: what no policy decides goes on to the other lists.
	UntrackedIngress, UntrackedEgress []TierPolicies
	// PreDNATIngress applies before destination NAT. The default action of its tiers is Pass.
	PreDNATIngress []TierPolicies
	// Profiles, in order: consulted for Ingress and Egress if no tier decided. All exist, as with
	// Endpoint.
	Profiles []string
}

// TierPolicies are the policies of one tier that apply to an endpoint in one direction.
type TierPolicies struct {
	// Tier is the name of the tier.
	Tier string
	// DefaultAction is Deny or Pass: what happens if at least one policy that is not
	// staged is listed and none decided.
	DefaultAction policy.Action
	// Policies in order, staged ones included.
	Policies []policy.Key
}
