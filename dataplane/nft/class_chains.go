// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"strconv"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The way of a packet that policy is asked about, from the base chain on:
//
//	senders, receivers ──▶ from/..., to/... ──▶ classify-DIR: class of the other side ──▶ group-DIR/...: outcome ──▶ outcome-DIR/...
//
// On the way, the packet's priority is what has been looked up last; a lookup cannot pass its result on in another way that nft can list, and that leaves
// marks to others. Whoever allows sets it to carryAllowed and returns, all the way to the base chain, which gives the packet the
// priority that it had before. Mostly that is zero. Others are known by the chain that the packet came through: senders-priority-N. One that is not
// among those becomes zero.

// chainRejectClass answers what policy denies, as chainReject does, with the usual priority.
const chainRejectClass = "rejected-class"

func chainClassify(dir direction) string { return "classify-" + string(dir) }

// dispatch leads packets to the chain of the endpoint whose interface it is, and decides about those that are allowed and about those of no endpoint.
func (r *Renderer) dispatch(endpoints string, field ruleset.Field) []ruleset.Rule {
	if r.cfg.Classes.Disabled {
		return append([]ruleset.Rule{vmap(endpoints, field)}, r.notUp(field)...)
	}
	nonzero := ruleset.Compare{Field: carrier, Not: true, Value: ruleset.Uint32(0)}
	return append([]ruleset.Rule{when(goTo(chainPriority(endpoints)), nonzero)}, r.dispatchWith(endpoints, field, 0)...)
}

// dispatchWith is dispatch for packets of one priority.
func (r *Renderer) dispatchWith(endpoints string, field ruleset.Field, priority uint32) []ruleset.Rule {
	allowed := ruleset.Rule{
		Matches:    []ruleset.Match{equals(carrier, ruleset.Uint32(carryAllowed))},
		Statements: []ruleset.Statement{ruleset.Assign{Field: carrier, Value: priority}, accept()},
	}
	return append([]ruleset.Rule{vmap(endpoints, field), allowed}, r.notUp(field)...)
}

func chainPriority(endpoints string) string { return endpoints + "-priority" }

// priorityChains return what dispatch leads packets with a priority to.
func (r *Renderer) priorityChains(endpoints string, field ruleset.Field) []*ruleset.Chain {
	if r.cfg.Classes.Disabled {
		return nil
	}
	name := chainPriority(endpoints)
	var chains []*ruleset.Chain
	rules := []ruleset.Rule{{ // Nobody else may say that a packet is allowed.
		Matches:    []ruleset.Match{equals(carrier, ruleset.Uint32(carryAllowed))},
		Statements: []ruleset.Statement{ruleset.Assign{Field: carrier}},
	}}
	for _, p := range r.cfg.Classes.Priorities {
		c := &ruleset.Chain{Name: name + "-" + strconv.FormatUint(uint64(p), 16), Rules: r.dispatchWith(endpoints, field, p)}
		rules = append(rules, when(goTo(c.Name), equals(carrier, ruleset.Uint32(p))))
		chains = append(chains, c)
	}
	return append(chains, &ruleset.Chain{Name: name, Rules: append(rules, r.dispatchWith(endpoints, field, 0)...)})
}

// shape says what the chains that all groups share are made from: whether there are groups, and which maps of classes.
type shape struct{ groups, ranges4, hosts4, ranges6, hosts6 bool }

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
		r.keepChain(chainClassify(dir), r.classifyChain(dir), some)
	}
	r.keepChain(chainRejectClass, &ruleset.Chain{Name: chainRejectClass, Rules: []ruleset.Rule{
		always(ruleset.Assign{Field: carrier}), always(goTo(chainReject)),
	}}, some && r.cfg.Reject)
}

// classifyChain looks up the class of the other side's address, which a full-length address has by itself.
func (r *Renderer) classifyChain(dir direction) *ruleset.Chain {
	c := &ruleset.Chain{Name: chainClassify(dir), Rules: []ruleset.Rule{always(ruleset.Assign{Field: carrier})}}
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
	return c
}
