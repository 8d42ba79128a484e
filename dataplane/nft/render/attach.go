// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// attachments attaches endpoints to tiers, profiles and groups. It returns the rules that lead an
// endpoint's packets there.
type attachments struct {
	statements *statements
	policies   *policies
	tiers      *tiers
	// lookups is nil if all policy is written as chains.
	lookups *outcome.Lookups
}

// attached has the tiers, profiles and groups to which an endpoint is attached.
type attached struct {
	tiers    []*tier
	profiles []profileUse
	groups   []*outcome.Group
}

// profileUse is one list of rules of a profile that an endpoint uses.
type profileUse struct {
	owner *ruleOwner
	key   match.List
}

// policyRules returns the rules that decide about packets of one direction. These are lookups, or
// for a group over a limit, jumps to tiers and profiles and then a denial.
//
// At a workload, the chain that jumps to the endpoint's chain must contain the rule
// outcome.Dispatch.
func (a *attachments) policyRules(
	s *subject, dir match.Direction, tiers []dataplane.TierPolicies, profiles []string,
) ([]ruleset.Rule, error) {
	k := match.List{Dir: dir, Stage: match.StageNormal}
	if g := a.group(s, outcome.Policy{
		List: k, Tiers: tiers, Profiles: profiles, Rest: policy.Deny, Return: s.workload != nil,
	}); g != nil {
		return g.Rules(), g.Err()
	}
	fromTiers, err1 := a.tierJumps(s, k, tiers)
	fromProfiles, err2 := a.profileJumps(s, k, profiles)
	return append(append(fromTiers, fromProfiles...), // S25, S33
		a.statements.denial(k.Stage, "no tier or profile allowed it")), errors.Join(err1, err2)
}

// forwardRules returns the rules that decide about the forwarded packets of a host endpoint in one
// direction. If no tier decides about a packet, the rules allow it. It returns no rules if no
// policy is enforced.
func (a *attachments) forwardRules(
	s *subject, dir match.Direction, tiers []dataplane.TierPolicies,
) ([]ruleset.Rule, error) {
	if len(tiers) == 0 {
		return nil, nil
	}
	k := match.List{Dir: dir, Stage: match.StageNormal}
	if g := a.group(s, outcome.Policy{List: k, Tiers: tiers, Rest: policy.Allow}); g != nil {
		if err := g.Err(); err != nil || !g.Enforces() {
			return nil, err
		}
		return g.Rules(), nil
	}
	rules, err := a.tierJumps(s, k, tiers)
	if len(rules) > 0 {
		rules = append(rules, build.Always(build.Goto(chainAllowed)))
	}
	return rules, err
}

// partialRules returns the rules of untracked or pre-DNAT policy. A packet about which this policy
// does not decide continues at the next rule. It returns no rules if no policy is enforced.
func (a *attachments) partialRules(
	s *subject, k match.List, tiers []dataplane.TierPolicies,
) ([]ruleset.Rule, error) {
	if len(tiers) == 0 {
		return nil, nil
	}
	g := a.group(s, outcome.Policy{List: k, Tiers: tiers})
	if g == nil {
		return a.tierJumps(s, k, tiers)
	}
	if err := g.Err(); err != nil || !g.Enforces() {
		return nil, err
	}
	return append(g.Rules(), returnDecided()), nil
}

// group adds an endpoint to its group for a list of policies, and returns the group. It returns nil
// if the policy must be written as chains.
func (a *attachments) group(s *subject, p outcome.Policy) *outcome.Group {
	if a.lookups == nil {
		return nil
	}
	g := a.lookups.Join(s, p)
	s.groups = append(s.groups, g)
	if g.OverLimit() {
		return nil
	}
	return g
}

// tierJumps returns the jumps to the tiers of one list. It returns none if no policy is enforced.
func (a *attachments) tierJumps(
	s *subject, k match.List, tiers []dataplane.TierPolicies,
) (out []ruleset.Rule, err error) {
	var errs []error
	for _, spec := range tiers {
		t := a.tiers.addUser(s, k, spec)
		s.tiers = append(s.tiers, t)
		switch {
		case t.err != nil:
			errs = append(errs, t.err)
		case !t.empty:
			out = append(out, call(t.name)...)
		}
	}
	return out, errors.Join(errs...)
}

// profileJumps returns the jumps to the endpoint's profiles (S31).
func (a *attachments) profileJumps(s *subject, k match.List, names []string) (out []ruleset.Rule, err error) {
	var errs []error
	for _, name := range names {
		o := a.policies.get(profileKey(name))
		o.users[userKey{s, k}] = struct{}{}
		a.policies.needList(o, k)
		s.profiles = append(s.profiles, profileUse{o, k})
		switch l := o.lists[k]; {
		case !o.Exists():
			errs = append(errs, fmt.Errorf("profile %s does not exist", name)) // S34
		case o.Err != nil:
			errs = append(errs, fmt.Errorf("profile %s: %w", name, o.Err))
		case l.chain != "":
			out = append(out, call(l.chain)...)
		}
	}
	return out, errors.Join(errs...)
}

// detach removes an endpoint from the tiers, profiles and groups that it used before it was
// rendered and no longer uses.
func (a *attachments) detach(s *subject, old attached) {
	for _, t := range old.tiers {
		if !slices.Contains(s.tiers, t) {
			a.tiers.removeUser(s, t)
		}
	}
	for _, p := range old.profiles {
		if !slices.Contains(s.profiles, p) {
			delete(p.owner.users, userKey{s, p.key})
			a.policies.dropLists(p.owner)
			a.policies.forget(p.owner)
		}
	}
	for _, g := range old.groups {
		if !slices.Contains(s.groups, g) {
			a.lookups.Leave(s, g)
		}
	}
}
