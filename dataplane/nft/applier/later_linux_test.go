// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// replaceLate returns a change that adds one element and deletes another one late.
func replaceLate(added, deleted string) *ruleset.Delta {
	d := addToDrop(added)
	d.Elements[0].Late = toDrop(deleted)
	return d
}

// unfinished makes a table whose last change left the element 192.0.2.1 to Finish. The grace period
// lasts until end is closed.
func unfinished(t *testing.T, ns *netns.NS, a *applier.Applier) (end chan struct{}) {
	t.Helper()
	table := epochTable(9)
	table.Sets[1].Elements = toDrop("192.0.2.1")
	require.NoError(t, a.Apply(bg, table))
	end = make(chan struct{})
	applier.SetSynchronize(a, func() error {
		<-end
		return nil
	})
	require.NoError(t, a.UpdateVisible(bg, replaceLate("192.0.2.3", "192.0.2.1")))
	require.NotNil(t, a.Unfinished())
	text := listDropped(t, ns)
	require.Contains(t, text, "192.0.2.1")
	require.Contains(t, text, "192.0.2.3")
	return end
}

func listDropped(t *testing.T, ns *netns.NS) string {
	t.Helper()
	return nft(t, ns, "", "list", "map", "inet", tableName, "m")
}

// finish calls Finish until nothing is unfinished.
func finish(t *testing.T, a *applier.Applier) {
	t.Helper()
	for a.Unfinished() != nil {
		require.NoError(t, a.Finish(bg))
	}
}

// TestFinish: Finish deletes what UpdateVisible left, once the grace period is over.
func TestFinish(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	end := unfinished(t, ns, a)
	ctx, cancel := context.WithCancel(bg)
	cancel()
	require.ErrorIs(t, a.Finish(ctx), context.Canceled)
	require.Contains(t, listDropped(t, ns), "192.0.2.1")
	close(end)
	<-a.Unfinished()
	require.NoError(t, a.Finish(bg))
	require.Nil(t, a.Unfinished())
	require.NotContains(t, listDropped(t, ns), "192.0.2.1")
	readings := a.Stats().Readings
	require.NoError(t, a.Verify(bg))
	require.Equal(t, readings+1, a.Stats().Readings)
	require.Zero(t, a.Stats().Repairs)
}

// TestUnfinishedIsAddedAgain: a change that adds an element that is still to be deleted waits for
// the grace period. One that adds another does not.
func TestUnfinishedIsAddedAgain(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	end := unfinished(t, ns, a)
	require.NoError(t, a.UpdateVisible(bg, addToDrop("192.0.2.4")))
	require.Contains(t, listDropped(t, ns), "192.0.2.1", "still there")
	require.NotNil(t, a.Unfinished())
	close(end)
	require.NoError(t, a.UpdateVisible(bg, replaceLate("192.0.2.1", "192.0.2.3")))
	require.NoError(t, a.Finish(bg))
	text := listDropped(t, ns)
	require.Contains(t, text, "192.0.2.1")
	require.NotContains(t, text, "192.0.2.3")
	require.EqualValues(t, 1, a.Stats().Readings, "the kernel refused nothing")
}

// TestCloseFinishes: Close deletes everything that is unfinished, so the next process writes
// nothing.
func TestCloseFinishes(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	close(unfinished(t, ns, a))
	require.NoError(t, a.Close())
	require.NotContains(t, listDropped(t, ns), "192.0.2.1")
}

// TestFinishIsRefused: if the kernel refuses the deletion, the next call repairs the table.
func TestFinishIsRefused(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true})
	close(unfinished(t, ns, a))
	f.refuse = func([]byte) unix.Errno { return unix.EBUSY }
	var failed *applier.Error
	require.ErrorAs(t, a.Finish(bg), &failed)
	require.Nil(t, a.Unfinished())
	f.refuse = nil
	require.NoError(t, a.Resync(bg))
	text := listDropped(t, ns)
	require.NotContains(t, text, "192.0.2.1")
	require.Contains(t, text, "192.0.2.3")
}

// If a change leads packets to an element that waits for its deletion, it waits for the grace
// period.
func TestChangeWaitsForUnfinishedElement(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	class := func(n uint32) []ruleset.Value { return []ruleset.Value{ruleset.Uint32(n)} }
	outcome := func(n uint32) ruleset.Element { return to(ruleset.Accept, "", class(n)...) }
	of := func(address string, n uint32) ruleset.Element {
		return ruleset.Element{Key: []ruleset.Value{addr(address)}, Data: class(n)}
	}
	mark := []ruleset.Type{ruleset.TypeMark}
	table := epochTable(9)
	table.Sets = append(table.Sets,
		&ruleset.Set{Name: "classes", Key: []ruleset.Type{ruleset.TypeIPv4}, Data: mark},
		&ruleset.Set{
			Name: "outcomes", Key: mark, Verdicts: true, Elements: []ruleset.Element{outcome(1), outcome(2)},
		},
	)
	require.NoError(t, a.Apply(bg, table))
	require.NoError(t, a.UpdateVisible(bg, &ruleset.Delta{Elements: []ruleset.ElementDelta{
		{Set: "classes", Add: []ruleset.Element{of("192.0.2.2", 2)}},
		{Set: "outcomes", Late: []ruleset.Element{outcome(1)}},
	}}))
	classes := func(address string, n uint32) {
		t.Helper()
		require.NoError(t, a.UpdateVisible(bg, &ruleset.Delta{Elements: []ruleset.ElementDelta{
			{Set: "classes", Add: []ruleset.Element{of(address, n)}},
		}}))
	}
	classes("192.0.2.3", 2)
	require.NotNil(t, a.Unfinished(), "no packet uses the unfinished element")
	classes("192.0.2.1", 1)
	require.Nil(t, a.Unfinished())
	require.NotContains(t, nft(t, ns, "", "list", "map", "inet", tableName, "outcomes"), "0x00000001")
	require.EqualValues(t, 1, a.Stats().Readings, "the kernel refused nothing")
}

// TestBaseChainIsNotUnfinished: a base chain sees packets as long as it exists, so UpdateVisible
// deletes it. The next epoch begins without it.
func TestBaseChainIsNotUnfinished(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Epoch: epoch()})
	table := epochTable(9)
	table.Sets[1].Elements = toDrop("192.0.2.1")
	require.NoError(t, a.Apply(bg, table))
	d := replaceLate("192.0.2.3", "192.0.2.1")
	d.DeleteChains = []string{"out"}
	require.NoError(t, a.UpdateVisible(bg, d))
	require.NotContains(t, listing(t, ns), "chain out")
	require.NoError(t, a.UpdateVisible(bg, addToDrop("192.0.2.4", "192.0.2.5")))
	require.EqualValues(t, 1, a.Stats().Readings, "the kernel refused nothing")
}

// TestUnfinishedLeadsToChain: if an element that is still to be deleted leads to a chain, the chain
// waits for Finish too. So do the sets that only the chain references.
func TestUnfinishedLeadsToChain(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	table := epochTable(9)
	v := ruleset.Verdict{Kind: ruleset.Goto, Chain: "c"}
	leads := []ruleset.Element{{Key: []ruleset.Value{addr("192.0.2.1")}, Verdict: &v}}
	table.Sets[1].Elements = leads
	table.Sets = append(table.Sets, &ruleset.Set{Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}})
	c := chain("c", rule(ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr}, Set: "s"}, drop))
	table.Chains = append(table.Chains, c)
	require.NoError(t, a.Apply(bg, table))
	require.NoError(t, a.UpdateVisible(bg, &ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "m", Late: leads}}}))
	require.NotNil(t, a.Unfinished())
	require.NoError(t, a.UpdateVisible(bg, &ruleset.Delta{DeleteChains: []string{"c"}, DeleteSets: []string{"s"}}))
	finish(t, a)
	require.EqualValues(t, 1, a.Stats().Readings, "the kernel refused nothing")
	require.NotContains(t, listing(t, ns), "chain c {")
	require.NoError(t, a.Verify(bg))
	require.Zero(t, a.Stats().Repairs)
}

// TestUnfinishedInterval: the kernel refuses an interval that overlaps one that is still to be
// deleted.
func TestUnfinishedInterval(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	table := epochTable(9)
	table.Sets = append(table.Sets, &ruleset.Set{
		Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true,
		Elements: []ruleset.Element{prefix("192.0.2.0/24")},
	})
	require.NoError(t, a.Apply(bg, table))
	require.NoError(t, a.UpdateVisible(bg, &ruleset.Delta{Elements: []ruleset.ElementDelta{
		{Set: "s", Late: []ruleset.Element{prefix("192.0.2.0/24")}},
	}}))
	require.NotNil(t, a.Unfinished())
	require.NoError(t, a.UpdateVisible(bg, &ruleset.Delta{Elements: []ruleset.ElementDelta{
		{Set: "s", Add: []ruleset.Element{prefix("192.0.2.0/25")}},
	}}))
	require.NoError(t, a.Finish(bg))
	require.EqualValues(t, 1, a.Stats().Readings, "the kernel refused nothing")
	require.Contains(t, listing(t, ns), "192.0.2.0/25")
}

// TestUnfinishedIsBounded: if very many elements are unfinished, UpdateVisible deletes them itself.
func TestUnfinishedIsBounded(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	table := epochTable(9)
	var all []string
	for i := range 20_100 {
		all = append(all, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String())
	}
	elements := toDrop(all...)
	table.Sets[1].Elements = elements
	require.NoError(t, a.Apply(bg, table))
	remove := func(late []ruleset.Element) {
		t.Helper()
		d := &ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "m", Late: late}}}
		require.NoError(t, a.UpdateVisible(bg, d))
	}
	remove(elements[:100])
	require.NotNil(t, a.Unfinished())
	remove(elements[100:])
	require.Nil(t, a.Unfinished())
	require.NotContains(t, listDropped(t, ns), "drop")
}

// Unused objects that wait for their deletion are not repaired, and Teardown leaves none.
func TestLeftoversAreNoDrift(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	close(unfinished(t, ns, a))
	require.NoError(t, a.Verify(bg))
	require.Nil(t, a.Unfinished())
	require.Zero(t, a.Stats().Repairs)
	require.NotContains(t, listDropped(t, ns), "192.0.2.1")
	require.NoError(t, a.UpdateVisible(bg, replaceLate("192.0.2.4", "192.0.2.3")))
	require.NotNil(t, a.Unfinished())
	require.NoError(t, a.Teardown(bg))
	require.Nil(t, a.Unfinished())
}

// dropTable is a table whose map m has n elements.
func dropTable(n int) (t *ruleset.Table, elements []ruleset.Element) {
	t, elements = epochTable(9), verdicts(n)
	t.Sets[1].Elements = elements
	return t, elements
}

// removeLate leaves elements of the map m to Finish.
func removeLate(t *testing.T, a *applier.Applier, late []ruleset.Element) {
	t.Helper()
	d := &ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "m", Late: late}}}
	require.NoError(t, a.UpdateVisible(bg, d))
}

// TestUnfinishedCostsNothing: a change allocates as much beside 10,000 waiting elements as beside
// 1,000.
func TestUnfinishedCostsNothing(t *testing.T) {
	a := open(t, nstest.New(t))
	table, elements := dropTable(10_100)
	require.NoError(t, a.Apply(bg, table))
	end := make(chan struct{})
	applier.SetSynchronize(a, func() error {
		<-end
		return nil
	})
	defer close(end)
	allocations := func(waiting int) float64 {
		n := len(elements) - (10_100 - waiting) // all but these are still in the map
		removeLate(t, a, elements[:n])
		elements = elements[n:]
		return testing.AllocsPerRun(20, func() {
			removeLate(t, a, elements[:1])
			elements = elements[1:]
		})
	}
	few := allocations(1000)
	require.Less(t, allocations(10_000), 2*few)
}

// heldGrace makes the grace periods of an Applier last until the test ends them.
type heldGrace struct {
	begun, end chan struct{}
	waiting    atomic.Int32
	several    atomic.Bool // waited at the same time
	release    func()      // ends all
}

func holdGrace(t *testing.T, a *applier.Applier) *heldGrace {
	t.Helper()
	g := &heldGrace{begun: make(chan struct{}, 100), end: make(chan struct{})}
	g.release = sync.OnceFunc(func() { close(g.end) })
	t.Cleanup(g.release)
	applier.SetSynchronize(a, func() error {
		if g.waiting.Add(1) > 1 {
			g.several.Store(true)
		}
		defer g.waiting.Add(-1)
		g.begun <- struct{}{}
		<-g.end
		return nil
	})
	return g
}

// TestUnfinishedWaitsOnce: one goroutine waits for grace periods, however many changes there are.
// All changes during one share the next.
func TestUnfinishedWaitsOnce(t *testing.T) {
	a := open(t, nstest.New(t))
	table, elements := dropTable(20)
	require.NoError(t, a.Apply(bg, table))
	g := holdGrace(t, a)
	removeLate(t, a, elements[:1])
	<-g.begun
	for i := range elements[1:] {
		removeLate(t, a, elements[1+i:2+i])
	}
	g.release()
	finish(t, a)
	require.NoError(t, a.Close())
	require.Len(t, g.begun, 1)
	require.False(t, g.several.Load())
}

// TestUnfinishedEndsDuringChanges: Unfinished is closed at the end of the first grace period, even
// if later changes left more elements. Finish deletes the elements that were left before this
// period, and the rest after the next one.
func TestUnfinishedEndsDuringChanges(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	table, _ := dropTable(0)
	elements := toDrop("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	table.Sets[1].Elements = elements
	require.NoError(t, a.Apply(bg, table))
	g := holdGrace(t, a)
	over := func() bool {
		select {
		case <-a.Unfinished():
			return true
		default:
			return false
		}
	}
	removeLate(t, a, elements[:1])
	<-g.begun
	removeLate(t, a, elements[1:2])
	g.end <- struct{}{}
	<-g.begun // the next grace period
	require.True(t, over())
	removeLate(t, a, elements[2:3])
	require.True(t, over())

	cancelled, cancel := context.WithCancel(bg)
	cancel()
	require.ErrorIs(t, a.Finish(cancelled), context.Canceled)
	require.NoError(t, a.Finish(bg))
	text := listDropped(t, ns)
	require.NotContains(t, text, "192.0.2.1")
	require.Contains(t, text, "192.0.2.2")
	require.Contains(t, text, "192.0.2.3")
	require.False(t, over(), "the rest needs the next one")

	removeLate(t, a, elements[3:4])
	g.release()
	require.NoError(t, a.UpdateVisible(bg, addToDrop("192.0.2.2")), "waits for the deletion first")
	require.Nil(t, a.Unfinished())
	text = listDropped(t, ns)
	require.Contains(t, text, "192.0.2.2")
	require.NotContains(t, text, "192.0.2.3")
	require.EqualValues(t, 1, a.Stats().Readings, "the kernel refused nothing")
}

// TestUnfinishedRulesAreBounded: the bound includes the rules of a deleted chain.
func TestUnfinishedRulesAreBounded(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	table, elements := dropTable(2)
	for _, name := range []string{"large1", "large2"} {
		table.Chains = append(table.Chains, chain(name, slices.Repeat([]ruleset.Rule{rule(drop)}, 10_000)...))
	}
	require.NoError(t, a.Apply(bg, table))
	remove := func(late []ruleset.Element, chain string) {
		t.Helper()
		require.NoError(t, a.UpdateVisible(bg, &ruleset.Delta{
			Elements: []ruleset.ElementDelta{{Set: "m", Late: late}}, DeleteChains: []string{chain},
		}))
	}
	remove(elements[:1], "large1")
	require.NotNil(t, a.Unfinished())
	remove(elements[1:], "large2")
	require.Nil(t, a.Unfinished())
	require.NotContains(t, listing(t, ns), "chain large")
}
