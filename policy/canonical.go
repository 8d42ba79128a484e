// SPDX-License-Identifier: Apache-2.0

package policy

import "strings"

// Canonical returns a copy of r in which equal things are written equally: prefixes are
// masked and unmapped, addresses unmapped, the types of a policy in their usual case,
// MAC addresses in small letters. What has no canonical form, as a mapped prefix with
// less than 96 bits, stays as it is, for Validate to refuse. Nil stays nil.
func Canonical(r Resource) Resource {
	c := Clone(r)
	canonicalize(c)
	return c
}

// canonicalize does Canonical's work in place.
func canonicalize(r Resource) {
	if absent(r) {
		return
	}
	switch r := r.(type) {
	case *Policy:
		for i, t := range r.Types {
			r.Types[i] = t.canonical()
		}
		canonicalizeRules(r.Ingress)
		canonicalizeRules(r.Egress)
	case *Profile:
		canonicalizeRules(r.Ingress)
		canonicalizeRules(r.Egress)
	case *NetworkSet:
		canonicalizeNets(r.Nets)
	case *WorkloadEndpoint:
		for i, a := range r.Addresses {
			r.Addresses[i] = a.Unmap()
		}
		r.MAC = strings.ToLower(r.MAC)
	}
}

func canonicalizeRules(rules []Rule) {
	for i := range rules {
		for _, side := range []*EntityRule{&rules[i].Source, &rules[i].Destination} {
			canonicalizeNets(side.Nets)
			canonicalizeNets(side.NotNets)
		}
	}
}

func canonicalizeNets(nets Nets) {
	for i, p := range nets {
		nets[i] = canonicalNet(p)
	}
}

// canonical returns the type in its usual case, or as it is where it is unknown.
func (t Type) canonical() Type {
	for _, known := range []Type{Ingress, Egress} {
		if sameLetters(string(t), string(known)) {
			return known
		}
	}
	return t
}
