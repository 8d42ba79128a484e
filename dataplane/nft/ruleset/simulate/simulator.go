// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Config configures a Simulator. It must have either a Table or a State.
type Config struct {
	// Table must be valid. It must not change while the simulator is in use.
	Table *ruleset.Table
	// State must not change while the simulator is in use. New does not validate it. A chain of the
	// State is compiled when a packet first enters it, and packets look keys up in the State's own
	// sets. So the cost of New does not depend on the number of rules and elements.
	State *ruleset.State
}

// Simulator runs packets through a table as the kernel does. It is safe for concurrent use.
type Simulator struct {
	family ruleset.Family
	hooks  map[ruleset.HookPoint][]*chain
	chains map[string]*chain
	state  *ruleset.State // has the named sets
	header headerFields

	compiling sync.Mutex
}

// chain is a chain of the table. The method ready compiles it.
type chain struct {
	*ruleset.Chain
	compiled atomic.Bool
	rules    []rule
	err      error
}

// rule is a list of operations, each of which may end the rule.
type rule struct {
	ops     []operation
	comment string
}

// operation is a match or a statement. Its kind determines which fields it uses.
type operation struct {
	kind              operationKind
	not               bool
	fields            []field
	value, last, mask ruleset.Value
	set               ruleset.View
	verdict           verdict
	log               *ruleset.Log
	reject            *ruleset.Reject
	assign            *ruleset.Assign
	nat               *ruleset.NAT
}

type operationKind uint8

const (
	opEqual operationKind = iota
	opRange
	opMasked
	opAnyBit
	opPrefix // of an interface name
	opLookup
	opVMap
	opVerdict
	opLog
	opLimit // ends the rule over the limit; if negated, below the limit
	opNotrack
	opReject
	opAssign
	opNAT
)

// verdict is a verdict with the chain to which it leads.
type verdict struct {
	kind  ruleset.VerdictKind
	chain *chain
}

// verdict returns the verdict as a value of the model.
func (v verdict) verdict() ruleset.Verdict {
	if v.chain == nil {
		return ruleset.Verdict{Kind: v.kind}
	}
	return ruleset.Verdict{Kind: v.kind, Chain: v.chain.Name}
}

// New returns a Simulator of the Table or the State.
//
// New returns an error if the Table is invalid (see Table.Validate), or if a rule of the Table has
// a Raw. It does not check a State. If a rule of the State has a Raw, Run returns an error once a
// packet enters the chain of the rule.
func New(cfg Config) (*Simulator, error) {
	switch {
	case (cfg.Table == nil) == (cfg.State == nil):
		return nil, errors.New("simulate: Config.Table and State: set exactly one of them")
	case cfg.State != nil:
		return ofState(cfg.State), nil
	}
	st, err := ruleset.StateOf(cfg.Table)
	if err != nil {
		return nil, fmt.Errorf("simulate: table %s: %w", cfg.Table.Name, err)
	}
	s := ofState(st)
	for _, c := range cfg.Table.Chains {
		if err := s.ready(s.chains[c.Name]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func ofState(st *ruleset.State) *Simulator {
	chains := st.Chains()
	s := &Simulator{
		family: st.Family(), hooks: map[ruleset.HookPoint][]*chain{}, header: newHeaderFields(),
		chains: make(map[string]*chain, len(chains)), state: st,
	}
	all := make([]chain, len(chains)) // allocated in one piece, because there are many
	for i, c := range chains {
		all[i].Chain = c
		s.chains[c.Name] = &all[i]
		if c.Hook != nil {
			s.hooks[c.Hook.Point] = append(s.hooks[c.Hook.Point], &all[i])
		}
	}
	for _, bases := range s.hooks {
		slices.SortFunc(bases, compareBases)
	}
	return s
}

// compareBases orders the base chains of a hook. Base chains of type nat are all at the priority of
// address translation, and there in the order of their own priorities.
func compareBases(a, b *chain) int {
	return cmp.Or(
		cmp.Compare(effectivePriority(a.Hook), effectivePriority(b.Hook)),
		cmp.Compare(a.Hook.Priority, b.Hook.Priority),
		cmp.Compare(b.Name, a.Name),
	)
}

// ready compiles a chain unless it is compiled already. Several goroutines may call it.
func (s *Simulator) ready(c *chain) error {
	if c.compiled.Load() {
		return c.err
	}
	s.compiling.Lock()
	defer s.compiling.Unlock()
	if c.compiled.Load() {
		return c.err
	}
	rules := make([]rule, len(c.Rules))
	for i := range rules {
		var err error
		if rules[i], err = s.rule(&c.Rules[i]); err != nil {
			c.err = fmt.Errorf("simulate: chain %s: rule %d: %w", c.Name, i+1, err)
			break
		}
	}
	c.rules = rules
	c.compiled.Store(true)
	return c.err
}

// effectivePriority returns the priority at which the kernel calls the chain.
func effectivePriority(h *ruleset.Hook) int {
	switch {
	case h.Type != ruleset.HookNAT:
		return h.Priority
	case h.Point == ruleset.Prerouting || h.Point == ruleset.Output:
		return -100
	default:
		return 100
	}
}

// anonymous returns an anonymous set or verdict map.
func (s *Simulator) anonymous(
	fields []ruleset.Field, elements []ruleset.Element, verdicts bool,
) (ruleset.View, error) {
	isRange := func(e ruleset.Element) bool { return e.Last != nil || e.Ends != nil }
	set := &ruleset.Set{Interval: slices.ContainsFunc(elements, isRange), Verdicts: verdicts, Elements: elements}
	for _, f := range fields {
		set.Key = append(set.Key, f.Type())
	}
	return s.state.ViewOf(set)
}

func (s *Simulator) verdict(v ruleset.Verdict) verdict {
	return verdict{kind: v.Kind, chain: s.chains[v.Chain]}
}

func (s *Simulator) rule(r *ruleset.Rule) (rule, error) {
	ops := make([]operation, 0, len(r.Matches)+len(r.Statements))
	for _, m := range r.Matches {
		op, err := s.match(m)
		if err != nil {
			return rule{}, err
		}
		ops = append(ops, op)
	}
	for _, st := range r.Statements {
		switch st.(type) {
		case ruleset.Counter, ruleset.FlowAdd: // a FlowAdd is the last statement
			continue
		}
		op, err := s.statement(st)
		if err != nil {
			return rule{}, err
		}
		ops = append(ops, op)
	}
	return rule{ops: ops, comment: r.Comment}, nil
}

func (s *Simulator) match(m ruleset.Match) (operation, error) {
	switch m := m.(type) {
	case ruleset.Compare:
		return s.compare(m), nil
	case ruleset.Lookup:
		return operation{kind: opLookup, fields: s.fields(m.Fields), not: m.Not, set: s.state.View(m.Set)}, nil
	case ruleset.In:
		set, err := s.anonymous(m.Fields, m.Elements, false)
		return operation{kind: opLookup, fields: s.fields(m.Fields), not: m.Not, set: set}, err
	default:
		return operation{}, fmt.Errorf("%T cannot be simulated", m)
	}
}

func (s *Simulator) compare(m ruleset.Compare) operation {
	op := operation{
		kind: opEqual, not: m.Not, fields: s.fields([]ruleset.Field{m.Field}),
		value: m.Value, last: m.Last, mask: m.Mask,
	}
	switch typ := m.Field.Type(); {
	case m.Mask != nil:
		op.kind = opMasked
	case m.Last != nil:
		op.kind = opRange
	case typ == ruleset.TypeIfname && len(m.Value) < ruleset.IfnameSize:
		op.kind = opPrefix
	case typ.Bits():
		op.kind = opAnyBit
	}
	return op
}

func (s *Simulator) statement(st ruleset.Statement) (operation, error) {
	switch st := st.(type) {
	case ruleset.Verdict:
		return operation{kind: opVerdict, verdict: s.verdict(st)}, nil
	case ruleset.VMap:
		op := operation{kind: opVMap, fields: s.fields(st.Fields), set: s.state.View(st.Map)}
		var err error
		if st.Map == "" {
			op.set, err = s.anonymous(st.Fields, st.Elements, true)
		}
		return op, err
	case ruleset.Log:
		return operation{kind: opLog, log: &st}, nil
	case ruleset.Limit:
		return operation{kind: opLimit, not: st.Over}, nil
	case ruleset.Notrack:
		return operation{kind: opNotrack}, nil
	case ruleset.Reject:
		return operation{kind: opReject, reject: &st}, nil
	case ruleset.NAT:
		return operation{kind: opNAT, nat: &st, fields: s.fields(st.Fields), set: s.state.View(st.Map)}, nil
	case ruleset.Assign:
		fields := st.Fields
		switch {
		case st.Map != "":
		case st.From != 0:
			fields = []ruleset.Field{st.From}
		default:
			fields = []ruleset.Field{st.Field}
		}
		return operation{kind: opAssign, assign: &st, fields: s.fields(fields), set: s.state.View(st.Map)}, nil
	default:
		return operation{}, fmt.Errorf("%T cannot be simulated", st)
	}
}
