// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/classify"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Config configures a Lookups. All fields are required unless their comments say otherwise.
type Config struct {
	// MaxPerGroup limits the cost of one group, and MaxTotal limits the cost of all groups
	// together. A cost of one is about the memory of one element of a set.
	MaxPerGroup, MaxTotal int
	// EachRule is set if each rule of policy counts or logs its packets. Then each rule that can
	// decide has a chain of its own, and the chains of outcomes lead to it.
	EachRule bool
	// Chains has the chains of the table.
	Chains *sets.Chains
	// Set returns the IP set with the id. The result is not nil, even if the IP set does not exist
	// yet: see IPSet.Exists.
	Set func(dataplane.IPSetID) *sets.IPSet
	// TierHash returns a hash of a tier's name, policies and default action.
	TierHash func(dataplane.TierPolicies) string
	// Writer makes the parts of chains that are not lookups.
	Writer Writer
	// Changed is called for each user of a group after the group's Err, Enforces or OverLimit has
	// changed.
	Changed func(user any)
	// ClassNumber and OutcomeNumber return a number for a hash. The defaults are this package's
	// functions classNumber and outcomeNumber. Tests set other functions to cause collisions.
	ClassNumber, OutcomeNumber func(hash uint32) uint32
}

// eachRule reports whether each rule of a list counts or logs. At a stage that only repeats an
// earlier stage (recheck), rules do neither.
func (c *Config) eachRule(l match.List) bool { return c.EachRule && !l.Stage.Recheck() }

// Writer makes rules, statements and verdicts of policy.
type Writer interface {
	// Rule returns the nftables rules for a rule of policy, and the chains that these need. The
	// parameter chain is the beginning of the names of these chains.
	Rule(list match.List, rule *match.Merged, chain string) ([]ruleset.Rule, []*ruleset.Chain, error)
	// Target returns the verdict that leads to the chain of a rule with the action Allow, Deny or
	// Pass. If the rule has no chain, Target returns the verdict "return". Target is called only if
	// Config.EachRule is set.
	Target(rule *match.Merged) ruleset.Verdict
	// Allow returns the statements that allow a packet.
	Allow() []ruleset.Statement
	// Deny returns the verdict that denies a packet.
	Deny() ruleset.Verdict
	// Denial returns a rule that denies all packets, with the reason in its comment.
	Denial(reason string) ruleset.Rule
	// Call returns the rules that jump to a chain of policy.
	Call(chain string) []ruleset.Rule
}

// Lookups compiles policy into lookups in these maps:
//
//	class4, class4-prefixes, class6, class6-prefixes  address of the other side ──▶ class
//	gc-GROUP                                          class ──▶ outcome
//	outcomes-ingress, outcomes-egress, go-GROUP       outcome ──▶ chain
//
// The other side is the endpoint's peer. The documentation of the package defines class, group and
// outcome.
//
// All groups share the maps from addresses to classes. Each group has its own map from classes to
// outcomes. All groups of workloads (the groups with Policy.Return) share the maps outcomes-ingress
// and outcomes-egress. Each other group has its own map go-GROUP.
type Lookups struct {
	cfg      Config
	classes  *classify.Classifier
	indexes  *indexes
	outcomes *outcomes
	groups   map[string]*Group
	maps     sharedMaps

	dirty  map[*Group]*dirtyClasses
	limits limitState
	// changed has the groups whose maps have changed since the last flush. removed has the groups
	// that were removed since then.
	changed, removed map[string]*Group
	shared           shared
	ofGroups         groupSizes
}

// limitState has the values on which the limits depend.
type limitState struct {
	// cost is the total cost of the groups within the limits. groupsOver is the number of the other
	// groups.
	cost, groupsOver int
	// recheck is set if a group was removed, so that another group may be within the limits now.
	recheck bool
}

// New returns a Lookups without policy.
func New(cfg Config) *Lookups {
	if cfg.ClassNumber == nil {
		cfg.ClassNumber = classNumber
	}
	if cfg.OutcomeNumber == nil {
		cfg.OutcomeNumber = outcomeNumber
	}
	l := &Lookups{
		cfg: cfg, classes: classify.New(classify.Config{Number: cfg.ClassNumber}),
		groups: map[string]*Group{}, maps: newSharedMaps(), dirty: map[*Group]*dirtyClasses{},
		changed: map[string]*Group{}, removed: map[string]*Group{},
	}
	l.indexes = newIndexes(&l.cfg, l.classes, l.dirtyOf)
	l.outcomes = newOutcomes(&l.cfg, l.indexes)
	return l
}

// SetPolicy records that a policy or profile was added, changed or removed. o has the policy or
// profile. If it was removed, o has only its key. The caller must not change o until its next call
// of SetPolicy for the same key.
func (l *Lookups) SetPolicy(o *match.Owner) { l.indexes.setPolicy(o) }

// Pending reports whether anything may have changed since the last Flush.
func (l *Lookups) Pending() bool {
	elements := 0
	for _, m := range l.maps {
		elements += m.set.Changed()
	}
	return len(l.dirty)+len(l.changed)+elements > 0 || l.classes.Pending()
}

// Update computes the classes, and the outcomes of the classes in each group.
func (l *Lookups) Update() {
	renumber := l.classes.Update(func(k *classify.Class) {
		for _, p := range k.Predicates() {
			for t := range l.indexes.users[p] {
				for g := range t.users {
					l.dirtyOf(g).mark(k)
				}
			}
		}
	})
	if len(l.dirty) > 0 || l.limits.recheck {
		l.updateDirtyGroups()
	}
	if l.outcomes.removeIdle() || renumber {
		l.renumber()
	}
	l.shareChains()
}

// renumber writes all elements with the number of a class or an outcome again.
func (l *Lookups) renumber() {
	l.classes.Renumber()
	for _, g := range l.groups {
		var classes []ruleset.Element
		for class, state := range g.classes {
			if state.outcome != nil {
				classes = append(classes, classElement(class, state.outcome))
			}
		}
		g.classMap.Replace(classes)
		if !g.returns {
			g.chains.renumber()
		}
		l.changed[g.id] = g
	}
	for _, m := range l.maps { // once, because all groups of workloads share them
		m.renumber()
	}
}

// Flush appends the changes of the maps of classes and outcomes to the delta.
func (l *Lookups) Flush(d *ruleset.Delta) {
	// No packet has a class without addresses, or an outcome without classes.
	unseen := l.classes.Flush(d)
	for _, id := range slices.Sorted(maps.Keys(l.changed)) {
		l.changed[id].classMap.FlushUnseen(d, unseen)
		if g := l.changed[id]; !g.returns {
			g.chains.flush(d)
		}
	}
	for _, dir := range directions() {
		l.maps[dir].flush(d)
	}
	l.changed, l.removed = reuse.Map(l.changed), reuse.Map(l.removed)
}

// Apart reports whether the kernel may apply the changes of the delta one after the other, instead
// of all at one moment. It may if each packet looks up at most one of the changed elements, and
// this element at most once. Apart returns false if the delta changes anything but the maps from
// addresses to classes. The parameter local has the addresses of this node's workloads. The caller
// stores the result in the field Apart of the delta.
func (l *Lookups) Apart(d *ruleset.Delta, local *classify.LocalAddresses) bool {
	return l.classes.Apart(d, local)
}

// Sets returns the maps of classes and outcomes with all their elements.
func (l *Lookups) Sets() (out []*ruleset.Set) {
	out = l.classes.Sets()
	for _, m := range l.maps {
		out = append(out, m.set.Kernel())
	}
	for _, g := range l.groups {
		if !g.classMap.Wanted {
			continue
		}
		out = append(out, g.classMap.Kernel())
		if !g.returns {
			out = append(out, g.chains.set.Kernel())
		}
	}
	return out
}
