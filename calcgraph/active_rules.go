// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector/labelindex"
)

// PolicyReceiver is told which policies are active: those that select a local endpoint or
// are wanted on every node. PolicyActive is called again when an active policy changes.
type PolicyReceiver interface {
	PolicyActive(p *policy.Policy)
	PolicyInactive(key policy.Key)
}

// ProfileReceiver is told which profiles are active: those that a local endpoint lists.
// One that does not exist is active with rules that deny everything. ProfileActive is called again when an
// active profile changes.
type ProfileReceiver interface {
	ProfileActive(p *policy.Profile)
	ProfileInactive(name string)
}

// MatchReceiver is told which policies select which local endpoints.
type MatchReceiver interface {
	MatchStarted(pol, endpoint policy.Key)
	MatchStopped(pol, endpoint policy.Key)
}

// ActiveRulesConfig says where an ActiveRules node sends its output. All fields are required.
type ActiveRulesConfig struct {
	Policies PolicyReceiver
	Profiles ProfileReceiver
	Matches  MatchReceiver
}

// ActiveRules finds the policies and profiles that the endpoints of this node need, so that
// all later work is in proportion to those and not to the cluster. A policy is told
// active before it is told to match, and inactive after its last match stopped.
//
// An ActiveRules is not safe for concurrent use.
type ActiveRules struct {
	out      ActiveRulesConfig
	index    *labelindex.Index[policy.Key, policy.Key]
	policies map[policy.Key]*activePolicy
	profiles map[string]*activeProfile
	// endpoints holds the profiles that each local endpoint lists, without repetition.
	endpoints map[policy.Key][]string
}

type activePolicy struct {
	policy  *policy.Policy
	matches int
	active  bool
}

// activeProfile is kept while the profile exists or an endpoint lists it.
type activeProfile struct {
	profile *policy.Profile // nil while it does not exist
	users   int
}

// NewActiveRules returns an empty node.
func NewActiveRules(cfg ActiveRulesConfig) (*ActiveRules, error) {
	a := &ActiveRules{
		out:       cfg,
		policies:  map[policy.Key]*activePolicy{},
		profiles:  map[string]*activeProfile{},
		endpoints: map[policy.Key][]string{},
	}
	index, err := labelindex.New(labelindex.Config[policy.Key, policy.Key]{
		CompareItems:     policy.Key.Compare,
		CompareSelectors: policy.Key.Compare,
		Started:          a.matchStarted,
		Stopped:          a.matchStopped,
	})
	if err != nil {
		return nil, err
	}
	a.index = index
	return a, nil
}

// UpdatePolicy adds or replaces a policy. Its selectors must parse; otherwise the
// error of PolicySelector is returned and the policy is absent.
func (a *ActiveRules) UpdatePolicy(p *policy.Policy) error {
	key := p.Key()
	sel, err := PolicySelector(p)
	if err != nil {
		a.DeletePolicy(key)
		return err
	}
	state := a.policies[key]
	if state == nil {
		state = &activePolicy{}
		a.policies[key] = state
	}
	state.policy = p
	wasActive := state.active
	a.index.UpdateSelector(key, sel)
	if state.active && wasActive {
		a.out.Policies.PolicyActive(p)
	}
	a.settle(key, state)
	return nil
}

// DeletePolicy removes a policy, if it exists.
func (a *ActiveRules) DeletePolicy(key policy.Key) {
	state := a.policies[key]
	if state == nil {
		return
	}
	state.policy = nil
	a.index.DeleteSelector(key)
	a.settle(key, state)
	delete(a.policies, key)
}

// UpdateProfile adds or replaces a profile.
func (a *ActiveRules) UpdateProfile(p *policy.Profile) {
	state := a.profile(p.Name)
	state.profile = p
	a.index.UpdateParent(p.Name, p.LabelsToApply)
	if state.users > 0 {
		a.out.Profiles.ProfileActive(p)
	}
}

// DeleteProfile removes a profile, if it exists. While an endpoint lists it, it stays
// active with rules that deny everything.
func (a *ActiveRules) DeleteProfile(name string) {
	state := a.profiles[name]
	if state == nil || state.profile == nil {
		return
	}
	state.profile = nil
	a.index.DeleteParent(name)
	if state.users > 0 {
		a.out.Profiles.ProfileActive(missingProfile(name))
		return
	}
	delete(a.profiles, name)
}

// UpdateEndpoint adds or replaces a local endpoint.
func (a *ActiveRules) UpdateEndpoint(w *policy.WorkloadEndpoint) {
	key := w.Key()
	old := a.endpoints[key]
	profiles := distinct(w.Profiles)
	a.endpoints[key] = profiles
	for _, name := range profiles {
		a.useProfile(name)
	}
	a.index.UpdateItem(key, effectiveLabels(w.Namespace, w.Labels), profiles)
	for _, name := range old {
		a.releaseProfile(name)
	}
}

// DeleteEndpoint removes a local endpoint, if it exists.
func (a *ActiveRules) DeleteEndpoint(key policy.Key) {
	old, ok := a.endpoints[key]
	if !ok {
		return
	}
	delete(a.endpoints, key)
	a.index.DeleteItem(key)
	for _, name := range old {
		a.releaseProfile(name)
	}
}

func (a *ActiveRules) matchStarted(pol, endpoint policy.Key) {
	state := a.policies[pol]
	state.matches++
	a.settle(pol, state)
	a.out.Matches.MatchStarted(pol, endpoint)
}

func (a *ActiveRules) matchStopped(pol, endpoint policy.Key) {
	a.out.Matches.MatchStopped(pol, endpoint)
	state := a.policies[pol]
	state.matches--
	a.settle(pol, state)
}

// settle tells the receiver if the policy's being active has changed.
func (a *ActiveRules) settle(key policy.Key, state *activePolicy) {
	want := state.matches > 0 || state.policy != nil && state.policy.NeededOnEveryNode()
	if want == state.active {
		return
	}
	state.active = want
	if want {
		a.out.Policies.PolicyActive(state.policy)
	} else {
		a.out.Policies.PolicyInactive(key)
	}
}

func (a *ActiveRules) profile(name string) *activeProfile {
	state := a.profiles[name]
	if state == nil {
		state = &activeProfile{}
		a.profiles[name] = state
	}
	return state
}

func (a *ActiveRules) useProfile(name string) {
	state := a.profile(name)
	state.users++
	if state.users > 1 {
		return
	}
	if state.profile != nil {
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
	a.out.Profiles.ProfileInactive(name)
	if state.profile == nil {
		delete(a.profiles, name)
	}
}

// missingProfile stands in for a profile that does not exist: it denies everything, also what
// a later profile in the endpoint's list would allow.
func missingProfile(name string) *policy.Profile {
	deny := []policy.Rule{{Action: policy.Deny}}
	return &policy.Profile{Name: name, Ingress: deny, Egress: deny}
}

// distinct returns the names in order, each once.
func distinct(names []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}
