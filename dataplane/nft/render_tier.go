// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// tier is one tier with the policies that apply to some endpoints in one direction. Endpoints with
// just the same share it.
type tier struct {
	name  string // of the chain, the identity
	key   listKey
	spec  dataplane.TierPolicies
	users map[*subject]struct{}
	// empty says that none of the policies is enforced: there is no chain (S20).
	empty bool
	err   error
}

// tier returns the tier of an endpoint, made where it is not there, and notes who uses it.
func (r *Renderer) tier(user *subject, k listKey, spec dataplane.TierPolicies) *tier {
	name := objectName(k.stage.name()+"tier-"+string(k.dir), spec.Tier, r.tierHash(spec))
	t := r.tiers[name]
	if t == nil {
		t = &tier{name: name, key: k, spec: spec, users: map[*subject]struct{}{}}
		r.tiers[name] = t
		for _, p := range spec.Policies {
			o := r.owner(p)
			o.tiers[t] = struct{}{}
			r.needLists(o)
		}
		r.renderTier(t)
	}
	t.users[user] = struct{}{}
	return t
}

// tierID says cheaply that two lists of policies are one.
type tierID struct {
	first  *policy.Key
	length int
	tier   string
	action policy.Action
}

// tierHash stands for a tier's name, default action and policies. Endpoints share lists, whose hash is then
// calculated once a flush.
func (r *Renderer) tierHash(spec dataplane.TierPolicies) string {
	id := tierID{length: len(spec.Policies), tier: spec.Tier, action: spec.DefaultAction}
	if id.length > 0 {
		id.first = &spec.Policies[0]
	}
	if h, ok := r.hashes[id]; ok {
		return h
	}
	identity := []string{spec.Tier, string(spec.DefaultAction)}
	for _, key := range spec.Policies {
		identity = append(identity, string(key.Kind), key.Namespace, key.Name)
	}
	h := hash(identity...)
	r.hashes[id] = h
	return h
}

// leave notes that an endpoint uses the tier no longer. The last to leave takes it away.
func (r *Renderer) leave(user *subject, t *tier) {
	delete(t.users, user)
	if len(t.users) > 0 {
		return
	}
	delete(r.tiers, t.name)
	delete(r.dirtyTiers, t)
	for _, p := range t.spec.Policies {
		o := r.owner(p)
		delete(o.tiers, t)
		r.dropLists(o)
		r.forgetOwner(o)
	}
	r.dropChain(t.name)
}

// renderTier renders the chain of a tier anew.
func (r *Renderer) renderTier(t *tier) {
	c, err := r.tierChain(t)
	empty := c == nil && err == nil
	if !sameError(err, t.err) || empty != t.empty {
		for s := range t.users {
			r.dirtySubjects[s] = struct{}{}
		}
	}
	t.empty, t.err = empty, err
	if c == nil {
		r.dropChain(t.name)
		return
	}
	r.setChain(c)
}

// tierChain returns the chain of a tier, or nil if no policy of it is enforced.
func (r *Renderer) tierChain(t *tier) (*ruleset.Chain, error) {
	c, enforced := &ruleset.Chain{Name: t.name}, 0
	for _, key := range t.spec.Policies {
		o := r.owner(key)
		switch {
		case !o.exists():
			return nil, fmt.Errorf("tier %s: %s does not exist", t.spec.Tier, key)
		case o.staged():
			continue
		case o.err != nil:
			return nil, fmt.Errorf("tier %s: %s: %w", t.spec.Tier, key, o.err)
		}
		l := o.lists[t.key]
		if l == nil {
			return nil, fmt.Errorf("tier %s: %s is of another kind", t.spec.Tier, key)
		}
		enforced++
		c.Rules = append(c.Rules, l.rules...)
		if l.chain != "" {
			c.Rules = append(c.Rules, ruleset.Rule{Statements: []ruleset.Statement{jump(l.chain)}})
		}
	}
	if enforced == 0 {
		return nil, nil // S20
	}
	switch t.spec.DefaultAction {
	case policy.Pass:
	case policy.Deny: // S26, S27
		if t.key.stage != stageFilter && t.key.stage != stageHostOut { // S36
			break
		}
		c.Rules = append(c.Rules, r.denial(t.key, "end of tier "+t.spec.Tier))
	default:
		return nil, fmt.Errorf("tier %s: unknown default action %q", t.spec.Tier, t.spec.DefaultAction)
	}
	return c, nil
}
