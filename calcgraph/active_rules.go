// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector/labelindex"
)

// PolicyReceiver receives the active policies. A policy is active if it selects a local endpoint or has
// policy.AssumeNeededOnEveryNode. PolicyActive is called again when an active policy changes.
type PolicyReceiver interface {
	PolicyActive(p *policy.Policy)
	PolicyInactive(key policy.Key)
}

// ProfileReceiver receives the active profiles. A profile is active if a local endpoint lists it. If it does
// not exist, its rules deny everything. ProfileActive is called again when an active profile changes.
type ProfileReceiver interface {
	ProfileActive(p *policy.Profile)
	ProfileInactive(name string)
}

// MatchReceiver receives the matches of policies and local endpoints, for all policies of one selector
// at once. SelectionChanged is called when policies joined or left a selection, or one of them
// changed in more than its rules.
type MatchReceiver interface {
	MatchStarted(s *Selection, endpoint policy.Key)
	MatchStopped(s *Selection, endpoint policy.Key)
	SelectionChanged(s *Selection)
}

// ActiveRulesConfig has the receivers of an ActiveRules node. All fields are required.
type ActiveRulesConfig struct {
	Policies PolicyReceiver
	Profiles ProfileReceiver
	Matches  MatchReceiver
}

// ActiveRules finds the policies and profiles that the endpoints of this node need. So the cost of the nodes after
// it depends on these, and not on the cluster. PolicyActive comes before the first match of a policy,
// PolicyInactive after its last match stopped.
//
// Policies with equal selectors are one Selection, so the cost depends on the number of distinct selectors.
//
// An ActiveRules is not safe for concurrent use.
type ActiveRules struct {
	out        ActiveRulesConfig
	index      *labelindex.Index[policy.Key, *Selection]
	namespaces namespaces
	selectors  selectorCache
	selections map[string]*Selection // by canonical selector
	policies   map[policy.Key]selected
	// deferred are the policies of namespaces without a local endpoint. They can select nothing
	// here, so not even their selectors are parsed: in a large cluster that is nearly all of
	// them. The other namespaced ones are indexed.
	deferred, indexed policiesByNamespace
	profiles          map[string]*activeProfile
	// endpoints has the references to release when a local endpoint is removed.
	endpoints map[policy.Key]localEndpoint
	parents   []string // room to work in
}

// selected is a policy and the selection that it is in.
type selected struct {
	policy    *policy.Policy
	selection *Selection
}

// activeProfile is kept while the profile exists or an endpoint lists it.
type activeProfile struct {
	profile *policy.Profile // nil while it does not exist
	users   int
}

// localEndpoint is an endpoint of this node, workload or host.
type localEndpoint struct {
	namespace uint32
	profiles  []string // each once
}

// NewActiveRules returns an empty node.
func NewActiveRules(cfg ActiveRulesConfig) (*ActiveRules, error) {
	a := &ActiveRules{
		out:        cfg,
		selections: map[string]*Selection{},
		policies:   map[policy.Key]selected{},
		deferred:   newPoliciesByNamespace(),
		indexed:    newPoliciesByNamespace(),
		profiles:   map[string]*activeProfile{},
		endpoints:  map[policy.Key]localEndpoint{},
	}
	index, err := labelindex.New(labelindex.Config[policy.Key, *Selection]{
		CompareItems: policy.Key.Compare,
		CompareSelectors: func(a, b *Selection) int {
			return strings.Compare(a.sel.String(), b.sel.String())
		},
		Started: a.matchStarted,
		Stopped: a.matchStopped,
	})
	if err != nil {
		return nil, err
	}
	a.index, a.namespaces = index, newNamespaces(index)
	return a, nil
}

// UpdatePolicy adds or replaces a policy. Its selectors must parse; otherwise the policy is absent,
// and the error of PolicySelector is returned, unless the policy is of a namespace that has no
// local endpoint.
func (a *ActiveRules) UpdatePolicy(p *policy.Policy) error {
	key := p.Key()
	if a.deferPolicy(key, p) {
		return nil
	}
	a.deferred.remove(key)
	sel, err := a.selectors.of(p)
	if err != nil {
		a.DeletePolicy(key)
		return err
	}
	old := a.policies[key]
	if old.policy == p {
		return nil
	}
	wasActive := old.active()
	selection := a.selections[sel.String()]
	isNew := selection == nil
	if isNew {
		selection = NewSelection(sel)
		a.selections[sel.String()] = selection
	}
	now := selected{p, selection}
	a.policies[key] = now
	if key.Namespace != "" {
		a.indexed.set(key, p)
	}
	if now.active() {
		a.out.Policies.PolicyActive(p)
	}
	if old.selection == selection {
		a.replaced(selection, old.policy, p)
	} else {
		a.replaced(selection, nil, p)
	}
	if isNew { // the policy is among those that its first match makes active
		a.index.UpdateSelector(selection, sel)
	}
	if old.selection != nil && old.selection != selection {
		a.leave(old)
	}
	if wasActive && !now.active() {
		a.out.Policies.PolicyInactive(key)
	}
	return nil
}

// DeletePolicy removes a policy, if it exists.
func (a *ActiveRules) DeletePolicy(key policy.Key) {
	a.deferred.remove(key)
	old, ok := a.policies[key]
	if !ok {
		return
	}
	if key.Namespace != "" {
		a.indexed.remove(key)
	}
	wasActive := old.active()
	delete(a.policies, key)
	a.leave(old)
	if wasActive {
		a.out.Policies.PolicyInactive(key)
	}
}

// deferPolicy keeps a policy without parsing its selector, if it can select nothing here. It reports
// whether it did.
func (a *ActiveRules) deferPolicy(key policy.Key, p *policy.Policy) bool {
	if p.Namespace == "" || p.NeededOnEveryNode() {
		return false
	}
	if _, local := a.namespaces.find(p.Namespace); local {
		return false
	}
	if _, indexed := a.policies[key]; indexed {
		return false
	}
	a.deferred.set(key, p)
	return true
}

// indexNamespace indexes the deferred policies of a namespace, once it has a local endpoint. One
// whose selectors do not parse is absent.
func (a *ActiveRules) indexNamespace(namespace string) {
	for _, p := range a.deferred.take(namespace) {
		_ = a.UpdatePolicy(p) // as UpdatePolicy, it is absent then
	}
}

// deferNamespace defers the policies of a namespace, once its last local endpoint is removed.
func (a *ActiveRules) deferNamespace(namespace string) {
	for _, p := range slices.Clone(a.indexed.byNamespace[namespace]) {
		if !p.NeededOnEveryNode() {
			a.DeletePolicy(p.Key())
			a.deferPolicy(p.Key(), p)
		}
	}
}

// leave takes a policy out of its selection, and the selection away after the last one.
func (a *ActiveRules) leave(p selected) {
	a.replaced(p.selection, p.policy, nil)
	if len(p.selection.policies) == 0 {
		a.index.DeleteSelector(p.selection)
		delete(a.selections, p.selection.sel.String())
	}
}

// replaced replaces a policy in a selection, and reports the change if the selection has matches.
func (a *ActiveRules) replaced(s *Selection, old, p *policy.Policy) {
	if s.Replace(old, p) && s.matches > 0 {
		a.out.Matches.SelectionChanged(s)
	}
}

// UpdateProfile adds or replaces a profile.
func (a *ActiveRules) UpdateProfile(p *policy.Profile) {
	state := a.profile(p.Name)
	state.profile = p
	if state.users > 0 {
		a.index.UpdateParent(p.Name, p.LabelsToApply)
		a.out.Profiles.ProfileActive(p)
	}
}

// DeleteProfile removes a profile, if it exists. While an endpoint lists it, it stays
// active with rules that deny everything, or those of the built-in profile.
func (a *ActiveRules) DeleteProfile(name string) {
	state := a.profiles[name]
	if state == nil || state.profile == nil {
		return
	}
	state.profile = nil
	if state.users > 0 {
		a.index.DeleteParent(name)
		a.out.Profiles.ProfileActive(missingProfile(name))
		return
	}
	delete(a.profiles, name)
}

// UpdateEndpoint adds or replaces a local workload endpoint.
func (a *ActiveRules) UpdateEndpoint(w *policy.WorkloadEndpoint) {
	a.updateEndpoint(w.Key(), w.Labels, w.Profiles)
}

// UpdateHostEndpoint adds or replaces a local host endpoint.
func (a *ActiveRules) UpdateHostEndpoint(h *policy.HostEndpoint) {
	a.updateEndpoint(h.Key(), h.Labels, h.Profiles)
}

func (a *ActiveRules) updateEndpoint(key policy.Key, labels map[string]string, profiles []string) {
	old, known := a.endpoints[key]
	now := old
	if !known {
		now.namespace = a.namespaces.use(key.Namespace)
		a.indexNamespace(key.Namespace)
	}
	if !known || !slices.Equal(old.profiles, profiles) {
		now.profiles = distinct(profiles)
		for _, name := range now.profiles {
			a.useProfile(name)
		}
		a.endpoints[key] = now
	}
	a.parents = a.namespaces.appendParents(a.parents[:0], now.namespace, now.profiles)
	a.index.UpdateItem(key, labels, a.parents)
	if known && !slices.Equal(old.profiles, profiles) {
		for _, name := range old.profiles {
			a.releaseProfile(name)
		}
	}
}

// DeleteEndpoint removes a local endpoint, workload or host, if it exists.
func (a *ActiveRules) DeleteEndpoint(key policy.Key) {
	old, ok := a.endpoints[key]
	if !ok {
		return
	}
	delete(a.endpoints, key)
	a.index.DeleteItem(key)
	a.namespaces.release(old.namespace)
	if _, used := a.namespaces.find(key.Namespace); !used {
		a.deferNamespace(key.Namespace)
	}
	for _, name := range old.profiles {
		a.releaseProfile(name)
	}
}

// active reports whether the policy must be active.
func (s selected) active() bool {
	return s.selection != nil && (s.selection.matches > 0 || s.policy.NeededOnEveryNode())
}

func (a *ActiveRules) matchStarted(s *Selection, endpoint policy.Key) {
	s.matches++
	if s.matches == 1 {
		for _, p := range s.policies {
			if !p.NeededOnEveryNode() {
				a.out.Policies.PolicyActive(p)
			}
		}
	}
	a.out.Matches.MatchStarted(s, endpoint)
}

func (a *ActiveRules) matchStopped(s *Selection, endpoint policy.Key) {
	a.out.Matches.MatchStopped(s, endpoint)
	s.matches--
	if s.matches > 0 {
		return
	}
	for _, p := range s.policies {
		if !p.NeededOnEveryNode() {
			a.out.Policies.PolicyInactive(p.Key())
		}
	}
}
