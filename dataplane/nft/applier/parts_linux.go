// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// phases of operations that do not fit into one transaction.
//
//	build    new sets with elements, new chains with rules: nothing leads to them yet, so no packet can tell
//	live     what packets see: in one transaction
//	destroy  what nothing leads to any more
//
// build and destroy can be cut anywhere. Where live alone is too large, all chains that it changes, and all that look into sets that
// it changes, first get a rule at their head that drops; it goes with the last part. So what passes them is dropped for a
// moment, and nothing is ever let through that both the old state and the new one forbid.
type phases struct{ build, live, destroy []ruleset.Op }

// phasesOf divides operations in the order of State.Prepare.
func phasesOf(ops []ruleset.Op) (p phases) {
	fresh := map[string]bool{}
	first := 0 // policies that become drop, which must not come before what else packets see
	for first < len(ops) && ops[first].Kind == ruleset.ChangePolicy {
		first++
	}
	i := first
	for ; i < len(ops); i++ {
		op := &ops[i]
		isNew := false
		switch op.Kind {
		case ruleset.AddTable:
			isNew = true
		case ruleset.AddSet:
			isNew = true
			fresh["set "+op.Set.Name] = true
		case ruleset.AddChain:
			isNew = op.Chain.Hook == nil
			fresh["chain "+op.Chain.Name] = isNew
		case ruleset.AddElements:
			isNew = fresh["set "+op.Set.Name]
		case ruleset.InsertRule:
			isNew = fresh["chain "+op.Chain.Name]
		}
		if !isNew {
			break
		}
	}
	p.build = ops[first:i]
	j := len(ops)
	for j > i && (ops[j-1].Kind == ruleset.DeleteChain || ops[j-1].Kind == ruleset.DeleteSet) {
		j--
	}
	p.live, p.destroy = slices.Concat(ops[:first], ops[i:j]), ops[j:]
	if carried(p.live) {
		p.carry()
	}
	return p
}

// carried reports whether elements go whose key packets carry from one lookup to the next, or maps that say what they carry: what a packet under way has
// found just before, or is about to look for, it would miss then, as if nothing were said about it. The kernel empties a map that goes at once, for
// rules of before too.
func carried(ops []ruleset.Op) bool {
	return slices.ContainsFunc(ops, func(op ruleset.Op) bool {
		return op.Kind == ruleset.DeleteElements && carriesKey(&op) ||
			op.Kind == ruleset.DeleteSet && (isCarried(op.Set.Key) || isCarried(op.Set.Data))
	})
}

func isCarried(types []ruleset.Type) bool { return len(types) == 1 && types[0] == ruleset.TypeClassID }

func carriesKey(op *ruleset.Op) bool {
	ofElements := op.Kind == ruleset.AddElements || op.Kind == ruleset.DeleteElements
	return ofElements && isCarried(op.Set.Key)
}

// carry has such elements come before anything leads to them, and go after. Those that change stay where they are.
func (p *phases) carry() {
	id := func(op *ruleset.Op, e *ruleset.Element) string { return op.Set.Name + " " + string(e.Key[0]) }
	seen := map[string]int{}
	for i := range p.live {
		op := &p.live[i]
		for k := range op.Elements {
			if carriesKey(op) {
				seen[id(op, &op.Elements[k])]++
			}
		}
	}
	var come, live, leave []ruleset.Op
	for _, op := range p.live {
		if !carriesKey(&op) {
			live = append(live, op)
			continue
		}
		some := op
		some.Elements = nil
		for k := range op.Elements {
			if e := &op.Elements[k]; seen[id(&op, e)] > 1 {
				some.Elements = append(some.Elements, *e)
			}
		}
		if len(some.Elements) > 0 {
			live = append(live, some)
		}
		op.Elements = slices.DeleteFunc(slices.Clone(op.Elements), func(e ruleset.Element) bool { return seen[id(&op, &e)] > 1 })
		switch {
		case len(op.Elements) == 0:
		case op.Kind == ruleset.AddElements:
			come = append(come, op)
		default:
			leave = append(leave, op)
		}
	}
	p.build, p.live, p.destroy = slices.Concat(p.build, come), live, slices.Concat(leave, p.destroy)
}

// inParts carries out operations that are too many for one transaction, or that packets would not see at one moment. d, if it is not nil, has what
// others left there.
func (a *Applier) inParts(ops []ruleset.Op, d *difference) error {
	p := phasesOf(ops)
	a.logger.Debug("nftables: transaction in parts", "table", a.cfg.Name, "limit", a.limit)
	if err := a.cut(p.build); err != nil {
		return err
	}
	if err := a.write(p.live, nil); err != nil {
		return err
	}
	if fits := a.writer.batch.Total() <= a.limit; fits && !torn(p.live) {
		if err := a.submit(); err != nil {
			return err
		}
	} else {
		a.writer.handles.forget()
		if err := a.blocked(p.live, d, fits); err != nil {
			return err
		}
	}
	if carried(ops) || d != nil && d.foreignMaps {
		untilPacketsAreThrough()
	}
	return a.cut(p.destroy)
}

// untilPacketsAreThrough returns once no packet is under way any more that was when it was called: netfilter holds the kernel's RCU lock for
// each, and MEMBARRIER_CMD_GLOBAL waits for what does (some 20 ms). Without it, a packet that is held up between two look-ups, by an interrupt or a
// hypervisor, would miss what goes now. Where the call is not to be had, that is what may happen.
func untilPacketsAreThrough() {
	const global = 1 // linux/membarrier.h
	_, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0)
}

// cut carries out operations in as many transactions as it takes.
func (a *Applier) cut(ops []ruleset.Op) error {
	ops = small(ops, max(1, min(500, a.limit/1024)))
	w := a.writer
	for len(ops) > 0 {
		w.begin(ops)
		n := 0
		for ; n < len(ops) && (n == 0 || w.batch.Total() < a.limit/2); n++ {
			if err := w.op(ops[n : n+1]); err != nil {
				return err
			}
		}
		if err := w.finish(); err != nil {
			return err
		}
		if err := a.submit(); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

// small cuts operations on many elements into those on few.
func small(ops []ruleset.Op, n int) []ruleset.Op {
	out := make([]ruleset.Op, 0, len(ops))
	for _, op := range ops {
		if len(op.Elements) == 0 {
			out = append(out, op)
			continue
		}
		for part := range slices.Chunk(op.Elements, n) {
			op.Elements = part
			out = append(out, op)
		}
	}
	return out
}

// block is the rule that keeps a chain shut while it is changed in parts.
func block() ruleset.Rule {
	return ruleset.Rule{Statements: []ruleset.Statement{ruleset.Verdict{Kind: ruleset.Drop}}, Comment: "table is being changed"}
}

// blocked carries out operations on what packets see in parts, or if they fit, in one, with all chains concerned shut meanwhile.
func (a *Applier) blocked(ops []ruleset.Op, d *difference, fits bool) error {
	names, sets, err := a.concerned(ops, fits)
	if err != nil {
		return err
	}
	var shut, open []ruleset.Op
	for _, name := range names {
		c := a.desired.Chain(name)
		shut = append(shut, ruleset.Op{Kind: ruleset.InsertRule, Chain: c, Rule: block()})
		open = append(open, ruleset.Op{Kind: ruleset.DeleteRule, Chain: c})
	}
	moved := slices.Clone(ops)
	for i := range moved {
		if c := moved[i].Chain; c != nil && slices.Contains(names, c.Name) {
			moved[i].Index++
		}
	}
	if d != nil { // These go later, with the rest of their rules.
		for _, name := range d.foreignChains {
			if slices.ContainsFunc(d.foreignLookups[name], func(s string) bool { return sets[s] }) {
				shut = append(shut, ruleset.Op{Kind: ruleset.InsertRule, Chain: &ruleset.Chain{Name: name}, Rule: block()})
			}
		}
	}
	// All are shut at once: between parts of that, packets would see some of the old and nothing of the new.
	if err := a.write(shut, nil); err != nil {
		return err
	}
	if size := a.writer.batch.Total(); size > a.limit {
		a.writer.handles.forget()
		return &nfnl.SizeError{Size: size, Limit: a.limit}
	}
	if err := a.submit(); err != nil {
		return err
	}
	if fits {
		if err = a.write(moved, nil); err == nil {
			err = a.submit()
		}
	} else {
		err = a.cut(moved)
	}
	if err != nil {
		return err
	}
	if err := a.write(open, nil); err != nil { // It is smaller than what shut them.
		return err
	}
	return a.submit()
}

// concerned returns the chains that are there already and that operations change, or that look into sets which they change; and these sets.
// What must be made again cannot be done in parts.
func (a *Applier) concerned(ops []ruleset.Op, fits bool) (names []string, sets map[string]bool, err error) {
	chains, sets := map[string]bool{}, map[string]bool{}
	without := map[string]bool{} // What is not there at first or in the end cannot be shut.
	for i := range ops {
		op := &ops[i]
		switch op.Kind {
		case ruleset.AddElements, ruleset.DeleteElements, ruleset.FlushSet:
			sets[op.Set.Name] = true
		case ruleset.InsertRule, ruleset.DeleteRule, ruleset.ReplaceRule, ruleset.ChangePolicy:
			chains[op.Chain.Name] = true
		case ruleset.AddChain:
			without[op.Chain.Name] = true
		case ruleset.DeleteChain, ruleset.DeleteSet, ruleset.AddSet:
			if !fits {
				return nil, nil, fmt.Errorf("applier: write table: something that must be made again is in a transaction of more than %d bytes: %w", a.limit, unix.EMSGSIZE)
			}
			if op.Kind == ruleset.DeleteChain {
				without[op.Chain.Name] = true
			} else {
				sets[op.Set.Name] = true
			}
		}
	}
	for _, name := range a.desired.ChainNames() {
		if !without[name] && (chains[name] || looksInto(a.desired.Chain(name), sets)) {
			names = append(names, name)
		}
	}
	return names, sets, nil
}

// looksInto reports whether a chain's rules look into any of the sets.
func looksInto(c *ruleset.Chain, sets map[string]bool) bool {
	for i := range c.Rules {
		for _, m := range c.Rules[i].Matches {
			switch m := m.(type) {
			case ruleset.Lookup:
				if sets[m.Set] {
					return true
				}
			case ruleset.Raw:
				if slices.ContainsFunc(m.Sets, func(s string) bool { return sets[s] }) {
					return true
				}
			}
		}
		for _, s := range c.Rules[i].Statements {
			switch s := s.(type) {
			case ruleset.VMap:
				if sets[s.Map] {
					return true
				}
			case ruleset.NAT:
				if sets[s.Map] {
					return true
				}
			case ruleset.Assign:
				if sets[s.Map] {
					return true
				}
			case ruleset.Raw:
				if slices.ContainsFunc(s.Sets, func(name string) bool { return sets[name] }) {
					return true
				}
			}
		}
	}
	return false
}
