// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// staged is a table with a base chain before connection tracking, the stage, and a later one. The
// stage leads over a map to a chain that drops the sources in a set, and takes others out of
// connection tracking.
func staged(denied ruleset.Element, late ruleset.Verdict) *ruleset.Table {
	denies := rule(isIPv4, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr}, Set: "denied"}, drop)
	stage := base("stage", ruleset.Prerouting, rule(ruleset.VMap{
		Fields: []ruleset.Field{ruleset.IIFName}, Map: "interfaces",
	}))
	stage.Hook.Priority = -300
	t := &ruleset.Table{
		Name: tableName,
		Sets: []*ruleset.Set{
			{Name: "denied", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: []ruleset.Element{denied}},
			{Name: "interfaces", Key: []ruleset.Type{ruleset.TypeIfname}, Verdicts: true, Elements: []ruleset.Element{
				to(ruleset.Goto, "from-eth0", ruleset.Ifname("eth0")),
			}},
		},
		Chains: []*ruleset.Chain{
			stage,
			chain("from-eth0",
				denies, rule(ruleset.Verdict{Kind: ruleset.Jump, Chain: "same"}), rule(ruleset.Notrack{})),
			chain("same", rule(isTCP, accept)),
			base("late", ruleset.Forward, rule(isTCP, late)),
		},
	}
	t.Normalize()
	return t
}

// openStaged returns an Applier with the stage, and the ruleset before each of its transactions.
func openStaged(t *testing.T, ns *netns.NS) (a *applier.Applier, before *[]string) {
	t.Helper()
	before = new([]string)
	return openWith(t, ns, applier.Config{
		Shared: true, Stages: []ruleset.Stage{{Chain: "stage", Behind: -298}},
		BeforeWrite: func() error {
			*before = append(*before, nft(t, ns, "", "list ruleset"))
			return nil
		},
	}), before
}

// While a stage and a later chain change together, a guard evaluates a copy of the stage's new
// state. The copy takes no packets out of connection tracking. Any other change is one transaction.
func TestStageGuardDeniesByNewState(t *testing.T) {
	ns := nstest.New(t)
	a, seen := openStaged(t, ns)
	change := func(t *testing.T, source string, late ruleset.Verdict) []string {
		t.Helper()
		want := staged(element(addr(source)), late)
		*seen = nil
		require.NoError(t, a.Apply(t.Context(), want))
		requireLists(t, ns, want)
		return *seen
	}
	change(t, "192.0.2.1", drop)

	require.Len(t, change(t, "192.0.2.2", drop), 1, "only the stage changes")
	require.Len(t, change(t, "192.0.2.2", accept), 1, "only the later chain changes")

	steps := change(t, "192.0.2.3", drop)
	require.Len(t, steps, 5, "copies, base chain, change, rules of the base chain, rest")
	guarded := steps[2]
	require.Contains(t, guarded, "elements = { 192.0.2.2 }", "the stage is in its old state")
	require.Contains(t, guarded, `	set shadow-1 {
		type ipv4_addr
		elements = { 192.0.2.3 }
	}
`)
	require.Contains(t, guarded, `	map shadow-3 {
		type ifname : verdict
		elements = { "eth0" : goto shadow-2 }
	}
`)
	require.Contains(t, guarded, `	chain shadow-2 {
		ip saddr @shadow-1 drop
		jump same
	}
`)
	require.Contains(t, guarded, `	chain shadow-4 {
		type filter hook prerouting priority raw + 2; policy accept;
		iifname vmap @shadow-3
	}
`)
	require.NotContains(t, steps[3], "192.0.2.2", "the stage is in its new state")
	require.NotContains(t, steps[4], "iifname vmap @shadow", "before the copies are deleted, nothing refers to them")
}

// A stage that is added has a guard, and one that is deleted needs none.
func TestOnlyAddedStageHasGuard(t *testing.T) {
	ns := nstest.New(t)
	a, _ := openStaged(t, ns)
	with := staged(element(addr("192.0.2.1")), drop)
	without := staged(element(addr("192.0.2.1")), accept)
	for i, c := range without.Chains {
		if c.Name == "stage" {
			without.Chains = append(without.Chains[:i], without.Chains[i+1:]...)
			break
		}
	}
	require.NoError(t, a.Apply(t.Context(), with))
	for range 2 {
		before := a.Stats().Transactions
		require.NoError(t, a.Apply(t.Context(), without))
		requireLists(t, ns, without)
		require.Equal(t, uint64(2), a.Stats().Transactions-before, "rules of the base chain, the chain")
		before = a.Stats().Transactions
		require.NoError(t, a.Apply(t.Context(), with))
		requireLists(t, ns, with)
		require.Equal(t, uint64(5), a.Stats().Transactions-before)
	}
}

// A stage and a later chain reference one map of classes, and an address gets another class. There
// is a guard if the stage distinguishes one of the two classes, and otherwise none.
func TestStageGuardForDistinguishedClassesOnly(t *testing.T) {
	class := []ruleset.Type{ruleset.TypeClassID}
	number := func(n uint32) []ruleset.Value { return []ruleset.Value{ruleset.Uint32(n)} }
	mapped := func(e ruleset.Element, n uint32) ruleset.Element {
		e.Data = number(n)
		return e
	}
	assign := func(name string, field ruleset.Field) ruleset.Rule {
		return rule(isIPv4, ruleset.Assign{Field: ruleset.Priority, Fields: []ruleset.Field{field}, Map: name})
	}
	denies := func(name string) ruleset.Rule {
		return rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.Priority}, Map: name})
	}
	state := func(hosts ...ruleset.Element) *ruleset.Table {
		stage := base("stage", ruleset.Prerouting, assign("nets", ruleset.IPSaddr), assign("hosts", ruleset.IPSaddr),
			denies("stage-denies"))
		stage.Hook.Priority = -300
		verdicts := func(name string, n uint32) *ruleset.Set {
			e := ruleset.Element{Key: number(n), Verdict: &drop}
			return &ruleset.Set{Name: name, Key: class, Verdicts: true, Elements: []ruleset.Element{e}}
		}
		ipv4 := []ruleset.Type{ruleset.TypeIPv4}
		t := &ruleset.Table{
			Name: tableName,
			Sets: []*ruleset.Set{
				{Name: "hosts", Key: ipv4, Data: class, Elements: hosts},
				{
					Name: "nets", Key: ipv4, Data: class, Interval: true,
					Elements: []ruleset.Element{mapped(prefix("198.51.100.0/24"), 1)},
				},
				verdicts("stage-denies", 1), verdicts("late-denies", 2),
			},
			Chains: []*ruleset.Chain{
				stage, base("late", ruleset.Forward, assign("hosts", ruleset.IPSaddr), denies("late-denies")),
			},
		}
		t.Normalize()
		return t
	}
	host := func(a string, n uint32) ruleset.Element { return mapped(element(addr(a)), n) }
	other := host("203.0.113.1", 4)
	web := func(n uint32) ruleset.Element { return host("192.0.2.1", n) }
	for name, c := range map[string]struct {
		before, after *ruleset.Table
		guarded       bool
	}{
		"a class of the stage":                 {state(other, web(2)), state(other, web(1)), true},
		"a class of the stage is removed":      {state(other, web(1)), state(other), true},
		"classes of later chains":              {state(other, web(2)), state(other, web(3)), false},
		"a class of later chains is removed":   {state(other, web(2)), state(other), false},
		"removed inside a prefix of the stage": {state(other, host("198.51.100.1", 2)), state(other), true},
		"added inside a prefix of the stage":   {state(other), state(other, host("198.51.100.1", 2)), true},
	} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a, _ := openStaged(t, ns)
			require.NoError(t, a.Apply(t.Context(), c.before))
			before := a.Stats().Transactions
			require.NoError(t, a.Apply(t.Context(), c.after))
			requireLists(t, ns, c.after)
			require.Equal(t, c.guarded, a.Stats().Transactions-before > 1)
		})
	}
}

// An object without references is deleted without a guard, if later chains stay as they are.
func TestDeletedObjectsNeedNoStageGuard(t *testing.T) {
	ns := nstest.New(t)
	a, _ := openStaged(t, ns)
	with, without := staged(element(addr("192.0.2.1")), drop), staged(element(addr("192.0.2.1")), drop)
	c := *findChain(without, "from-eth0")
	c.Rules = c.Rules[2:]
	without.Chains = []*ruleset.Chain{findChain(without, "stage"), &c, findChain(without, "late")}
	without.Sets = []*ruleset.Set{findSet(without, "interfaces")}
	without.Normalize()
	for _, state := range []*ruleset.Table{with, without, with} {
		before := a.Stats().Transactions
		require.NoError(t, a.Apply(t.Context(), state))
		requireLists(t, ns, state)
		require.Equal(t, uint64(1), a.Stats().Transactions-before)
	}
}

// An address gets a class that no address had, and a map gets this class by an Early element. The
// guard has a copy of the map with that element, because it looks it up before the change.
func TestStageGuardHasEarlyElements(t *testing.T) {
	ns := nstest.New(t)
	a, seen := openStaged(t, ns)
	class := []ruleset.Type{ruleset.TypeClassID}
	pair := func(key ruleset.Value, n uint32) ruleset.Element {
		return ruleset.Element{Key: []ruleset.Value{key}, Data: []ruleset.Value{ruleset.Uint32(n)}}
	}
	number := func(of, n uint32) ruleset.Element { return pair(ruleset.Uint32(of), n) }
	assign := func(name string, field ruleset.Field) ruleset.Rule {
		return rule(isIPv4, ruleset.Assign{Field: ruleset.Priority, Fields: []ruleset.Field{field}, Map: name})
	}
	stage := base("stage", ruleset.Prerouting, assign("hosts", ruleset.IPSaddr), assign("numbers", ruleset.Priority),
		rule(ruleset.Compare{Field: ruleset.Priority, Value: ruleset.Uint32(7)}, drop))
	stage.Hook.Priority = -300
	before := &ruleset.Table{
		Name: tableName,
		Sets: []*ruleset.Set{
			{
				Name: "hosts", Key: []ruleset.Type{ruleset.TypeIPv4}, Data: class,
				Elements: []ruleset.Element{pair(addr("192.0.2.1"), 1)},
			},
			{Name: "numbers", Key: class, Data: class, Elements: []ruleset.Element{number(1, 7)}},
		},
		Chains: []*ruleset.Chain{stage, base("late", ruleset.Forward, assign("hosts", ruleset.IPSaddr))},
	}
	before.Normalize()
	require.NoError(t, a.Apply(t.Context(), before))
	*seen = nil
	require.NoError(t, a.Update(t.Context(), &ruleset.Delta{Elements: []ruleset.ElementDelta{
		{Set: "hosts", Add: []ruleset.Element{pair(addr("192.0.2.2"), 2)}},
		{Set: "numbers", Early: []ruleset.Element{number(2, 7)}},
	}}))
	require.Len(t, *seen, 5, "copies, base chain, change, rules of the base chain, rest")
	require.Equal(t, 1, strings.Count((*seen)[2], "192.0.2.2 : 0:2"), "the guard's copy of hosts")
	require.Equal(t, 1, strings.Count((*seen)[2], "0:2 : 0:7"), "the guard's copy of numbers")
}

// An address leaves the map of addresses while a prefix around it gets a class that the stage
// denies. The guard has copies of both maps: in the old one, the address would still have its own
// class.
func TestStageGuardOfAddressThatBecomesPartOfPrefix(t *testing.T) {
	ns := nstest.New(t)
	a, seen := openStaged(t, ns)
	assign := func(name string) ruleset.Rule {
		fields := []ruleset.Field{ruleset.IPSaddr}
		return rule(isIPv4, ruleset.Assign{Field: ruleset.Priority, Fields: fields, Map: name})
	}
	class := []ruleset.Type{ruleset.TypeClassID}
	number := func(e ruleset.Element, n uint32) ruleset.Element {
		e.Data = []ruleset.Value{ruleset.Uint32(n)}
		return e
	}
	state := func(hosts, nets []ruleset.Element) *ruleset.Table {
		ipv4 := []ruleset.Type{ruleset.TypeIPv4}
		denied := ruleset.Element{Key: []ruleset.Value{ruleset.Uint32(1)}, Verdict: &drop}
		stage := base("stage", ruleset.Prerouting, assign("nets"), assign("hosts"),
			rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.Priority}, Map: "denies"}))
		stage.Hook.Priority = -300
		t := &ruleset.Table{
			Name: tableName,
			Sets: []*ruleset.Set{
				{Name: "hosts", Key: ipv4, Data: class, Elements: hosts},
				{Name: "nets", Key: ipv4, Data: class, Interval: true, Elements: nets},
				{Name: "denies", Key: class, Verdicts: true, Elements: []ruleset.Element{denied}},
			},
			Chains: []*ruleset.Chain{stage, base("late", ruleset.Forward, assign("hosts"))},
		}
		t.Normalize()
		return t
	}
	other, net := number(element(addr("203.0.113.1")), 4), number(prefix("203.0.113.0/24"), 4)
	require.NoError(t, a.Apply(t.Context(), state(
		[]ruleset.Element{other, number(element(addr("198.51.100.1")), 2)}, []ruleset.Element{net},
	)))
	*seen = nil
	after := state([]ruleset.Element{other}, []ruleset.Element{net, number(prefix("198.51.100.0/24"), 1)})
	require.NoError(t, a.Apply(t.Context(), after))
	requireLists(t, ns, after)
	require.Contains(t, (*seen)[2], "priority raw + 2", "the guard")
	require.Equal(t, 2, strings.Count((*seen)[2], "map @hosts"), "the stage and the later chain")
	require.Equal(t, 1, strings.Count((*seen)[2], "198.51.100.1 "), "the map itself, not the guard's copy")
}
