// SPDX-License-Identifier: Apache-2.0

package nft

// FewNumbers has classes and outcomes of a new renderer numbered out of so few numbers that many collide.
func FewNumbers(r *Renderer) {
	r.classes.classNumbers = newNumbers(func(hash uint32) uint32 { return 1 + hash%499 })
	r.classes.outcomeNumbers = newNumbers(func(hash uint32) uint32 { return carryOutcome | hash%499 })
}

// ClassSizes tells how much a renderer holds for classes, kind by kind, after a flush.
func ClassSizes(r *Renderer) map[string]int {
	c := &r.classes
	out := map[string]int{
		"atoms": len(c.atoms), "tiers": len(c.tiers), "groups": len(c.groups), "outcomes": len(c.outcomes),
		"numbers": len(c.classNumbers.taken) + len(c.outcomeNumbers.taken), "passed": len(c.classNumbers.passed) + len(c.outcomeNumbers.passed),
		"idle": len(c.idle), "loose": len(c.loose), "changed": len(c.changed), "left": len(c.left), "doubts": len(c.doubts),
		"owners": len(r.owners), "sets": len(r.sets), "list users": len(r.lists.users), "lists": len(r.lists.sets),
		"looked": len(r.lists.looked), "chains": len(r.chains), "changed sets": len(r.changedSets),
	}
	countSpace(out, c.v4)
	countSpace(out, c.v6)
	for _, a := range c.atoms {
		out["atom tiers"] += len(a.tiers)
		out["atom classes"] += len(a.classes)
	}
	for _, t := range c.tiers {
		out["users"] += len(t.users)
		out["asked"] += len(t.asked)
		out["byAtom"] += len(t.byAtom)
		out["any"] += len(t.any)
		out["faults"] += len(t.faults)
	}
	for _, g := range c.groups {
		out["group users"] += len(g.users)
		out["group outcomes"] += len(g.outcomes)
		out["group uses"] += len(g.uses)
		out["group elements"] += len(g.classMap.elements) + len(g.outcomeMap.elements) + len(g.classMap.changed) + len(g.outcomeMap.changed)
	}
	if len(r.sets) == 0 {
		out["all parts"] = len(r.lists.parts)
	}
	for _, o := range c.outcomes {
		out["outcome uses"] += o.uses
		out["outcome chains"] += len(o.chains)
	}
	for _, o := range r.owners {
		out["indexes"] += len(o.indexes)
		out["owner chains"] += len(o.chains)
	}
	for _, s := range r.sets {
		for _, p := range s.parts {
			if r.lists.users[p.name] > 0 { // Others are there for rules that never match, until the set changes.
				out["parts"]++
			}
		}
		if s.asked != nil {
			out["sets asked"]++
		}
	}
	return out
}

func countSpace[A addrBytes](out map[string]int, s *space[A]) {
	out["classes"] += len(s.byKey)
	out["space atoms"] += len(s.atoms)
	out["hosts"] += len(s.hosts)
	out["ranges"] += len(s.ranges.list)
	out["range elements"] += len(s.ranges.elements.elements) + len(s.ranges.elements.changed)
	out["fresh"] += len(s.fresh)
	out["touched"] += len(s.touched)
	out["pending"] += len(s.pending) + len(s.ranges.pending) + len(s.moves) + len(s.last)
}
