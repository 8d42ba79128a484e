// SPDX-License-Identifier: Apache-2.0

package match

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// Direction is the direction of the packets to which a list of rules applies, as seen from the
// endpoint.
type Direction string

// The directions.
const (
	Ingress Direction = "ingress"
	Egress  Direction = "egress"
)

// Peer returns the part of a rule that matches the address of the peer: the source for ingress, the
// destination for egress.
func (d Direction) Peer(rule *dataplane.Rule) *dataplane.Match {
	if d == Egress {
		return &rule.Destination
	}
	return &rule.Source
}

// Owner is a policy or a profile with its rules. If it exists, either Policy or Profile is set; if
// not, neither is.
type Owner struct {
	Key     policy.Key
	Policy  *dataplane.Policy
	Profile *dataplane.Profile
	// Err is set if the rules cannot be rendered.
	Err error
}

// Exists reports whether the policy or profile exists. A nil Owner does not exist.
func (o *Owner) Exists() bool { return o != nil && (o.Policy != nil || o.Profile != nil) }

// IsProfile reports whether the Owner is a profile.
func (o *Owner) IsProfile() bool { return o.Key.Kind == policy.KindProfile }

// Staged reports whether the policy must not be enforced (S20).
func (o *Owner) Staged() bool {
	return o.Key.Kind == policy.KindStagedPolicy || o.Policy != nil && o.Policy.Staged
}

// Rules returns the rules for a direction. If the policy or profile does not exist, it returns nil.
func (o *Owner) Rules(d Direction) []dataplane.Rule {
	switch {
	case o.Policy != nil && d == Ingress:
		return o.Policy.Ingress
	case o.Policy != nil:
		return o.Policy.Egress
	case o.Profile != nil && d == Ingress:
		return o.Profile.Ingress
	case o.Profile != nil:
		return o.Profile.Egress
	default:
		return nil
	}
}
