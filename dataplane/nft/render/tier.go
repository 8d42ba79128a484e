// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// tier has the policies of one tier that apply to some endpoints in one direction. Endpoints with
// the same policies of the tier share it.
type tier struct {
	name  string // the name of the chain, which identifies the tier
	key   match.List
	spec  dataplane.TierPolicies
	users map[*subject]struct{}
	// empty is set if none of the policies is enforced: then there is no chain (S20).
	empty bool
	err   error
}

// tiers renders tiers to chains.
type tiers struct {
	statements *statements
	table      *table
	policies   *policies
	hashes     *tierHashes
	byName     map[string]*tier // by the names of their chains

	dirty *dirtySet[*tier]
	// dirtySubjects is marked for the endpoints of a tier if they must be rendered again.
	dirtySubjects *dirtySet[*subject]
}

// addUser returns the tier with the given policies, and records that an endpoint uses it.
func (ts *tiers) addUser(user *subject, k match.List, spec dataplane.TierPolicies) *tier {
	name := sets.ObjectName(k.Stage.Name()+"tier-"+string(k.Dir), spec.Tier, ts.hashes.of(spec))
	t := ts.byName[name]
	if t == nil {
		t = &tier{name: name, key: k, spec: spec, users: map[*subject]struct{}{}}
		ts.byName[name] = t
		for _, p := range spec.Policies {
			o := ts.policies.get(p)
			o.tiers[t] = struct{}{}
			ts.policies.needList(o, k)
		}
		ts.render(t)
	}
	t.users[user] = struct{}{}
	return t
}

// tierID identifies a list of policies by its memory address, which is cheap to compare.
type tierID struct {
	first  *policy.Key
	length int
	tier   string
	action policy.Action
}

// tierHashes has the hashes that were computed since the last flush.
type tierHashes struct{ byID map[tierID]string }

// of returns a hash of a tier's name, default action and policies. Endpoints share lists of
// policies, so the hash of a list is computed once for each flush.
func (h *tierHashes) of(spec dataplane.TierPolicies) string {
	id := tierID{length: len(spec.Policies), tier: spec.Tier, action: spec.DefaultAction}
	if id.length > 0 {
		id.first = &spec.Policies[0]
	}
	if hash, ok := h.byID[id]; ok {
		return hash
	}
	identity := []string{spec.Tier, string(spec.DefaultAction)}
	for _, key := range spec.Policies {
		identity = append(identity, string(key.Kind), key.Namespace, key.Name)
	}
	hash := sets.Hash(identity...)
	h.byID[id] = hash
	return hash
}

// clear removes the hashes, because later lists of policies may have the same memory addresses.
func (h *tierHashes) clear() { h.byID = reuse.Map(h.byID) }

// removeUser records that an endpoint no longer uses the tier. If no endpoint uses the tier, it is
// removed.
func (ts *tiers) removeUser(user *subject, t *tier) {
	delete(t.users, user)
	if len(t.users) > 0 {
		return
	}
	delete(ts.byName, t.name)
	ts.dirty.unmark(t)
	for _, p := range t.spec.Policies {
		o := ts.policies.get(p)
		delete(o.tiers, t)
		ts.policies.dropLists(o)
		ts.policies.forget(o)
	}
	ts.table.chains.Drop(t.name)
}

// render renders the chain of a tier again, and marks the endpoints that depend on it.
func (ts *tiers) render(t *tier) {
	c, err := ts.chain(t)
	empty := c == nil && err == nil
	if !sameError(err, t.err) || empty != t.empty {
		for s := range t.users {
			ts.dirtySubjects.mark(s)
		}
	}
	t.empty, t.err = empty, err
	if c == nil {
		ts.table.chains.Drop(t.name)
		return
	}
	ts.table.chains.Set(c)
}

// chain returns the chain of a tier, or nil if no policy of it is enforced.
func (ts *tiers) chain(t *tier) (*ruleset.Chain, error) {
	c, enforced := &ruleset.Chain{Name: t.name}, 0
	for _, key := range t.spec.Policies {
		o := ts.policies.get(key)
		switch {
		case !o.Exists():
			return nil, fmt.Errorf("tier %s: %s does not exist", t.spec.Tier, key)
		case o.Staged():
			continue
		case o.Err != nil:
			return nil, fmt.Errorf("tier %s: %s: %w", t.spec.Tier, key, o.Err)
		}
		l := o.lists[t.key]
		if l == nil {
			return nil, fmt.Errorf("tier %s: %s is of another kind", t.spec.Tier, key)
		}
		enforced++
		c.Rules = append(c.Rules, l.rules...)
		if l.chain != "" {
			c.Rules = append(c.Rules, call(l.chain)...)
		}
	}
	if enforced == 0 {
		return nil, nil // S20
	}
	switch t.spec.DefaultAction {
	case policy.Pass:
	case policy.Deny: // S26, S27
		if t.key.Stage.Partial() { // S36
			break
		}
		c.Rules = append(c.Rules, ts.statements.denial(t.key.Stage, "end of tier "+t.spec.Tier))
	default:
		return nil, fmt.Errorf("tier %s: unknown default action %q", t.spec.Tier, t.spec.DefaultAction)
	}
	return c, nil
}
