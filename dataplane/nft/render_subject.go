// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// subject is an endpoint that policy applies to: of a workload or of the host.
type subject struct {
	key      policy.Key
	workload *dataplane.Endpoint
	host     *dataplane.HostEndpoint
	tiers    []*tier
	profiles []*ruleOwner
	groups   []*group
	chains   []string
	err      error
	// ok says that the chains of a workload are there to lead packets to.
	ok bool
	// governed has the lists of a host endpoint that an enforced policy is in.
	governed map[hostList]bool
}

// renderSubject renders the chains of an endpoint anew, if it is still there.
func (r *Renderer) renderSubject(s *subject) {
	oldTiers, oldProfiles, oldGroups, oldChains := s.tiers, s.profiles, s.groups, s.chains
	s.tiers, s.profiles, s.groups, s.chains, s.err, s.ok = nil, nil, nil, nil, nil, false
	switch {
	case s.workload != nil:
		r.renderWorkload(s)
		r.dirtyInterfaces[s.workload.Interface] = struct{}{}
	case s.host != nil:
		r.renderHost(s)
		r.dirtyHosts = true
	default:
		delete(r.subjects, s.key)
	}
	r.fault(s.key, s.err)
	for _, t := range oldTiers {
		if !slices.Contains(s.tiers, t) {
			r.leave(s, t)
		}
	}
	for _, o := range oldProfiles {
		if !slices.Contains(s.profiles, o) {
			delete(o.users, s)
			r.dropLists(o)
			r.forgetOwner(o)
		}
	}
	for _, g := range oldGroups {
		if !slices.Contains(s.groups, g) {
			r.leaveGroup(s, g)
		}
	}
	for _, name := range oldChains {
		if !slices.Contains(s.chains, name) {
			r.dropChain(name)
		}
	}
}

// addChain puts a chain of the endpoint into the table and returns its name.
func (r *Renderer) addChain(s *subject, c *ruleset.Chain) string {
	r.setChain(c)
	s.chains = append(s.chains, c.Name)
	return c.Name
}

// tierJumps returns the jumps to the tiers of one list. None means that no policy is enforced.
func (r *Renderer) tierJumps(s *subject, k listKey, tiers []dataplane.TierPolicies) (out []ruleset.Rule, err error) {
	var errs []error
	for _, spec := range tiers {
		t := r.tier(s, k, spec)
		s.tiers = append(s.tiers, t)
		switch {
		case t.err != nil:
			errs = append(errs, t.err)
		case !t.empty:
			out = append(out, ruleset.Rule{Statements: []ruleset.Statement{jump(t.name)}})
		}
	}
	return out, errors.Join(errs...)
}

// profileJumps returns the jumps to the endpoint's profiles (S31).
func (r *Renderer) profileJumps(s *subject, k listKey, names []string) (out []ruleset.Rule, err error) {
	var errs []error
	for _, name := range names {
		o := r.owner(profileKey(name))
		o.users[s] = struct{}{}
		r.needLists(o)
		s.profiles = append(s.profiles, o)
		switch l := o.lists[k]; {
		case !o.exists():
			errs = append(errs, fmt.Errorf("profile %s does not exist", name)) // S34
		case o.err != nil:
			errs = append(errs, fmt.Errorf("profile %s: %w", name, o.err))
		case l.chain != "":
			out = append(out, ruleset.Rule{Statements: []ruleset.Statement{jump(l.chain)}})
		}
	}
	return out, errors.Join(errs...)
}

// workloadRules returns what decides about the packets of a workload in one direction: by classes, or by chains if those are not wanted or
// too many.
func (r *Renderer) workloadRules(s *subject, dir direction, tiers []dataplane.TierPolicies, profiles []string) ([]ruleset.Rule, error) {
	if !r.cfg.Classes.Disabled {
		g := r.group(s, dir, tiers, profiles)
		s.groups = append(s.groups, g)
		if !g.beyond {
			return []ruleset.Rule{always(jump(chainClassify(dir))), always(goTo(g.chain()))}, g.err()
		}
	}
	return r.policyRules(s, listKey{dir, stageFilter}, tiers, profiles)
}

// policyRules returns what decides about the packets of one direction: tiers, then profiles, then the end.
func (r *Renderer) policyRules(s *subject, k listKey, tiers []dataplane.TierPolicies, profiles []string) ([]ruleset.Rule, error) {
	fromTiers, err1 := r.tierJumps(s, k, tiers)
	fromProfiles, err2 := r.profileJumps(s, k, profiles)
	return append(append(fromTiers, fromProfiles...), // S25, S33
		r.denial(k, "no tier or profile allowed it")), errors.Join(err1, err2)
}
