// SPDX-License-Identifier: Apache-2.0

package policy

// Tier groups policies. Tiers are looked at in order. Readers may share a Tier that nobody
// changes.
type Tier struct {
	// Name of the tier. Required.
	Name string `json:"name"`
	// Order among tiers: smaller first; nil means after every number; ties by name. The
	// three built-in tiers have fixed orders, see BuiltinTier.
	Order *float64 `json:"order,omitempty"`
	// DefaultAction is what happens to traffic of an endpoint that the tier's policies
	// select when none of their rules decides: Deny (the default) or Pass.
	DefaultAction Action `json:"defaultAction,omitempty"`
}

// The built-in tiers: they exist without a Tier resource, see BuiltinTier.
const (
	DefaultTier      = "default"
	KubeAdminTier    = "kube-admin"
	KubeBaselineTier = "kube-baseline"
)

// Key returns the tier's identity.
func (t *Tier) Key() Key { return Key{Kind: KindTier, Name: t.Name} }

// Validate reports every problem of the tier as one *ValidationError, or nil.
func (t *Tier) Validate() error {
	v := &validator{}
	v.name("name", t.Name)
	v.order(t.Order)
	switch t.DefaultAction {
	case "", Deny, Pass:
	default:
		v.add("defaultAction", "want Deny or Pass, not %q", clip(string(t.DefaultAction)))
	}
	if b, ok := BuiltinTier(t.Name); ok {
		if !equalPointers(t.Order, b.Order) {
			v.add("order", "the built-in tier %q has order %.0f", t.Name, *b.Order)
		}
		if t.Action() != b.Action() {
			v.add("defaultAction", "the built-in tier %q has default action %s", t.Name, b.DefaultAction)
		}
	}
	return v.err(t.Key())
}

func (t *Tier) equal(other Resource) bool {
	o, ok := other.(*Tier)
	return ok && t.Name == o.Name && t.DefaultAction == o.DefaultAction && equalPointers(t.Order, o.Order)
}

// Action returns what happens to traffic that the tier's policies leave undecided: Pass
// where DefaultAction says so, Deny in every other case. A nil tier, one
// without a resource, denies too.
func (t *Tier) Action() Action {
	if t != nil && t.DefaultAction == Pass {
		return Pass
	}
	return Deny
}

// BuiltinTier returns a tier that exists without a resource: KubeAdminTier (order 1,000,
// Pass), DefaultTier (order 1,000,000, Deny) and KubeBaselineTier (order 10,000,000,
// Pass). A Tier resource of such a name must have the same order and default action. The
// result is the caller's to change. It returns false for any other name.
func BuiltinTier(name string) (*Tier, bool) {
	order, action := 0.0, Pass
	switch name {
	case KubeAdminTier:
		order = 1_000
	case DefaultTier:
		order, action = 1_000_000, Deny
	case KubeBaselineTier:
		order = 10_000_000
	default:
		return nil, false
	}
	return &Tier{Name: name, Order: &order, DefaultAction: action}, true
}
