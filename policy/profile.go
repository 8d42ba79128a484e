// SPDX-License-Identifier: Apache-2.0

package policy

// Profile has labels for the endpoints that list it, and rules for the traffic of these endpoints.
// The rules decide about a packet only if no tier does. This is so if no policy applies to the
// endpoint in the packet's direction, or if every tier passes the packet on.
type Profile struct {
	// Name of the profile. Required.
	Name string `json:"name"`
	// LabelsToApply are labels that endpoints inherit from the profile. An endpoint's own label
	// takes precedence over an inherited label of the same name. If several profiles have the
	// label, the first of them in the endpoint's list takes precedence. LabelNamespace is not
	// allowed. Empty means none.
	LabelsToApply map[string]string `json:"labelsToApply,omitempty"`
	// Ingress rules. Here, Pass denies the packet. Without rules, the profile does not decide this
	// direction.
	Ingress []Rule `json:"ingress,omitempty"`
	// Egress rules. Here, Pass denies the packet. Without rules, the profile does not decide this
	// direction.
	Egress []Rule `json:"egress,omitempty"`
}

// Key returns the profile's key.
func (p *Profile) Key() Key { return Key{Kind: KindProfile, Name: p.Name} }

func (*Profile) resource() {}

// Validate reports all problems of the profile as one *ValidationError, or nil.
func (p *Profile) Validate() error {
	v := &validator{}
	v.name("name", p.Name)
	v.labels("labelsToApply", p.LabelsToApply)
	if _, ok := p.LabelsToApply[LabelNamespace]; ok {
		v.add(join("labelsToApply", LabelNamespace),
			"not allowed in a profile: the label comes from the endpoint's namespace")
	}
	v.rules("ingress", p.Ingress, ruleScope{direction: Ingress})
	v.rules("egress", p.Egress, ruleScope{direction: Egress})
	v.noDoubts("ingress", p.Ingress)
	v.noDoubts("egress", p.Egress)
	return v.err(p.Key())
}

// DefaultAllowProfile is the name of the built-in profile: see BuiltinProfile. Calico has a
// built-in profile of the same name, too. When Calico creates a HostEndpoint for a node, it puts
// this profile into the list of profiles of the HostEndpoint.
const DefaultAllowProfile = "projectcalico-default-allow"

// BuiltinProfile returns the built-in profile with the name, or false if there is none. The caller
// may change the returned profile. A built-in profile exists even if there is no Profile resource
// with its name. The only built-in profile is DefaultAllowProfile, which allows everything in both
// directions. A Profile resource with this name replaces the built-in one. If this resource is
// invalid, Update.Admit returns a profile that denies everything.
func BuiltinProfile(name string) (*Profile, bool) {
	if name != DefaultAllowProfile {
		return nil, false
	}
	allow := func() []Rule { return []Rule{{Action: Allow}} }
	return &Profile{Name: name, Ingress: allow(), Egress: allow()}, true
}
