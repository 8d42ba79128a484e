// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// ruleWriter turns rules of policy into rules of nftables.
type ruleWriter struct {
	statements *statements
	sets       *ipSets
}

// rule returns the nftables rules for one rule of a policy or profile, and the chain that they may
// need to log.
func (w *ruleWriter) rule(
	k match.List, profile bool, logChain string, rule *match.Merged,
) ([]ruleset.Rule, []*ruleset.Chain, error) {
	m := match.Matcher{Lookup: w.sets.get, Original: k.Stage.Original()}
	alts, overlap, err := m.Alternatives(&rule.Rule)
	if err != nil {
		return nil, nil, err
	}
	statements, err := w.statements.action(k, profile, rule)
	if err != nil {
		return nil, nil, err
	}
	// A packet that matches several alternatives is logged once: the rules jump to a chain, which
	// returns after the first.
	once := rule.Action == policy.Log && overlap && len(alts) > 1
	if once {
		statements = append(statements, build.Return())
	}
	comment := sets.Comment(strings.Join(rule.IDs, " "))
	out := make([]ruleset.Rule, len(alts))
	for i, matches := range alts {
		out[i] = ruleset.Rule{Matches: matches, Statements: statements, Comment: comment}
	}
	if !once {
		return out, nil, nil
	}
	c := &ruleset.Chain{Name: logChain, Rules: out}
	return []ruleset.Rule{{Statements: []ruleset.Statement{build.Jump(c.Name)}, Comment: comment}}, []*ruleset.Chain{
		c,
	}, nil
}

// check returns the first error of each list of rules that is rendered.
func (w *ruleWriter) check(o *ruleOwner) error {
	var errs []error
	m := match.Matcher{Lookup: w.sets.get}
	known := []policy.Action{policy.Allow, policy.Deny, policy.Pass, policy.Log}
	for _, dir := range []match.Direction{match.Ingress, match.Egress} {
		if !slices.ContainsFunc(o.Lists(), func(k match.List) bool { return k.Dir == dir }) {
			continue
		}
		rules := o.Rules(dir)
		for i := range rules {
			err := m.Check(&rules[i])
			if err == nil && !slices.Contains(known, rules[i].Action) {
				err = fmt.Errorf("unknown action %q", rules[i].Action)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s rule %s: %w", dir, rules[i].ID, err))
				break
			}
		}
	}
	return errors.Join(errs...)
}
