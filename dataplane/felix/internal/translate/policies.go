// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/policy"
)

// updatePolicy adds or replaces a policy. In the dialect Tiers, an update may change its identity,
// by the tier.
func (t *Translator) updatePolicy(key policy.Key, p *dataplane.Policy) {
	old := t.policy.policies[key]
	t.policy.policies[key] = p
	if t.send == nil || old != nil && old.Equal(p) {
		return
	}
	if before := t.policyID(key, old); before != nil && !proto.Equal(before, t.policyID(key, p)) {
		t.stale = append(t.stale, before)
	}
	t.sendPolicy(key, p)
}

// sendPolicy sends a policy. It clears the fault of a staged policy, which is not sent.
func (t *Translator) sendPolicy(key policy.Key, p *dataplane.Policy) {
	id := t.policyID(key, p)
	if id == nil {
		t.fault(key, nil)
		return
	}
	in, problems := rules("ingress", p.Ingress)
	out, more := rules("egress", p.Egress)
	t.fault(key, slices.Concat(problems, more))
	msg := &felixpb.Policy{
		Namespace: key.Namespace, InboundRules: in, OutboundRules: out, Untracked: p.Untracked, PreDnat: p.PreDNAT,
	}
	if t.dialect != Tiers {
		msg.Tier = p.Tier
	}
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_ActivePolicyUpdate{
		ActivePolicyUpdate: &felixpb.ActivePolicyUpdate{Id: id, Policy: msg},
	}})
}

func (t *Translator) removePolicy(key policy.Key) {
	id := t.policyID(key, t.policy.policies[key])
	delete(t.policy.policies, key)
	delete(t.faults, key)
	if id != nil {
		t.sendPolicyRemove(id)
	}
}

func (t *Translator) sendPolicyRemove(id *felixpb.PolicyID) {
	if t.send != nil {
		t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_ActivePolicyRemove{
			ActivePolicyRemove: &felixpb.ActivePolicyRemove{Id: id},
		}})
	}
}

// policyID returns the identity of a policy in messages, or nil if the policy is nil or staged.
func (t *Translator) policyID(key policy.Key, p *dataplane.Policy) *felixpb.PolicyID {
	if p == nil || p.Staged {
		return nil
	}
	if t.dialect == Tiers {
		return &felixpb.PolicyID{Tier: p.Tier, Name: join(key)}
	}
	return kindID(key)
}

// The prefixes of policies that package kubernetes/convert made from objects of Kubernetes.
const (
	networkPolicyPrefix        = "knp.default."
	clusterNetworkPolicyPrefix = "kcnp."
)

// kindID returns the identity of a policy by kind. Policies of Kubernetes have kinds of their own,
// and names without a prefix.
func kindID(key policy.Key) *felixpb.PolicyID {
	kind, kubernetes, prefix := "NetworkPolicy", "KubernetesNetworkPolicy", networkPolicyPrefix
	if key.Namespace == "" {
		kind, kubernetes, prefix = "GlobalNetworkPolicy", "KubernetesClusterNetworkPolicy", clusterNetworkPolicyPrefix
	}
	name := key.Name
	if plain, found := strings.CutPrefix(name, prefix); found && plain != "" {
		kind, name = kubernetes, plain
	}
	return &felixpb.PolicyID{Kind: kind, Namespace: key.Namespace, Name: name}
}

// DenyProfile is the profile that denies all packets. No other profile can have this name, because
// the names of profiles have no slash.
const DenyProfile = "wayleave/deny-all"

// requireDenyProfile sends DenyProfile, unless the driver has it.
func (t *Translator) requireDenyProfile() {
	if t.denyProfile {
		return
	}
	t.denyProfile = true
	deny := []*felixpb.Rule{{Action: denyAction}}
	t.sendProfileRules(DenyProfile, deny, deny)
}

// sendProfile sends a profile. A Pass in a profile denies, but drivers go on to the next profile:
// it is sent as Deny.
func (t *Translator) sendProfile(name string, p *dataplane.Profile) {
	in, problems := rules("ingress", p.Ingress)
	out, more := rules("egress", p.Egress)
	t.fault(profileKey(name), slices.Concat(problems, more))
	for _, r := range slices.Concat(in, out) {
		if r.Action == passAction {
			r.Action = denyAction
		}
	}
	t.sendProfileRules(name, in, out)
}

func (t *Translator) sendProfileRules(name string, in, out []*felixpb.Rule) {
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_ActiveProfileUpdate{
		ActiveProfileUpdate: &felixpb.ActiveProfileUpdate{
			Id: &felixpb.ProfileID{Name: name}, Profile: &felixpb.Profile{InboundRules: in, OutboundRules: out},
		},
	}})
}

func (t *Translator) removeProfile(name string) {
	t.send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_ActiveProfileRemove{
		ActiveProfileRemove: &felixpb.ActiveProfileRemove{Id: &felixpb.ProfileID{Name: name}},
	}})
}

func profileKey(name string) policy.Key { return policy.Key{Kind: policy.KindProfile, Name: name} }
