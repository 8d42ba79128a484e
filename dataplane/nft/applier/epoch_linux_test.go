// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func epoch() ruleset.Epoch { return ruleset.Epoch{Set: "epoch", Chains: []string{"in", "out"}} }

// epochTable has an epoch, a map of addresses, and two base chains, each with some rules on ports.
func epochTable(ports ...uint16) *ruleset.Table {
	set := ruleset.Set{Name: "epoch", Key: []ruleset.Type{ruleset.TypeNFProto}}
	for _, proto := range []uint8{ruleset.NFProtoIPv4, ruleset.NFProtoIPv6} {
		set.Elements = append(set.Elements, element(ruleset.Byte(proto)))
	}
	var rules []ruleset.Rule
	for _, p := range ports {
		rules = append(rules, rule(isUDP, is(ruleset.Dport, ruleset.Port(p)), drop))
	}
	rules = append(
		rules, rule(ruleset.Lookup{Fields: []ruleset.Field{ruleset.NFProto}, Set: "epoch"}, accept), rule(drop),
	)
	t := &ruleset.Table{
		Name: tableName,
		Sets: []*ruleset.Set{&set, {Name: "m", Key: []ruleset.Type{ruleset.TypeIPv4}, Verdicts: true}},
		Chains: []*ruleset.Chain{
			{Name: "in", Hook: &ruleset.Hook{Point: ruleset.Input, Policy: accept}, Rules: rules},
			{Name: "out", Hook: &ruleset.Hook{Point: ruleset.Output, Policy: accept}, Rules: rules},
		},
	}
	t.Normalize()
	return t
}

func toDrop(list ...string) (out []ruleset.Element) {
	for _, s := range list {
		v := drop
		out = append(out, ruleset.Element{Key: []ruleset.Value{ruleset.Addr(netip.MustParseAddr(s))}, Verdict: &v})
	}
	return out
}

func addToDrop(list ...string) *ruleset.Delta {
	return &ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "m", Add: toDrop(list...)}}}
}

// epochHandle returns the kernel's handle of the set epoch. A replaced set has another handle.
func epochHandle(t *testing.T, ns *netns.NS) string {
	t.Helper()
	found := regexp.MustCompile(`set epoch \{ # handle (\d+)`).FindStringSubmatch(
		nft(t, ns, "", "-a", "list", "ruleset"),
	)
	require.NotNil(t, found)
	return found[1]
}

// A change of several live objects begins a new epoch in the same transaction. A change of one
// element begins one, too, if another change of one element was shortly before. Otherwise the table
// stays the same.
func TestChangeOfSeveralObjectsBeginsEpoch(t *testing.T) {
	ns := nstest.New(t)
	cfg := applier.Config{Epoch: epoch(), Shared: true}
	a := openWith(t, ns, cfg)
	want := epochTable(9)
	require.NoError(t, a.Apply(bg, want))
	update := func(switches bool, why string, change func() error) {
		t.Helper()
		handle, before := epochHandle(t, ns), a.Stats().Transactions
		require.NoError(t, change(), why)
		require.LessOrEqual(t, a.Stats().Transactions-before, uint64(1), why)
		require.Equal(t, switches, handle != epochHandle(t, ns), why)
		before = a.Stats().Transactions
		require.NoError(t, a.Verify(bg), why)
		require.Equal(t, before, a.Stats().Transactions, "%s: the kernel has the desired table", why)
	}
	delta := func(d *ruleset.Delta) func() error { return func() error { return a.Update(bg, d) } }
	table := func(ports ...uint16) func() error {
		next := epochTable(ports...)
		next.Sets[1].Elements = toDrop("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
		return func() error { return a.Apply(bg, next) }
	}
	now := time.Now()
	applier.SetClock(a, func() time.Time { return now })
	waitOut := func() { now = now.Add(time.Second) }

	waitOut()
	update(false, "one element", delta(addToDrop("192.0.2.1")))
	require.NoError(t, a.Update(bg, addToDrop("192.0.2.2")))
	waitOut()
	update(true, "two elements", delta(addToDrop("192.0.2.3", "192.0.2.4")))
	update(false, "nothing", delta(&ruleset.Delta{}))
	update(true, "a rule", table(10))
	update(true, "a rule more", table(10, 11))
	update(true, "a rule less, one replaced", table(12))
	update(true, "all rules of ports removed", table())
	waitOut()
	update(false, "one element again", delta(addToDrop("192.0.2.5")))

	again := openWith(t, ns, cfg)
	want = epochTable()
	want.Sets[1].Elements = toDrop("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5")
	require.NoError(t, again.Apply(bg, want))
	require.Zero(t, again.Stats().Transactions, "the next process changes nothing")
	require.NoError(t, again.Teardown(bg))
	require.NoError(t, again.Apply(bg, want))
	require.NoError(t, again.Verify(bg))
}

// A new chain and the one element that leads to it come in one transaction, which begins a new
// epoch. For a packet that entered before, the chain is empty. Two kinds of new chains need no
// epoch. A chain whose rules match ranges is added in an earlier transaction, because the kernel
// fills ranges late. And to the other kind, nothing leads.
func TestNewChainBeginsEpoch(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Epoch: epoch(), Shared: true})
	require.NoError(t, a.Apply(bg, epochTable(9)))
	now := time.Now()
	applier.SetClock(a, func() time.Time { return now })
	to := func(chain, address string) []ruleset.ElementDelta {
		v := ruleset.Verdict{Kind: ruleset.Goto, Chain: chain}
		el := ruleset.Element{Key: []ruleset.Value{ruleset.Addr(netip.MustParseAddr(address))}, Verdict: &v}
		return []ruleset.ElementDelta{{Set: "m", Add: []ruleset.Element{el}}}
	}
	ranges := ruleset.In{Fields: []ruleset.Field{ruleset.Dport}, Elements: []ruleset.Element{
		{Key: []ruleset.Value{ruleset.Port(80)}, Last: ruleset.Port(90)}, element(ruleset.Port(443)),
	}}
	for _, c := range []struct {
		name         string
		rule         ruleset.Rule
		elements     []ruleset.ElementDelta
		transactions uint64
		begins       bool
	}{
		{"used", rule(drop), to("used", "192.0.2.1"), 1, true},
		{"ranged", rule(isUDP, ranges, drop), to("ranged", "192.0.2.2"), 2, false},
		{"unused", rule(drop), nil, 1, false},
	} {
		now = now.Add(time.Second)
		handle, before := epochHandle(t, ns), a.Stats().Transactions
		require.NoError(t, a.Update(bg, &ruleset.Delta{
			Chains: []*ruleset.Chain{{Name: c.name, Rules: []ruleset.Rule{c.rule}}}, Elements: c.elements,
		}), c.name)
		require.Equal(t, c.transactions, a.Stats().Transactions-before, c.name)
		require.Equal(t, c.begins, handle != epochHandle(t, ns), c.name)
	}
}

// A change of one element within 50 ms of another one begins a new epoch. The reason is that a
// packet could use the state before both and the state after both. In this test, no grace period
// rules out such a packet.
func TestSecondSmallChangeBeginsEpoch(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Epoch: epoch(), Shared: true})
	applier.SetNoGracePeriod(a)
	require.NoError(t, a.Apply(bg, epochTable(9)))
	now := time.Now().Add(time.Second)
	applier.SetClock(a, func() time.Time { return now })
	for i, begins := range []bool{false, true, false, true} {
		handle := epochHandle(t, ns)
		require.NoError(t, a.Update(bg, addToDrop(fmt.Sprintf("192.0.2.%d", i))))
		require.Equal(t, begins, handle != epochHandle(t, ns), "change %d", i)
		now = now.Add(49 * time.Millisecond)
	}
	require.NoError(t, a.Verify(bg))
}

// If a grace period has ended since a change without a new epoch, the next small change begins none
// either.
func TestSmallChangeAfterGracePeriod(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Epoch: epoch(), Shared: true})
	require.NoError(t, a.Apply(bg, epochTable(9)))
	now := time.Now().Add(time.Second)
	applier.SetClock(a, func() time.Time { return now })
	end := make(chan struct{})
	applier.SetSynchronize(a, func() error {
		<-end
		return nil
	})
	begins := func(address string) bool {
		handle := epochHandle(t, ns)
		require.NoError(t, a.Update(bg, addToDrop(address)))
		return handle != epochHandle(t, ns)
	}
	require.False(t, begins("192.0.2.1"))
	require.True(t, begins("192.0.2.2"), "the grace period is not over")
	require.False(t, begins("192.0.2.3"))
	close(end)
	<-applier.Seen(a)
	require.False(t, begins("192.0.2.4"))
	require.NoError(t, a.Verify(bg))
}

// After a change that cannot begin a new epoch, the next change begins it. The same holds after an
// attempt that fails because the change is too large.
func TestNextChangeBeginsEpoch(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Epoch: epoch(), Shared: true, MaxBatch: 8 << 10})
	applier.SetNoGracePeriod(a)
	require.NoError(t, a.Apply(bg, epochTable(9)))
	now := time.Now().Add(time.Second)
	applier.SetClock(a, func() time.Time { return now })
	begins := func(change func() error) bool {
		t.Helper()
		handle := epochHandle(t, ns)
		require.NoError(t, change())
		return handle != epochHandle(t, ns)
	}
	update := func(d *ruleset.Delta) func() error { return func() error { return a.Update(bg, d) } }

	other := epochTable(9)
	for _, c := range other.Chains { // a rule has the verdict of the policy meanwhile
		c.Hook.Policy = drop
	}
	require.False(t, begins(func() error { return a.Apply(bg, other) }))
	require.True(t, begins(update(addToDrop("192.0.2.1"))))

	require.False(t, begins(update(addToDrop("192.0.2.2"))))
	large := addToDrop("192.0.2.3")
	for i := range 400 {
		large.Elements[0].Early = append(large.Elements[0].Early, toDrop(fmt.Sprintf("198.51.%d.%d", i/200, i%200))...)
	}
	require.True(t, begins(update(large)))
	require.NoError(t, a.Verify(bg))
}

// A change of one element within 50 ms of a change of an interval set begins a new epoch. It does
// so even if the change of the interval set began one, because packets see the elements of interval
// sets later.
func TestChangeAfterIntervalsBeginsEpoch(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Epoch: epoch(), Shared: true})
	applier.SetNoGracePeriod(a)
	table := epochTable(9)
	table.Sets = append(table.Sets, &ruleset.Set{
		Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true,
		Elements: []ruleset.Element{prefix("10.1.0.0/16")},
	})
	table.Normalize()
	require.NoError(t, a.Apply(bg, table))
	now := time.Now().Add(time.Second)
	applier.SetClock(a, func() time.Time { return now })
	more := []ruleset.ElementDelta{{Set: "nets", Add: []ruleset.Element{prefix("10.2.0.0/16")}}}
	for i, step := range []struct {
		delta  *ruleset.Delta
		begins bool
	}{
		{addToDrop("192.0.2.1"), false},
		{&ruleset.Delta{Elements: more, Apart: true}, true}, // because of the element before
		{addToDrop("192.0.2.2"), true},
		{addToDrop("192.0.2.3"), false},
	} {
		handle := epochHandle(t, ns)
		require.NoError(t, a.Update(bg, step.delta))
		require.Equal(t, step.begins, handle != epochHandle(t, ns), "change %d", i)
	}
	require.NoError(t, a.Verify(bg))
}

// The deletion of foreign objects begins a new epoch: a packet may have been looked up in them.
func TestDeletionOfForeignObjectsBeginsEpoch(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Epoch: epoch(), Shared: true})
	require.NoError(t, a.Apply(bg, epochTable(9)))
	nft(t, ns, `add map inet own lead { type ipv4_addr : verdict; elements = { 10.0.0.1 : drop } }
		add chain inet own early { type filter hook output priority -10; ip daddr vmap @lead; }`)
	now := time.Now().Add(time.Second)
	applier.SetClock(a, func() time.Time { return now })
	handle := epochHandle(t, ns)
	require.NoError(t, a.Resync(bg))
	require.NotEqual(t, handle, epochHandle(t, ns))
	requireLists(t, ns, epochTable(9))
}

func TestIncompleteEpochIsRefused(t *testing.T) {
	for _, e := range []ruleset.Epoch{{Set: "epoch"}, {Chains: []string{"in"}}} {
		_, err := applier.New(applier.Config{Name: tableName, Epoch: e})
		require.ErrorContains(t, err, "Epoch")
	}
}

// One transaction with a new epoch repairs all failed changes. Damage to the epoch by others is
// repaired.
func TestRepairBeginsEpoch(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true, Epoch: epoch()})
	require.NoError(t, a.Apply(bg, epochTable(9)))
	for failures := range 3 {
		before := epochHandle(t, ns)
		f.refuse = func([]byte) unix.Errno { return unix.ENOMEM }
		for i := range failures + 1 {
			prefix := fmt.Sprintf("192.0.%d.1%d", failures, i)
			require.Error(t, a.Update(bg, addToDrop(prefix+"1", prefix+"2")))
		}
		f.refuse = nil
		transactions := a.Stats().Transactions
		require.NoError(t, a.Resync(bg))
		require.EqualValues(t, 1, a.Stats().Transactions-transactions)
		require.NotEqual(t, before, epochHandle(t, ns), "%d failures", failures+1)
		require.NoError(t, a.Verify(bg))
		require.EqualValues(t, 1, a.Stats().Transactions-transactions, "the kernel has it")
	}
	for _, damage := range []string{
		"flush chain inet %s in", "flush set inet %s epoch", "flush table inet %s", "delete table inet %s",
		"flush chain inet %[1]s in; flush chain inet %[1]s out; delete set inet %[1]s epoch",
	} {
		nft(t, ns, fmt.Sprintf(damage, tableName))
		require.NoError(t, a.Resync(bg), damage)
		before := a.Stats().Transactions
		require.NoError(t, a.Verify(bg), damage)
		require.Equal(t, before, a.Stats().Transactions, damage)
	}
}

// Chains with the epoch may get another policy.
func TestPolicyOfEpochChains(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Epoch: epoch(), Shared: true})
	require.NoError(t, a.Apply(bg, epochTable(1)))
	for _, policy := range []ruleset.Verdict{drop, accept} {
		table := epochTable(1, 2)
		for _, name := range []string{"in", "out"} {
			findChain(table, name).Hook.Policy = policy
		}
		require.NoError(t, a.Apply(bg, table))
		requireLists(t, ns, table)
	}
	require.EqualValues(t, 1, a.Stats().Readings)
}

// Rules that reference the epoch's set may be added, deleted and changed with the rest. Such a
// change begins an epoch too.
func TestChangeOfEpochRulesBeginsEpoch(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Epoch: epoch(), Shared: true})
	require.NoError(t, a.Apply(bg, epochTable(1)))
	lookup := rule(
		isUDP, is(ruleset.Dport, ruleset.Port(9)),
		ruleset.Lookup{Fields: []ruleset.Field{ruleset.NFProto}, Set: "epoch"}, accept,
	)
	one, both := epochTable(1, 2), epochTable(2)
	findChain(one, "in").Rules = append([]ruleset.Rule{lookup}, findChain(one, "in").Rules...)
	for _, name := range []string{"in", "out"} {
		c := findChain(both, name)
		c.Rules = append(
			[]ruleset.Rule{rule(ruleset.Verdict{Kind: ruleset.Jump, Chain: "ports"}), lookup}, c.Rules[1:]...,
		)
	}
	both.Chains = append(both.Chains, chain("ports", rule(ruleset.Counter{})))
	both.Normalize()
	for _, table := range []*ruleset.Table{one, both, one, epochTable(3), both, epochTable(1)} {
		handle := epochHandle(t, ns)
		require.NoError(t, a.Apply(bg, table))
		require.NotEqual(t, handle, epochHandle(t, ns))
		requireLists(t, ns, table)
		require.NoError(t, a.Verify(bg))
	}
	require.EqualValues(t, 1+6, a.Stats().Readings, "one for the first Apply and one for each Verify")
}

// Chains with the epoch may be added and deleted with the rest. Such a change begins an epoch.
func TestAddedAndDeletedEpochChainsBeginEpoch(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Epoch: epoch(), Shared: true})
	now := time.Now()
	applier.SetClock(a, func() time.Time { return now }) // each change follows the last at once
	without := func(ports ...uint16) *ruleset.Table {
		table := epochTable(ports...)
		table.Chains = slices.DeleteFunc(table.Chains, func(c *ruleset.Chain) bool { return c.Name == "out" })
		return table
	}
	require.NoError(t, a.Apply(bg, epochTable(1)))
	for _, table := range []*ruleset.Table{without(1), epochTable(1, 2), without(2), epochTable(2), without(1, 2)} {
		handle := epochHandle(t, ns)
		require.NoError(t, a.Apply(bg, table))
		require.NotEqual(t, handle, epochHandle(t, ns))
		requireLists(t, ns, table)
		require.NoError(t, a.Verify(bg))
	}
	require.EqualValues(t, 1+5, a.Stats().Readings, "one for the first Apply and one for each Verify")
	require.Zero(t, a.Stats().Repairs)
}

// epochTableWithNets is an epochTable with a chain that references an interval set of one prefix.
func epochTableWithNets(timed bool, bits int, ports ...uint16) *ruleset.Table {
	t := epochTable(ports...)
	t.Sets = append(t.Sets, &ruleset.Set{
		Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true, Timeouts: timed,
		Elements: []ruleset.Element{prefix(fmt.Sprintf("10.0.0.0/%d", bits))},
	})
	lookup := rule(isIPv4, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPDaddr}, Set: "nets"}, drop)
	t.Chains = append(t.Chains, base("other", ruleset.Forward, lookup))
	t.Normalize()
	return t
}

// Rules of the epoch's chains change together with an interval set: by shadows, or while chains
// drop. The table is then as desired.
func TestEpochRulesChangeWithIntervals(t *testing.T) {
	for _, timed := range []bool{false, true} { // sets with timeouts have no shadows
		for name, ports := range map[string][]uint16{
			"one replaced": {5, 6, 9}, "one moved": {6, 5, 7}, "one less": {5, 7}, "the same": {5, 6, 7},
			"one more first": {1, 5, 6, 7}, "one more last": {5, 6, 7, 8}, "two more": {1, 2, 5, 6, 7},
		} {
			t.Run(fmt.Sprintf("%s/timeouts=%v", name, timed), func(t *testing.T) {
				ns := nstest.New(t)
				a := openWith(t, ns, applier.Config{Shared: true, Epoch: epoch()})
				require.NoError(t, a.Apply(bg, epochTableWithNets(timed, 16, 5, 6, 7)))
				require.NoError(t, a.Apply(bg, epochTableWithNets(timed, 17, ports...)))
				requireLists(t, ns, epochTableWithNets(timed, 17, ports...))
				require.EqualValues(t, 1, a.Stats().Readings)
			})
		}
	}
}

// A change by shadows after another process has added a rule to a chain of the epoch begins no
// epoch. An epoch would replace rules of that chain, whose positions differ from the desired state.
func TestShadowsBesideForeignRuleBeginNoEpoch(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Shared: true, Epoch: epoch()})
	require.NoError(t, a.Apply(bg, epochTableWithNets(false, 16, 5, 6, 7)))
	nft(t, ns, "insert rule inet own in udp dport 1 counter")
	handle := epochHandle(t, ns)
	require.NoError(t, a.Apply(bg, epochTableWithNets(false, 17, 5, 6, 7)))
	require.Equal(t, handle, epochHandle(t, ns))
	requireLists(t, ns, epochTableWithNets(false, 17, 5, 6, 7))
}

// A change of one element of a set begins a new epoch, unlike a change of one element of a map. A
// packet may look twice into a set, as sender and as receiver.
func TestChangeOfOneElementOfSetBeginsEpoch(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Shared: true, Epoch: epoch()})
	table := epochTable(9)
	table.Sets = append(table.Sets, &ruleset.Set{Name: "hosts", Key: []ruleset.Type{ruleset.TypeIPv4}})
	table.Normalize()
	require.NoError(t, a.Apply(bg, table))
	now := time.Now().Add(time.Second)
	applier.SetClock(a, func() time.Time { return now })
	more := []ruleset.ElementDelta{{Set: "hosts", Add: []ruleset.Element{element(addr("192.0.2.1"))}}}
	for _, step := range []struct {
		delta  *ruleset.Delta
		begins bool
	}{{addToDrop("192.0.2.1"), false}, {&ruleset.Delta{Elements: more}, true}} {
		now = now.Add(time.Second)
		handle := epochHandle(t, ns)
		require.NoError(t, a.Update(bg, step.delta))
		require.Equal(t, step.begins, handle != epochHandle(t, ns))
	}
}
