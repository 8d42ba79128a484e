// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// replay applies operations to a plain table, as the kernel does: an object with references cannot
// be deleted, and references must exist.
type replay struct {
	t     *testing.T
	table *ruleset.Table
}

func (r *replay) chain(name string) *ruleset.Chain {
	for _, c := range r.table.Chains {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (r *replay) set(name string) *ruleset.Set {
	for _, s := range r.table.Sets {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// refers reports whether a rule or an element refers to a set or chain.
func (r *replay) refers(set bool, name, but string) bool {
	for _, c := range r.table.Chains {
		for _, rule := range c.Rules {
			if c.Name != but && slices.Contains(names(rule, set), name) {
				return true
			}
		}
	}
	for _, s := range r.table.Sets {
		for _, e := range s.Elements {
			if !set && e.Verdict != nil && e.Verdict.Chain == name {
				return true
			}
		}
	}
	return false
}

// names returns the sets or chains to which a rule of the test refers.
func names(rule ruleset.Rule, sets bool) []string {
	var out []string
	for _, m := range rule.Matches {
		if l, ok := m.(ruleset.Lookup); ok && sets {
			out = append(out, l.Set)
		}
	}
	for _, s := range rule.Statements {
		switch s := s.(type) {
		case ruleset.VMap:
			if sets {
				out = append(out, s.Map)
			}
			for _, e := range s.Elements {
				if !sets {
					out = append(out, e.Verdict.Chain)
				}
			}
		case ruleset.Verdict:
			if !sets && s.Chain != "" {
				out = append(out, s.Chain)
			}
		}
	}
	return out
}

func (r *replay) rule(rule ruleset.Rule) {
	for _, name := range names(rule, true) {
		require.NotNil(r.t, r.set(name), "rule refers to set %s", name)
	}
	for _, name := range names(rule, false) {
		require.NotNil(r.t, r.chain(name), "rule refers to chain %s", name)
	}
}

// sameKey reports whether two elements have the same key and end.
func sameKey(a, b ruleset.Element) bool {
	a.Verdict, b.Verdict, a.Data, b.Data, a.Comment, b.Comment = nil, nil, nil, nil, "", ""
	return a.Equal(b)
}

func (r *replay) play(op ruleset.Op) {
	t := r.t
	require.Equal(t, r.table.Name, op.Table)
	switch op.Kind {
	case ruleset.AddSet:
		require.Nil(t, r.set(op.Set.Name))
		s := *op.Set
		s.Elements = nil
		r.table.Sets = append(r.table.Sets, &s)
	case ruleset.DeleteSet:
		require.NotNil(t, r.set(op.Set.Name))
		require.False(t, r.refers(true, op.Set.Name, ""), "set %s is in use", op.Set.Name)
		r.table.Sets = slices.DeleteFunc(r.table.Sets, func(s *ruleset.Set) bool { return s.Name == op.Set.Name })
	case ruleset.AddChain:
		require.Nil(t, r.chain(op.Chain.Name))
		r.table.Chains = append(r.table.Chains, &ruleset.Chain{Name: op.Chain.Name, Hook: op.Chain.Hook})
	case ruleset.DeleteChain:
		require.NotNil(t, r.chain(op.Chain.Name))
		require.False(t, r.refers(false, op.Chain.Name, op.Chain.Name), "chain %s is in use", op.Chain.Name)
		r.table.Chains = slices.DeleteFunc(
			r.table.Chains, func(c *ruleset.Chain) bool { return c.Name == op.Chain.Name },
		)
	case ruleset.AddElements, ruleset.DeleteElements:
		s := r.set(op.Set.Name)
		for _, e := range op.Elements {
			i := slices.IndexFunc(s.Elements, func(o ruleset.Element) bool { return sameKey(e, o) })
			if op.Kind == ruleset.DeleteElements {
				require.GreaterOrEqual(t, i, 0, "%s", op)
				s.Elements = slices.Delete(s.Elements, i, i+1)
				continue
			}
			require.Equal(t, -1, i, "%s", op)
			if e.Verdict != nil && e.Verdict.Chain != "" {
				require.NotNil(t, r.chain(e.Verdict.Chain))
			}
			s.Elements = append(s.Elements, e)
		}
	default:
		c := r.chain(op.Chain.Name)
		switch op.Kind {
		case ruleset.ChangePolicy:
			require.NotEqual(t, c.Hook.Policy, op.Chain.Hook.Policy)
			hook := *c.Hook
			hook.Policy = op.Chain.Hook.Policy
			c.Hook = &hook
		case ruleset.InsertRule:
			r.rule(op.Rule)
			c.Rules = slices.Insert(c.Rules, op.Index, op.Rule)
		case ruleset.DeleteRule:
			require.True(t, c.Rules[op.Index].Equal(op.Rule))
			c.Rules = slices.Delete(c.Rules, op.Index, op.Index+1)
		case ruleset.ReplaceRule:
			r.rule(op.Rule)
			c.Rules[op.Index] = op.Rule
		default:
			t.Fatalf("unknown operation %s", op)
		}
	}
}

// apply applies a delta to a plain table.
func apply(t *ruleset.Table, d *ruleset.Delta) *ruleset.Table {
	t = t.Clone()
	for _, c := range d.Chains {
		t.Chains = slices.DeleteFunc(t.Chains, func(o *ruleset.Chain) bool { return o.Name == c.Name })
		t.Chains = append(t.Chains, c)
	}
	for _, s := range d.Sets {
		t.Sets = slices.DeleteFunc(t.Sets, func(o *ruleset.Set) bool { return o.Name == s.Name })
		t.Sets = append(t.Sets, s)
	}
	t.Chains = slices.DeleteFunc(
		t.Chains, func(o *ruleset.Chain) bool { return slices.Contains(d.DeleteChains, o.Name) },
	)
	t.Sets = slices.DeleteFunc(t.Sets, func(o *ruleset.Set) bool { return slices.Contains(d.DeleteSets, o.Name) })
	for _, e := range d.Elements {
		for _, s := range t.Sets {
			if s.Name != e.Set {
				continue
			}
			for _, gone := range append(e.Delete, e.Add...) {
				s.Elements = slices.DeleteFunc(s.Elements, func(o ruleset.Element) bool { return sameKey(o, gone) })
			}
			s.Elements = append(s.Elements, e.Add...)
		}
	}
	t = t.Clone()
	t.Normalize()
	return t
}

// problem checks a whole table of the test. State must find the same problems in time in proportion
// to the delta.
func problem(t *ruleset.Table) error {
	r := &replay{table: t}
	edges := map[string][]string{}
	for _, s := range t.Sets {
		for i, e := range s.Elements {
			if e.Verdict != nil && e.Verdict.Chain != "" {
				if c := r.chain(e.Verdict.Chain); c == nil || c.Hook != nil {
					return fmt.Errorf("set %s leads to %s", s.Name, e.Verdict.Chain)
				}
			}
			for _, o := range s.Elements[:i] {
				if overlap(e, o) {
					return errors.New("overlap")
				}
			}
		}
	}
	for _, c := range t.Chains {
		for _, rule := range c.Rules {
			for _, name := range names(rule, false) {
				if to := r.chain(name); to == nil || to.Hook != nil {
					return fmt.Errorf("no chain %s", name)
				}
				edges[c.Name] = append(edges[c.Name], name)
			}
			for _, m := range rule.Matches {
				if l, ok := m.(ruleset.Lookup); ok {
					s := r.set(l.Set)
					if s == nil || s.Verdicts || s.Key[0] != l.Fields[0].Type() || len(s.Key) != len(l.Fields) {
						return fmt.Errorf("no set %s", l.Set)
					}
				}
			}
			for _, st := range rule.Statements {
				if v, ok := st.(ruleset.VMap); ok {
					s := r.set(v.Map)
					if s == nil || !s.Verdicts || s.Key[0] != v.Fields[0].Type() || len(s.Key) != len(v.Fields) {
						return fmt.Errorf("no map %s", v.Map)
					}
					for _, e := range s.Elements {
						edges[c.Name] = append(edges[c.Name], e.Verdict.Chain)
					}
				}
			}
		}
	}
	var depth func(name string, left int) bool
	depth = func(name string, left int) bool {
		return left >= 0 && !slices.ContainsFunc(
			edges[name], func(to string) bool { return to != "" && !depth(to, left-1) },
		)
	}
	for _, c := range t.Chains {
		if !depth(c.Name, ruleset.MaxDepth) {
			return fmt.Errorf("chain %s: deep", c.Name)
		}
	}
	return nil
}

// overlap reports whether two keys overlap in every part.
func overlap(a, b ruleset.Element) bool {
	for i := range a.Key {
		if slices.Compare(end(a, i), b.Key[i]) < 0 || slices.Compare(end(b, i), a.Key[i]) < 0 {
			return false
		}
	}
	return true
}

func end(e ruleset.Element, i int) ruleset.Value {
	switch {
	case e.Last != nil:
		return e.Last
	case e.Ends != nil && e.Ends[i] != nil:
		return e.Ends[i]
	}
	return e.Key[i]
}

// maker makes random deltas of few names, so that many changes affect the same objects.
type maker struct{ *rand.Rand }

func (m maker) chainName() string { return fmt.Sprintf("c%02d", m.IntN(18)) }
func (m maker) setName() string   { return fmt.Sprintf("s%d", m.IntN(7)) }

func (m maker) verdict() ruleset.Verdict {
	if m.IntN(2) == 0 {
		return verdict(ruleset.Jump+ruleset.VerdictKind(m.IntN(2)), m.chainName())
	}
	return verdict(ruleset.Accept + ruleset.VerdictKind(m.IntN(3)))
}

func (m maker) element(s *ruleset.Set) ruleset.Element {
	var e ruleset.Element
	for _, t := range s.Key {
		if t == ruleset.TypeIPv4 {
			e.Key = append(e.Key, ruleset.Value{10, 0, 0, byte(m.IntN(40))})
			continue
		}
		e.Key = append(e.Key, ruleset.Port(uint16(m.IntN(5))))
	}
	if s.Interval && m.IntN(2) == 0 {
		last := slices.Clone(e.Key[0])
		last[3] += byte(m.IntN(4))
		if len(s.Key) == 1 {
			e.Last = last
		} else {
			e.Ends = []ruleset.Value{last, e.Key[1]}
		}
	}
	if s.Verdicts {
		v := m.verdict()
		e.Verdict = &v
	}
	if m.IntN(8) == 0 {
		e.Comment = "x"
	}
	return e
}

func (m maker) elements(s *ruleset.Set) []ruleset.Element {
	var out []ruleset.Element
	for range m.IntN(12) {
		e := m.element(s)
		if !slices.ContainsFunc(out, func(o ruleset.Element) bool { return overlap(e, o) }) || m.IntN(200) == 0 {
			out = append(out, e)
		}
	}
	return out
}

// setOf returns a set with a name: the first names are sets, the others maps. Some names have two
// kinds at different times.
func (m maker) setOf(name string) *ruleset.Set {
	s := &ruleset.Set{Name: name, Key: []ruleset.Type{ruleset.TypeIPv4}, Verdicts: name >= "s4"}
	if name == "s1" || name == "s5" || m.IntN(6) == 0 {
		s.Interval = true
	}
	if name == "s3" {
		s.Key, s.Interval = append(s.Key, ruleset.TypeService), m.IntN(3) > 0
	}
	s.Elements = m.elements(s)
	return s
}

func (m maker) rule() ruleset.Rule {
	r := ruleset.Rule{Comment: fmt.Sprint(m.IntN(4))}
	name := m.setName()
	fields := []ruleset.Field{ruleset.IPSaddr}
	switch {
	case name == "s3":
		fields = append(fields, ruleset.Dport)
		fallthrough
	case name < "s4":
		if m.IntN(2) == 0 {
			r.Matches = append(r.Matches, ruleset.Lookup{Fields: fields, Set: name})
		}
		r.Statements = []ruleset.Statement{m.verdict()}
	default:
		r.Statements = []ruleset.Statement{ruleset.VMap{Fields: fields, Map: name}}
	}
	return r
}

func (m maker) chain(name string) *ruleset.Chain {
	c := &ruleset.Chain{Name: name}
	if name < "c02" || m.IntN(20) == 0 {
		c.Hook = &ruleset.Hook{
			Point: ruleset.Input, Priority: m.IntN(2), Policy: verdict(ruleset.Accept + ruleset.VerdictKind(m.IntN(2))),
		}
	}
	for range m.IntN(5) {
		c.Rules = append(c.Rules, m.rule())
	}
	return c
}

// first makes all chains and sets, empty, so that many later deltas are valid.
func (m maker) first() *ruleset.Delta {
	d := &ruleset.Delta{}
	for i := range 18 {
		c := &ruleset.Chain{Name: fmt.Sprintf("c%02d", i)}
		if i < 2 {
			c.Hook = &ruleset.Hook{Point: ruleset.Input, Policy: verdict(ruleset.Accept)}
		}
		d.Chains = append(d.Chains, c)
	}
	for i := range 7 {
		s := m.setOf(fmt.Sprintf("s%d", i))
		s.Elements = nil
		d.Sets = append(d.Sets, s)
	}
	return d
}

// delta changes a few objects of a table. Most deltas are valid.
func (m maker) delta(t *ruleset.Table) *ruleset.Delta {
	d := &ruleset.Delta{}
	seen := map[string]bool{}
	once := func(name string) bool {
		was := seen[name]
		seen[name] = true
		return !was
	}
	for range m.IntN(3) {
		if name := m.chainName(); once(name) {
			c := m.chain(name)
			if i := slices.IndexFunc(t.Chains, func(o *ruleset.Chain) bool { return o.Name == name }); i >= 0 &&
				m.IntN(3) > 0 {
				c = t.Chains[i].Clone()
				if c.Hook != nil && m.IntN(3) == 0 {
					c.Hook.Policy.Kind = ruleset.Accept + ruleset.Drop - c.Hook.Policy.Kind
				}
				at := m.IntN(len(c.Rules) + 1)
				if m.IntN(2) == 0 || at == len(c.Rules) {
					c.Rules = slices.Insert(c.Rules, at, m.rule())
				} else {
					c.Rules = slices.Delete(c.Rules, at, at+1)
				}
			}
			d.Chains = append(d.Chains, c)
		}
	}
	for range m.IntN(2) {
		if name := m.setName(); once(name) {
			d.Sets = append(d.Sets, m.setOf(name))
		}
	}
	for range m.IntN(2) {
		if name := m.setName(); once(name) {
			d.DeleteSets = append(d.DeleteSets, name)
		}
	}
	for range m.IntN(3) {
		if name := m.chainName(); once(name) {
			d.DeleteChains = append(d.DeleteChains, name)
		}
	}
	for _, s := range t.Sets {
		if m.IntN(3) > 0 || !once(s.Name) {
			continue
		}
		e := ruleset.ElementDelta{Set: s.Name, Add: m.elements(s)}
		for _, o := range s.Elements {
			clash := slices.ContainsFunc(e.Add, func(a ruleset.Element) bool { return overlap(a, o) })
			if clash && m.IntN(30) > 0 || m.IntN(4) == 0 {
				e.Delete = append(e.Delete, o)
			}
		}
		e.Delete = append(e.Delete, m.element(s)) // the element probably does not exist
		d.Elements = append(d.Elements, e)
	}
	return d
}

// TestStateAgainstPlainTables: the state equals a plain table with the delta applied, refuses the
// deltas that plain checks refuse, and its operations produce that table.
func TestStateAgainstPlainTables(t *testing.T) {
	taken, refused := 0, 0
	for seed := range uint64(300) {
		m := maker{rand.New(rand.NewPCG(seed, 0))}
		state := ruleset.NewState(ruleset.FamilyINet, "t")
		table := &ruleset.Table{Name: "t"}
		for step, d := 0, m.first(); step < 40; step, d = step+1, m.delta(table) {
			want := apply(table, d)
			before := state.Table()
			change, err := state.Prepare(d)
			require.True(t, before.Equal(state.Table()), "seed %d: Prepare altered the state", seed)
			wrong := problem(want)
			require.Equal(t, wrong == nil, err == nil, "seed %d step %d: %v, but %v\n%s", seed, step, wrong, err, want)
			if err != nil {
				refused++
				continue
			}
			taken++
			r := &replay{t: t, table: table.Clone()}
			for _, op := range change.Ops {
				r.play(op)
			}
			r.table.Normalize()
			copied := state.Clone()
			state.Commit(change)
			require.Equal(t, want.String(), r.table.String(), "seed %d step %d", seed, step)
			require.Equal(t, want.String(), state.Table().String(), "seed %d step %d", seed, step)
			require.True(t, want.Equal(state.Table()))
			require.Equal(t, before.String(), copied.Table().String(), "the copy")
			require.Equal(t, want.Validate() == nil, true)
			ops, err := ruleset.Diff(want, want.Clone())
			require.NoError(t, err)
			require.Empty(t, ops)
			table = want
		}
	}
	t.Logf("%d deltas applied, %d refused", taken, refused)
	require.Greater(t, taken, 3000)
	require.Greater(t, refused, 300)
}

// TestRuleOps: an added, deleted or replaced rule is one operation.
func TestRuleOps(t *testing.T) {
	rules := func(comments string) *ruleset.Chain {
		c := &ruleset.Chain{Name: "c"}
		for _, r := range comments {
			c.Rules = append(c.Rules, ruleset.Rule{
				Statements: []ruleset.Statement{ruleset.Counter{}}, Comment: string(r),
			})
		}
		return c
	}
	for _, c := range []struct {
		old, new string
		want     []string
	}{
		{"abcd", "abcd", nil},
		{"abcd", "abxcd", []string{"insert 2"}},
		{"abcd", "xabcd", []string{"insert 0"}},
		{"abcd", "abcdx", []string{"insert 4"}},
		{"abcd", "acd", []string{"delete 1"}},
		{"abcd", "abxd", []string{"replace 2"}},
		{"abcd", "dabc", []string{"insert 0", "delete 4"}},
		{"aaaa", "aaa", []string{"delete 3"}},
		{"abcde", "xbdey", []string{"replace 0", "delete 2", "insert 4"}},
		{"", "ab", []string{"insert 0", "insert 1"}},
		{"ab", "", []string{"delete 0", "delete 0"}},
	} {
		ops, err := ruleset.Diff(
			&ruleset.Table{Name: "t", Chains: []*ruleset.Chain{rules(c.old)}},
			&ruleset.Table{Name: "t", Chains: []*ruleset.Chain{rules(c.new)}})
		require.NoError(t, err)
		var got []string
		for _, op := range ops {
			kind := map[ruleset.OpKind]string{
				ruleset.InsertRule: "insert", ruleset.DeleteRule: "delete", ruleset.ReplaceRule: "replace",
			}[op.Kind]
			got = append(got, fmt.Sprintf("%s %d", kind, op.Index))
		}
		require.Equal(t, c.want, got, "%s to %s", c.old, c.new)
	}
}

// TestDepth: at most fifteen jumps may follow one another. Deleted jumps are not included.
func TestDepth(t *testing.T) {
	chain := func(i int, to ...int) *ruleset.Chain {
		c := &ruleset.Chain{Name: fmt.Sprintf("c%d", i)}
		for _, n := range to {
			c.Rules = append(c.Rules, rule(verdict(ruleset.Jump, fmt.Sprintf("c%d", n))))
		}
		return c
	}
	state := ruleset.NewState(ruleset.FamilyINet, "t")
	commit := func(want string, chains ...*ruleset.Chain) {
		t.Helper()
		change, err := state.Prepare(&ruleset.Delta{Chains: chains})
		if want != "" {
			require.ErrorContains(t, err, want)
			return
		}
		require.NoError(t, err)
		state.Commit(change)
	}
	var chains []*ruleset.Chain
	for i := range 15 {
		chains = append(chains, chain(i, i+1))
	}
	commit("", append(chains, chain(15))...)
	commit("more than 15 jumps deep", chain(15, 16), chain(16))
	commit("leads back to itself", chain(15, 3))
	commit("", chain(7))     // the upper half no longer leads to the lower one
	commit("", chain(15, 0)) // the upper half is now behind the lower one
	commit("leads back to itself", chain(6, 7), chain(7, 8))
	require.NoError(t, state.Table().Validate())
}

// ipv4 returns an address by number.
func ipv4(n uint32) ruleset.Value { return binary.BigEndian.AppendUint32(nil, n) }

// TestManyElements: a set keeps more elements than one step of growth adds, in both kinds of store.
func TestManyElements(t *testing.T) {
	for _, interval := range []bool{false, true} {
		state := ruleset.NewState(ruleset.FamilyINet, "t")
		commit := func(d *ruleset.Delta) {
			change, err := state.Prepare(d)
			require.NoError(t, err)
			state.Commit(change)
		}
		commit(&ruleset.Delta{Sets: []*ruleset.Set{{
			Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: interval,
		}}})
		want := map[string]bool{}
		rng := rand.New(rand.NewPCG(3, 3))
		for range 300 {
			e := ruleset.ElementDelta{Set: "s"}
			seen := map[uint32]bool{}
			for range 1 + rng.IntN(60) {
				n := rng.Uint32N(5000)
				if seen[n] {
					continue
				}
				seen[n] = true
				if rng.IntN(3) == 0 {
					e.Delete = append(e.Delete, one(ipv4(n)))
					delete(want, string(ipv4(n)))
				} else {
					e.Add = append(e.Add, one(ipv4(n)))
					want[string(ipv4(n))] = true
				}
			}
			commit(&ruleset.Delta{Elements: []ruleset.ElementDelta{e}})
			require.Equal(t, len(want), state.Len("s"))
		}
		elements := state.Table().Sets[0].Elements
		require.Len(t, elements, len(want))
		require.True(t, slices.IsSortedFunc(
			elements, func(a, b ruleset.Element) int { return cmp.Or(ruleset.CompareElements(a, b), 1) },
		))
		for _, e := range elements {
			require.True(t, want[string(e.Key[0])])
		}
	}
}
