// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// ruleChains has a chain for each rule of policy that counts or logs: allow/ID, deny/ID or pass/ID.
// All outcomes and chains that contain the rule lead to this chain. So the rule has one counter:
//
//	outcome-ingress/... ──┬──▶ allow/ID    counts, logs, records the decision and returns
//	outcome-ingress/... ──┤
//	pol-ingress/...     ──┘
//
// The content of a chain depends only on its name and the configuration, so the chain never
// changes.
//
// Log rules and denials at the end of a tier have no chain of this kind: they count in each chain
// that contains them.
type ruleChains struct {
	statements *statements
	chains     *sets.Chains
	users      map[string]int // the number of rules with a chain, by its name
}

// update replaces the chains of the rules of a policy or profile.
func (c *ruleChains) update(o *ruleOwner) {
	old := o.ruleChains
	o.ruleChains = nil
	if o.Exists() && !o.Staged() && o.Err == nil {
		for _, dir := range []match.Direction{match.Ingress, match.Egress} {
			rules := o.Rules(dir)
			for i := range rules {
				c.use(o, &rules[i])
				if !o.untrackedEgress(dir) {
					continue
				}
				adapted := &match.Merged{Rule: rules[i]} // may have another action at this stage
				if match.StageRawDNAT.Adapt(adapted) && adapted.Action != rules[i].Action {
					c.use(o, &adapted.Rule)
				}
			}
		}
	}
	for _, name := range old {
		if c.users[name]--; c.users[name] == 0 {
			delete(c.users, name)
			c.chains.Drop(name)
		}
	}
}

// untrackedEgress reports whether the rules of a direction are egress rules of untracked policy.
func (o *ruleOwner) untrackedEgress(dir match.Direction) bool {
	return dir == match.Egress && o.Policy != nil && o.Policy.Untracked
}

// use adds the chain of a rule, if it has one.
func (c *ruleChains) use(o *ruleOwner, rule *dataplane.Rule) {
	name := c.statements.ruleChainName(o.IsProfile(), rule)
	if name == "" {
		return
	}
	o.ruleChains = append(o.ruleChains, name)
	if c.users[name]++; c.users[name] == 1 {
		c.chains.Set(c.statements.ruleChain(name, o.IsProfile(), rule))
	}
}

// ruleChainName returns the name of the chain of a rule. It is empty if the rule has no chain,
// because the rule neither counts nor logs a decision.
func (st *statements) ruleChainName(profile bool, rule *dataplane.Rule) string {
	prefix := ""
	switch action := rule.Action; {
	case !st.cfg.eachRule():
	case action == policy.Allow:
		prefix = "allow"
	case action == policy.Deny || action == policy.Pass && profile: // S32
		prefix = "deny"
	case action == policy.Pass && st.cfg.Counters:
		prefix = "pass"
	}
	if prefix == "" {
		return ""
	}
	return sets.ObjectName(prefix, rule.ID)
}

// ruleChain returns the chain of a rule that counts or logs. The chain consists of one rule.
func (st *statements) ruleChain(name string, profile bool, rule *dataplane.Rule) *ruleset.Chain {
	var statements []ruleset.Statement
	switch action := rule.Action; {
	case action == policy.Allow:
		statements = append(st.account(match.StageNormal, "allow", rule.ID), record(priorityAllowed))
	case action == policy.Pass && !profile:
		statements = st.count(match.StageNormal)
	default:
		statements = append(st.account(match.StageNormal, "deny", rule.ID), record(priorityDenied))
	}
	decide := build.Always(append(statements, build.Return())...)
	return &ruleset.Chain{Name: name, Rules: []ruleset.Rule{build.Commented(decide, rule.ID)}}
}
