// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// The checks look at one value alone. They return the reason why the value is wrong, or "".

func checkMembers(t dataplane.IPSetType, members []dataplane.Member) string {
	for _, m := range members {
		if msg := checkMember(t, m); msg != "" {
			return fmt.Sprintf("member %s: %s", m, msg)
		}
	}
	return checkSorted("member", members, dataplane.Member.Compare)
}

// checkSorted checks that a list is sorted and distinct.
func checkSorted[T any](what string, list []T, compare func(a, b T) int) string {
	for i := 1; i < len(list); i++ {
		if compare(list[i-1], list[i]) >= 0 {
			return fmt.Sprintf("%s %v: not sorted or not distinct", what, list[i])
		}
	}
	return ""
}

func checkMember(t dataplane.IPSetType, m dataplane.Member) string {
	if msg := checkPrefix(m.Prefix); msg != "" {
		return msg
	}
	if t == dataplane.IPSetNets {
		if m.Protocol != 0 || m.Port != 0 {
			return "a protocol or port in a set of addresses"
		}
		return ""
	}
	if !m.Prefix.IsSingleIP() {
		return "a prefix in a set of ports"
	}
	if !m.Protocol.HasPorts() || m.Port == 0 {
		return "want a protocol with ports and a port in a set of ports"
	}
	return ""
}

func checkPrefix(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return "not a prefix"
	case p.Addr().Is4In6():
		return "an IPv4 prefix in IPv6 form"
	case p != p.Masked():
		return "host bits are set"
	}
	return ""
}

func checkPolicy(k policy.Key, p *dataplane.Policy) string {
	if p == nil {
		return "no policy"
	}
	if want := policyKind(p); k.Kind != want || k.Name == "" {
		return fmt.Sprintf("the key is not that of a %s", want)
	}
	switch {
	case p.Tier == "":
		return "no tier"
	case p.Untracked && p.PreDNAT:
		return "both untracked and pre-DNAT"
	case (p.Untracked || p.PreDNAT) && !p.Forward:
		return "untracked or pre-DNAT without forward"
	case p.PreDNAT && len(p.Egress) > 0:
		return "pre-DNAT with egress rules" // S38
	}
	return checkRules(p.Ingress, p.Egress)
}

func policyKind(p *dataplane.Policy) policy.Kind {
	if p.Staged {
		return policy.KindStagedPolicy
	}
	return policy.KindPolicy
}

func checkProfile(name string, p *dataplane.Profile) string {
	if p == nil || name == "" {
		return "no profile or no name"
	}
	return checkRules(p.Ingress, p.Egress)
}

func checkRules(ingress, egress []dataplane.Rule) string {
	ids := map[string]bool{}
	for _, rules := range [][]dataplane.Rule{ingress, egress} {
		for i := range rules {
			r := &rules[i]
			if msg := checkRule(r); msg != "" {
				return fmt.Sprintf("rule %q: %s", r, msg)
			}
			if r.ID != "" && ids[r.ID] {
				return fmt.Sprintf("rule %q: the id %s occurs twice", r, r.ID)
			}
			ids[r.ID] = true
		}
	}
	return ""
}

func checkRule(r *dataplane.Rule) string {
	if !slices.Contains([]policy.Action{policy.Allow, policy.Deny, policy.Pass, policy.Log}, r.Action) {
		return "unknown action"
	}
	if !slices.Contains([]int{0, 4, 6}, r.IPVersion) {
		return "unknown IP version"
	}
	if err := r.ValidateHeader(r.Protocol); err != nil {
		return err.Error()
	}
	if msg := checkMatch(&r.Source, r.Protocol); msg != "" {
		return "source: " + msg
	}
	if msg := checkMatch(&r.Destination, r.Protocol); msg != "" {
		return "destination: " + msg
	}
	return ""
}

func checkMatch(m *dataplane.Match, proto policy.Protocol) string {
	for _, p := range slices.Concat(m.Nets, m.NotNets) {
		if msg := checkPrefix(p); msg != "" {
			return p.String() + ": " + msg
		}
	}
	for _, p := range slices.Concat(m.Ports, m.NotPorts) {
		if p.Name != "" || p.First == 0 || p.First > p.Last {
			return "not a port or range of ports"
		}
		if !proto.HasPorts() {
			return "ports without a protocol that has ports" // S51
		}
	}
	return ""
}

func checkEndpoint(k policy.Key, e *dataplane.Endpoint) string {
	switch {
	case e == nil:
		return "no endpoint"
	case k.Kind != policy.KindWorkloadEndpoint || k.Name == "":
		return "the key is not that of a " + string(policy.KindWorkloadEndpoint)
	case e.Interface == "":
		return "no interface" // S102
	}
	if msg := checkAddresses(e.Addresses); msg != "" {
		return msg
	}
	if repeated(e.Profiles) {
		return "duplicate profile"
	}
	if msg := checkSources(e); msg != "" {
		return msg
	}
	for _, tiers := range [][]dataplane.TierPolicies{e.Ingress, e.Egress} {
		if msg := checkTiers(tiers); msg != "" {
			return msg
		}
	}
	return ""
}

func checkTiers(tiers []dataplane.TierPolicies) string {
	var names []string
	var policies []policy.Key
	for _, t := range tiers {
		switch {
		case t.Tier == "":
			return "a tier without a name"
		case len(t.Policies) == 0:
			return "tier " + t.Tier + " has no policy" // S14
		case t.DefaultAction != policy.Deny && t.DefaultAction != policy.Pass:
			return "tier " + t.Tier + ": unknown default action"
		}
		names = append(names, t.Tier)
		policies = append(policies, t.Policies...)
	}
	if repeated(names) {
		return "duplicate tier in one direction"
	}
	if repeated(policies) {
		return "duplicate policy in one direction" // S16
	}
	return ""
}

func repeated[T comparable](list []T) bool {
	seen := map[T]bool{}
	for _, v := range list {
		if seen[v] {
			return true
		}
		seen[v] = true
	}
	return false
}
