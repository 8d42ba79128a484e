// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector/labelindex"
)

// PolicyReceiver receives the active policies. A policy is active if it selects a local endpoint,
// or has the performance hint policy.AssumeNeededOnEveryNode. PolicyActive is called again if an
// active policy changes.
type PolicyReceiver interface {
	PolicyActive(p *policy.Policy)
	PolicyInactive(key policy.Key)
}

// ProfileReceiver receives the active profiles. A profile is active if a local endpoint lists it.
// If the profile does not exist, ProfileActive receives another profile with the same name. This is
// the profile that policy.BuiltinProfile returns for the name, or else a profile that denies
// everything. ProfileActive is called again if an active profile changes.
type ProfileReceiver interface {
	ProfileActive(p *policy.Profile)
	ProfileInactive(name string)
}

// MatchReceiver is notified of which policies select which local endpoints. All policies of a
// Selection have the same selector, so one call is for all of them. SelectionChanged is called if a
// policy is added to a selection or removed from it. It is also called if the tier, order,
// direction or stage (such as untracked) of a policy changes. It is not called if only rules
// change.
type MatchReceiver interface {
	MatchStarted(s *Selection, endpoint policy.Key)
	MatchStopped(s *Selection, endpoint policy.Key)
	SelectionChanged(s *Selection)
}

// ActiveRulesConfig configures an ActiveRules. All fields are required.
type ActiveRulesConfig struct {
	Policies PolicyReceiver
	Profiles ProfileReceiver
	Matches  MatchReceiver
}

// ActiveRules computes which policies and profiles the endpoints of this node need. The RuleScanner
// and the PolicyResolver receive only these policies and profiles. So their cost does not depend on
// the size of the cluster. When a policy selects its first local endpoint, ActiveRules calls
// PolicyActive, and then MatchStarted for the endpoint. When the policy selects no local endpoint
// any more, ActiveRules calls MatchStopped for the last endpoint, and then PolicyInactive. A policy
// with the hint policy.AssumeNeededOnEveryNode is active all the time.
//
// Policies with equal selectors are in one Selection. So the cost of ActiveRules depends on the
// number of distinct selectors.
//
// An ActiveRules is not safe for concurrent use.
type ActiveRules struct {
	out        ActiveRulesConfig
	index      *labelindex.Index[policy.Key, *Selection]
	namespaces namespaces
	selectors  selectorCache
	selections map[string]*Selection // by canonical selector
	policies   map[policy.Key]selected
	// deferred has the policies of namespaces without a local endpoint. They cannot select a local
	// endpoint, so their selectors are not parsed. In a large cluster, nearly all policies are
	// deferred. indexed has the policies of the other namespaces.
	deferred, indexed policiesByNamespace
	profiles          map[string]*activeProfile
	// endpoints has the namespace and the profiles of each local endpoint. They are released when
	// it is removed.
	endpoints  map[policy.Key]localEndpoint
	parentsBuf []string // buffer
}

// selected is a policy and its selection.
type selected struct {
	policy    *policy.Policy
	selection *Selection
}

// activeProfile is the state of a profile that exists or that an endpoint lists.
type activeProfile struct {
	profile *policy.Profile // nil if it does not exist
	users   int
}

// localEndpoint is a workload endpoint or host endpoint of this node.
type localEndpoint struct {
	namespace uint32
	profiles  []string // without duplicates
}

// NewActiveRules returns an ActiveRules without policies.
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

// UpdatePolicy adds or replaces a policy. If its selectors are invalid, UpdatePolicy removes the
// policy, and returns the error of PolicySelector. If the policy's namespace has no local endpoint,
// UpdatePolicy does not parse the selectors yet.
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
		a.replaceSelected(selection, old.policy, p)
	} else {
		a.replaceSelected(selection, nil, p)
	}
	if isNew { // its first match makes all policies of the selection active
		a.index.UpdateSelector(selection, sel)
	}
	if old.selection != nil && old.selection != selection {
		a.removeSelected(old)
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
	a.removeSelected(old)
	if wasActive {
		a.out.Policies.PolicyInactive(key)
	}
}

// deferPolicy stores a policy without parsing the policy's selector, if the policy cannot select a
// local endpoint. Otherwise it does nothing and returns false.
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

// indexNamespace indexes the deferred policies of a namespace after its first local endpoint was
// added.
func (a *ActiveRules) indexNamespace(namespace string) {
	for _, p := range a.deferred.take(namespace) {
		_ = a.UpdatePolicy(p) // with an error, the policy is absent
	}
}

// deferNamespace defers the policies of a namespace after its last local endpoint was removed.
func (a *ActiveRules) deferNamespace(namespace string) {
	for _, p := range slices.Clone(a.indexed.byNamespace[namespace]) {
		if !p.NeededOnEveryNode() {
			a.DeletePolicy(p.Key())
			a.deferPolicy(p.Key(), p)
		}
	}
}

// removeSelected removes a policy from its selection, and removes the selection if it is empty.
func (a *ActiveRules) removeSelected(p selected) {
	a.replaceSelected(p.selection, p.policy, nil)
	if len(p.selection.policies) == 0 {
		a.index.DeleteSelector(p.selection)
		delete(a.selections, p.selection.sel.String())
	}
}

// replaceSelected replaces a policy in a selection, and reports the change if the selection has
// matches.
func (a *ActiveRules) replaceSelected(s *Selection, old, p *policy.Policy) {
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

// DeleteProfile removes a profile, if it exists. If an endpoint still lists the profile,
// ProfileActive receives the built-in profile of this name, or else a profile that denies
// everything.
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
	a.parentsBuf = a.namespaces.appendParents(a.parentsBuf[:0], now.namespace, now.profiles)
	a.index.UpdateItem(key, labels, a.parentsBuf)
	if known && !slices.Equal(old.profiles, profiles) {
		for _, name := range old.profiles {
			a.releaseProfile(name)
		}
	}
}

// DeleteEndpoint removes a local workload endpoint or host endpoint, if it exists.
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
