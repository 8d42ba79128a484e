// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"strconv"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The chains that all groups share, for each direction:
//
//	policy-DIR ──▶ classify-DIR ──▶ group-DIR/... ──▶ outcome-DIR/...
//
// On the way, the packet's priority is what has been looked up last; a lookup cannot pass its result on in another way that nft can list, and leaves
// marks to others. Whoever allows sets it to carryAllowed and returns, all the way to where it came from, which gives the packet the
// priority that it had before. Mostly that is zero; others are told by the chain: policy-DIR-NUMBER. A priority that is not among those becomes zero.

// chainRejectClass answers what policy denies, as chainReject does, with the usual priority.
const chainRejectClass = "rejected-class"

func chainByClass(dir direction) string { return "policy-" + string(dir) }

func chainClassify(dir direction) string { return "classify-" + string(dir) }

func groupsMap(dir direction) string {
	if dir == ingress {
		return mapGroupsTo
	}
	return mapGroupsFrom
}

// shareChains writes the chains that all groups share, if there are groups.
func (r *Renderer) shareChains() {
	c := &r.classes
	some := len(c.groups) > 0
	is := shape{some, len(c.v4.ranges.list) > 0, !c.v4.empty(), len(c.v6.ranges.list) > 0, !c.v6.empty()}
	if is == c.shape {
		return
	}
	c.shape = is
	for _, dir := range []direction{ingress, egress} {
		name := chainByClass(dir)
		var others []ruleset.Rule
		for _, p := range r.cfg.Classes.Priorities {
			chain := name + "-" + strconv.FormatUint(uint64(p), 16)
			others = append(others, when(goTo(chain), equals(carrier, ruleset.Uint32(p))))
			r.keepChain(chain, &ruleset.Chain{Name: chain, Rules: withPriority(r, dir, p)}, some)
		}
		other := name + "-other"
		r.keepChain(other, &ruleset.Chain{Name: other, Rules: append(others, withPriority(r, dir, 0)...)}, some)
		nonzero := ruleset.Compare{Field: carrier, Not: true, Value: ruleset.Uint32(0)}
		r.keepChain(name, &ruleset.Chain{Name: name, Rules: append([]ruleset.Rule{when(goTo(other), nonzero)}, withPriority(r, dir, 0)[1:]...)}, some)
		r.keepChain(chainClassify(dir), r.classifyChain(dir), some)
	}
	r.keepChain(chainRejectClass, &ruleset.Chain{Name: chainRejectClass, Rules: []ruleset.Rule{
		always(ruleset.Assign{Field: carrier}), always(goTo(chainReject)),
	}}, some && r.cfg.Reject)
}

// withPriority asks policy about packets that have a priority, and gives it back to those that are allowed.
func withPriority(r *Renderer, dir direction, p uint32) []ruleset.Rule {
	return []ruleset.Rule{
		always(ruleset.Assign{Field: carrier}),
		always(jump(chainClassify(dir))),
		{
			Matches:    []ruleset.Match{equals(carrier, ruleset.Uint32(carryAllowed))},
			Statements: []ruleset.Statement{ruleset.Assign{Field: carrier, Value: p}, accept()},
		},
		r.refusal("policy being changed"),
	}
}

// shape says what the chains that all groups share are made from: whether there are groups, and which maps of classes.
type shape struct{ groups, ranges4, hosts4, ranges6, hosts6 bool }

// classifyChain looks up the class of the other side's address, which a full-length address has by itself, and goes to the group of the interface.
func (r *Renderer) classifyChain(dir direction) *ruleset.Chain {
	c := &ruleset.Chain{Name: chainClassify(dir)}
	lookup := func(f family, wanted bool, name string) {
		if !wanted {
			return
		}
		field := saddr(f)
		if dir == egress {
			field = daddr(f)
		}
		c.Rules = append(c.Rules, ruleset.Rule{
			Matches:    []ruleset.Match{ofFamily(f)},
			Statements: []ruleset.Statement{ruleset.Assign{Field: carrier, Fields: []ruleset.Field{field}, Map: name}},
		})
	}
	lookup(ipv4, len(r.classes.v4.ranges.list) > 0, mapClassRanges4)
	lookup(ipv4, !r.classes.v4.empty(), mapClass4)
	lookup(ipv6, len(r.classes.v6.ranges.list) > 0, mapClassRanges6)
	lookup(ipv6, !r.classes.v6.empty(), mapClass6)
	iface := ruleset.OIFName
	if dir == egress {
		iface = ruleset.IIFName
	}
	c.Rules = append(c.Rules, vmap(groupsMap(dir), iface))
	return c
}
