// SPDX-License-Identifier: Apache-2.0

package policy

// Tier is an ordered group of policies. Tiers are evaluated in order.
type Tier struct {
	// Name of the tier. Required.
	Name string `json:"name"`
	// Order of the tier. Tiers with smaller orders come first, those without an order (nil) come
	// last, and tiers with equal orders are sorted by name. The three built-in tiers have fixed
	// orders: see BuiltinTier.
	Order *float64 `json:"order,omitempty"`
	// DefaultAction is Deny (the default) or Pass. It applies if at least one policy of the tier
	// selects an endpoint, and no rule of these policies decides.
	DefaultAction Action `json:"defaultAction,omitempty"`
}

// The built-in tiers. They exist even without a Tier resource: see BuiltinTier.
const (
	DefaultTier      = "default"
	KubeAdminTier    = "kube-admin"
	KubeBaselineTier = "kube-baseline"
)

// Key returns the tier's key.
func (t *Tier) Key() Key { return Key{Kind: KindTier, Name: t.Name} }

func (*Tier) resource() {}

// Validate reports all problems of the tier as one *ValidationError, or nil.
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

// Action returns the action that applies if no rule of the tier's policies decides. It is Pass if
// DefaultAction is Pass, and Deny otherwise. A nil Tier stands for a tier without a Tier resource:
// its action is Deny.
func (t *Tier) Action() Action {
	if t != nil && t.DefaultAction == Pass {
		return Pass
	}
	return Deny
}

// BuiltinTier returns the built-in tier with the name, or false if there is none. A built-in tier
// exists even if there is no Tier resource with its name. The built-in tiers are KubeAdminTier
// (order 1,000, default action Pass), DefaultTier (order 1,000,000, Deny) and KubeBaselineTier
// (order 10,000,000, Pass). A Tier resource with such a name must have the same order and default
// action. The caller may change the result.
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
