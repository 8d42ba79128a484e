// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"slices"

	"github.com/wayleave/wayleave/policy"
)

func (a *ActiveRules) profile(name string) *activeProfile {
	state := a.profiles[name]
	if state == nil {
		state = &activeProfile{}
		a.profiles[name] = state
	}
	return state
}

// useProfile counts an endpoint that lists a profile. The label index has only profiles that a
// local endpoint lists, because most profiles of a cluster have no local endpoint.
func (a *ActiveRules) useProfile(name string) {
	state := a.profile(name)
	state.users++
	if state.users > 1 {
		return
	}
	if state.profile != nil {
		a.index.UpdateParent(name, state.profile.LabelsToApply)
		a.out.Profiles.ProfileActive(state.profile)
	} else {
		a.out.Profiles.ProfileActive(missingProfile(name))
	}
}

func (a *ActiveRules) releaseProfile(name string) {
	state := a.profiles[name]
	state.users--
	if state.users > 0 {
		return
	}
	a.index.DeleteParent(name)
	a.out.Profiles.ProfileInactive(name)
	if state.profile == nil {
		delete(a.profiles, name)
	}
}

// missingProfile returns the rules for a profile without a resource. Unless it is built in, it
// denies everything, also what a later profile in the endpoint's list allows.
func missingProfile(name string) *policy.Profile {
	if p, ok := policy.BuiltinProfile(name); ok {
		return p
	}
	deny := []policy.Rule{{Action: policy.Deny}}
	return &policy.Profile{Name: name, Ingress: deny, Egress: deny}
}

// distinct returns the names without duplicates, in order. If there are none, it returns the same
// slice.
func distinct(names []string) []string {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return dropRepeated(names)
		}
	}
	return names
}

func dropRepeated(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
