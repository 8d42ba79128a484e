// SPDX-License-Identifier: Apache-2.0

package policy

import "maps"

// Profile gives labels to the endpoints that list it and holds the rules that count
// where no tier applies to an endpoint, or every tier passed. Readers may share a Profile
// that nobody changes.
type Profile struct {
	// Name of the profile. Required.
	Name string `json:"name"`
	// LabelsToApply are inherited by the endpoints that list the profile. The
	// endpoint's own label of the same name wins; among profiles, the first in the
	// endpoint's list. LabelNamespace is not allowed. Empty means none.
	LabelsToApply map[string]string `json:"labelsToApply,omitempty"`
	// Ingress rules. Pass acts as Deny here. None means that the profile leaves the direction
	// undecided.
	Ingress []Rule `json:"ingress,omitempty"`
	// Egress rules. Pass acts as Deny here. None means that the profile leaves the direction
	// undecided.
	Egress []Rule `json:"egress,omitempty"`
}

// Key returns the profile's identity.
func (p *Profile) Key() Key { return Key{Kind: KindProfile, Name: p.Name} }

// Validate reports every problem of the profile as one *ValidationError, or nil.
func (p *Profile) Validate() error {
	v := &validator{}
	v.name("name", p.Name)
	v.labels("labelsToApply", p.LabelsToApply)
	if _, ok := p.LabelsToApply[LabelNamespace]; ok {
		v.add(join("labelsToApply", LabelNamespace),
			"not for a profile to set: it follows the namespace of the endpoint")
	}
	v.rules("ingress", p.Ingress, ruleScope{direction: Ingress})
	v.rules("egress", p.Egress, ruleScope{direction: Egress})
	v.noDoubts("ingress", p.Ingress)
	v.noDoubts("egress", p.Egress)
	return v.err(p.Key())
}

func (p *Profile) equal(other Resource) bool {
	o, ok := other.(*Profile)
	return ok && p.Name == o.Name && maps.Equal(p.LabelsToApply, o.LabelsToApply) &&
		equalRules(p.Ingress, o.Ingress) && equalRules(p.Egress, o.Egress)
}

// DefaultAllowProfile is the name of the built-in profile, see BuiltinProfile. The name is Calico's: its HostEndpoints
// for all nodes list this profile, and the API has no resource of it.
const DefaultAllowProfile = "projectcalico-default-allow"

// BuiltinProfile returns a profile that exists without a resource: DefaultAllowProfile, which allows everything in both
// directions. A Profile resource with this name replaces it, and if that is invalid, Update.Admit replaces it by one
// that denies everything. The result is the caller's to change. It returns false for any other name.
func BuiltinProfile(name string) (*Profile, bool) {
	if name != DefaultAllowProfile {
		return nil, false
	}
	allow := func() []Rule { return []Rule{{Action: Allow}} }
	return &Profile{Name: name, Ingress: allow(), Egress: allow()}, true
}
