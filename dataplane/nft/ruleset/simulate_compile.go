// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// SimulatorConfig is the input of NewSimulator: a Table or a State.
type SimulatorConfig struct {
	// Table must validate, and must not change as long as the simulator is in use.
	Table *Table
	// State must not change as long as the simulator is in use either. It is taken for valid, and
	// what it holds is made ready when a packet first comes to it: NewSimulator costs in proportion
	// to the numbers of chains and sets, whatever is in them.
	State *State
}

// Simulator runs packets through a table the way the kernel does. Sets are indexed when they are first looked
// into. It is safe for concurrent use.
type Simulator struct {
	family Family
	name   string
	hooks  map[HookPoint][]*simChain
	chains map[string]*simChain
	sets   map[string]*simSet
	header simHeaderFields

	compiling sync.Mutex
}

// simChain is a chain, made ready to run once compiled.
type simChain struct {
	name   string
	hook   *Hook
	source *Chain

	compiled atomic.Bool
	rules    []simRule
	err      error
}

// simRule is a list of operations, each of which may end the rule.
type simRule struct {
	ops     []simOp
	comment string
}

// simOp is a match or a statement. Which fields count depends on its kind.
type simOp struct {
	kind              simOpKind
	not               bool
	fields            []simField
	value, last, mask Value
	set               *simSet
	verdict           simVerdict
	log               *Log
	reject            *Reject
	assign            *Assign
	nat               *NAT
}

type simOpKind uint8

const (
	opEqual simOpKind = iota
	opRange
	opMasked
	opAnyBit
	opPrefix // of an interface name
	opLookup
	opVMap
	opVerdict
	opLog
	opLimit // breaks if over the limit, or where negated, if not
	opNotrack
	opReject
	opAssign
	opNAT
)

// simVerdict is a verdict whose chain has been found.
type simVerdict struct {
	kind  VerdictKind
	chain *simChain
}

// verdict returns the verdict as a value of the model.
func (v simVerdict) verdict() Verdict {
	if v.chain == nil {
		return Verdict{Kind: v.kind}
	}
	return Verdict{Kind: v.kind, Chain: v.chain.name}
}

// NewSimulator returns a simulator of the table. Errors: those of Table.Validate, and one for a
// rule with Raw expressions, of which only the kernel knows what they do. Of a State, it is Run
// that fails when a packet comes to the chain of such a rule.
func NewSimulator(cfg SimulatorConfig) (*Simulator, error) {
	switch {
	case (cfg.Table == nil) == (cfg.State == nil):
		return nil, errors.New("ruleset: simulate: one of Table and State is needed")
	case cfg.State != nil:
		return simulatorOf(cfg.State), nil
	}
	t := cfg.Table
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("ruleset: simulate table %s: %w", t.Name, err)
	}
	s := newSimulator(t.Family, t.Name, len(t.Chains), len(t.Sets))
	for _, c := range t.Chains {
		s.chains[c.Name] = &simChain{name: c.Name, hook: c.Hook, source: c}
	}
	for _, set := range t.Sets {
		s.sets[set.Name] = s.newSet(set.Key, set.Elements)
	}
	for _, c := range t.Chains {
		if err := s.ready(s.chains[c.Name]); err != nil {
			return nil, err
		}
	}
	s.order(t.Chains)
	return s, nil
}

func newSimulator(f Family, name string, chains, sets int) *Simulator {
	return &Simulator{
		family: f, name: name, hooks: map[HookPoint][]*simChain{},
		chains: make(map[string]*simChain, chains), sets: make(map[string]*simSet, sets),
		header: newSimHeaderFields(),
	}
}

// simulatorOf returns a simulator that looks into a state.
func simulatorOf(st *State) *Simulator {
	s := newSimulator(st.family, st.name, len(st.chains), len(st.sets))
	var bases []*Chain
	for name, o := range st.chains {
		s.chains[name] = &simChain{name: name, hook: o.chain.Hook, source: o.chain}
		if o.chain.Hook != nil {
			bases = append(bases, o.chain)
		}
	}
	for name, o := range st.sets {
		s.sets[name] = &simSet{key: o.set.Key, verdict: s.verdict, packed: o}
	}
	slices.SortFunc(bases, func(a, b *Chain) int { return cmp.Compare(a.Name, b.Name) })
	s.order(bases)
	return s
}

// ready compiles a chain, unless that is done. It may be called from several goroutines.
func (s *Simulator) ready(c *simChain) error {
	if c.compiled.Load() {
		return c.err
	}
	s.compiling.Lock()
	defer s.compiling.Unlock()
	if c.compiled.Load() {
		return c.err
	}
	rules := make([]simRule, len(c.source.Rules))
	for i := range rules {
		var err error
		if rules[i], err = s.rule(&c.source.Rules[i]); err != nil {
			c.err = fmt.Errorf("ruleset: simulate table %s: chain %s: rule %d: %w", s.name, c.name, i+1, err)
			break
		}
	}
	c.rules = rules
	c.compiled.Store(true)
	return c.err
}

// order sorts the base chains of each hook, given in the order of the table. Those that translate
// come together, where translation is, in the order of their own priorities.
func (s *Simulator) order(all []*Chain) {
	for _, c := range slices.Backward(all) {
		if c.Hook != nil {
			s.hooks[c.Hook.Point] = append(s.hooks[c.Hook.Point], s.chains[c.Name])
		}
	}
	for _, chains := range s.hooks {
		slices.SortStableFunc(chains, func(a, b *simChain) int {
			return cmp.Or(cmp.Compare(a.hook.place(), b.hook.place()), cmp.Compare(a.hook.Priority, b.hook.Priority))
		})
	}
}

// place is the priority at which the kernel calls the chain.
func (h *Hook) place() int {
	switch {
	case h.Type != HookNAT:
		return h.Priority
	case h.Point == Prerouting || h.Point == Output:
		return -100
	default:
		return 100
	}
}

func (s *Simulator) newSet(key []Type, elements []Element) *simSet {
	return &simSet{key: key, elements: elements, verdict: s.verdict}
}

func (s *Simulator) verdict(v *Verdict) simVerdict {
	return simVerdict{kind: v.Kind, chain: s.chains[v.Chain]}
}

func (s *Simulator) rule(r *Rule) (simRule, error) {
	ops := make([]simOp, 0, len(r.Matches)+len(r.Statements))
	for _, m := range r.Matches {
		op, err := s.match(m)
		if err != nil {
			return simRule{}, err
		}
		ops = append(ops, op)
	}
	for _, st := range r.Statements {
		if _, ok := st.(Counter); ok {
			continue
		}
		op, err := s.statement(st)
		if err != nil {
			return simRule{}, err
		}
		ops = append(ops, op)
	}
	return simRule{ops: ops, comment: r.Comment}, nil
}

func (s *Simulator) match(m Match) (simOp, error) {
	switch m := m.(type) {
	case Compare:
		return simCompare(m), nil
	case Lookup:
		return simOp{kind: opLookup, fields: simFields(m.Fields), not: m.Not, set: s.sets[m.Set]}, nil
	case In:
		return simOp{
			kind: opLookup, fields: simFields(m.Fields), not: m.Not, set: s.newSet(fieldTypes(m.Fields), m.Elements),
		}, nil
	default:
		return simOp{}, fmt.Errorf("%T cannot be simulated", m)
	}
}

func simCompare(m Compare) simOp {
	op := simOp{
		kind: opEqual, fields: simFields([]Field{m.Field}), not: m.Not, value: m.Value, last: m.Last, mask: m.Mask,
	}
	switch typ := m.Field.Type(); {
	case m.Mask != nil:
		op.kind = opMasked
	case m.Last != nil:
		op.kind = opRange
	case typ == TypeIfname && len(m.Value) < IfnameSize:
		op.kind = opPrefix
	case typ.Bits():
		op.kind = opAnyBit
	}
	return op
}

func (s *Simulator) statement(st Statement) (simOp, error) {
	switch st := st.(type) {
	case Verdict:
		return simOp{kind: opVerdict, verdict: s.verdict(&st)}, nil
	case VMap:
		set := s.sets[st.Map]
		if st.Map == "" {
			set = s.newSet(fieldTypes(st.Fields), st.Elements)
		}
		return simOp{kind: opVMap, fields: simFields(st.Fields), set: set}, nil
	case Log:
		return simOp{kind: opLog, log: &st}, nil
	case Limit:
		return simOp{kind: opLimit, not: st.Over}, nil
	case Notrack:
		return simOp{kind: opNotrack}, nil
	case Reject:
		return simOp{kind: opReject, reject: &st}, nil
	case NAT:
		return simOp{kind: opNAT, nat: &st, fields: simFields(st.Fields), set: s.sets[st.Map]}, nil
	case Assign:
		fields := st.Fields
		switch {
		case st.Map != "":
		case st.From != 0:
			fields = []Field{st.From}
		default:
			fields = []Field{st.Field}
		}
		return simOp{kind: opAssign, assign: &st, fields: simFields(fields), set: s.sets[st.Map]}, nil
	default:
		return simOp{}, fmt.Errorf("%T cannot be simulated", st)
	}
}
