// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/policy"
)

// wirePolicies constructs the types that render policies, in order of their dependencies.
func (r *Renderer) wirePolicies(st *statements, dirtySubjects *dirtySet[*subject]) {
	rules, hashes := &ruleWriter{st, r.sets}, &tierHashes{map[tierID]string{}}
	lookups := lookupsConfig(r.cfg)
	lookups.Chains, lookups.Set, lookups.TierHash = r.table.chains, r.sets.get, hashes.of
	lookups.Writer = &lookupWriter{rules}
	lookups.Changed = func(user any) { dirtySubjects.mark(user.(*subject)) }
	r.lookups = outcome.New(lookups)

	dirtyTiers := newDirtySet[*tier]()
	r.policies = &policies{
		table: r.table, rules: rules, sets: r.sets, lookups: r.lookups, faults: r.faults,
		eachRule: r.cfg.eachRule(), byKey: map[policy.Key]*ruleOwner{},
		ruleChains: &ruleChains{statements: st, chains: r.table.chains, users: map[string]int{}},
		dirty:      newDirtySet[*ruleOwner](), dirtyTiers: dirtyTiers, dirtySubjects: dirtySubjects,
	}
	r.tiers = &tiers{
		statements: st, table: r.table, policies: r.policies, hashes: hashes,
		byName: map[string]*tier{}, dirty: dirtyTiers, dirtySubjects: dirtySubjects,
	}
}

// wireEndpoints constructs the types that render endpoints, in order of their dependencies.
func (r *Renderer) wireEndpoints(st *statements, dirtySubjects *dirtySet[*subject]) {
	a := &attachments{statements: st, policies: r.policies, tiers: r.tiers}
	if !r.cfg.Classes.TestHook.HasChains() {
		a.lookups = r.lookups
	}
	i := newInterfaces(r.cfg, r.table, dirtySubjects)
	r.blocked = &blocked{table: r.table, interfaces: i, names: map[string]struct{}{}}
	f := newFailsafes(r.cfg.Host)
	r.endpoints = &endpoints{
		table: r.table, faults: r.faults, attachments: a, interfaces: i,
		workloads: &workloads{st, r.table, a, i},
		hosts:     newHosts(r.table, i, &hostChains{r.cfg, st, r.base.verdicts, f}),
		hostEndpoints: &hostEndpoints{
			statements: st, failsafes: f, table: r.table, attachments: a,
		},
		nat: newNAT(r.cfg.NAT, r.table), nodes: newNodes(r.cfg, r.table),
		byKey: map[policy.Key]*subject{}, dirty: dirtySubjects,
	}
}
