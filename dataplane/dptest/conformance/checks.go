// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
)

// early is the part of a world that a graph can send before it is in sync (S97).
func early(world dptest.State) dptest.State {
	s := world.Clone()
	s.InSync = false
	s.Endpoints = nil
	return s
}

func (k kit) nothingBeforeInSync(t *testing.T) {
	want := k.fresh(t, fullWorld)
	t.Run("early batches", func(t *testing.T) {
		n := k.start(t)
		before := n.Dump(t)
		full := fullWorld(n.Interfaces)
		n.reach(t, early(otherWorld(n.Interfaces)))
		n.reach(t, early(full))
		require.Equal(t, before, n.Dump(t), "a batch before in-sync changed the kernel")
		require.NoError(t, n.resync(t))
		require.Equal(t, before, n.Dump(t), "Resync before in-sync changed the kernel")
		n.reach(t, full)
		require.Equal(t, want, n.Dump(t), "the batches before in-sync were lost")
		require.NotEqual(t, before, want, "Dump does not show what is programmed")
	})
}

func (k kit) idempotent(t *testing.T) {
	n := k.start(t)
	first := n.reach(t, fullWorld(n.Interfaces))
	dump := n.Dump(t)
	again := func(what string, b dataplane.Batch) {
		require.NoError(t, n.apply(t, b), what)
		require.Equal(t, dump, n.Dump(t), what)
	}
	again("the same batch again", first)
	again("an empty batch", dataplane.Batch{})
	second := n.reach(t, otherWorld(n.Interfaces))
	dump = n.Dump(t)
	again("the same batch of changes again", second)
	again("an empty batch after changes", dataplane.Batch{})
	require.NoError(t, n.resync(t))
	require.Equal(t, dump, n.Dump(t), "Resync without damage")
}

// pathIndependence applies different batches that lead to one state (S100).
func (k kit) pathIndependence(t *testing.T) {
	want := k.fresh(t, fullWorld)
	for name, path := range map[string][]func([3]string) dptest.State{
		"from an empty world":   {noWorld, fullWorld},
		"from a small world":    {smallWorld, fullWorld},
		"from another world":    {otherWorld, fullWorld},
		"there and back":        {fullWorld, otherWorld, fullWorld},
		"remove all, add again": {fullWorld, noWorld, fullWorld},
		"through all others":    {smallWorld, otherWorld, noWorld, otherWorld, smallWorld, fullWorld},
	} {
		t.Run(name, func(t *testing.T) {
			n := k.start(t)
			for _, world := range path {
				n.reach(t, world(n.Interfaces))
			}
			require.Equal(t, want, n.Dump(t))
		})
	}
}

func (k kit) removal(t *testing.T) {
	want := k.fresh(t, noWorld)
	t.Run("everything", func(t *testing.T) {
		n := k.start(t)
		n.reach(t, fullWorld(n.Interfaces))
		n.reach(t, emptyWorld())
		require.Equal(t, want, n.Dump(t), "objects remain")
	})
}

// handover checks that an interface and addresses move from one endpoint to another in one batch:
// the removal comes first.
func (k kit) handover(t *testing.T) {
	for name, world := range map[string]func([3]string) dptest.State{
		"two endpoints swap":             swappedWorld,
		"new endpoints replace old ones": renamedWorld,
	} {
		t.Run(name, func(t *testing.T) {
			want, wantBack := k.fresh(t, world), k.fresh(t, fullWorld)
			n := k.start(t)
			n.reach(t, fullWorld(n.Interfaces))
			n.reach(t, world(n.Interfaces))
			require.Equal(t, want, n.Dump(t))
			n.reach(t, fullWorld(n.Interfaces))
			require.Equal(t, wantBack, n.Dump(t), "and back")
		})
	}
}

// restart checks that the next dataplane adopts, repairs or deletes the objects of the previous
// one.
func (k kit) restart(t *testing.T) {
	want := k.fresh(t, otherWorld)
	for name, left := range map[string]func([3]string) dptest.State{
		"same state":    otherWorld,
		"another state": fullWorld,
		"nothing":       noWorld,
	} {
		t.Run(name, func(t *testing.T) {
			n := k.start(t)
			n.reach(t, left(n.Interfaces))
			before := n.Dump(t)
			n.restart(t)
			require.Equal(t, before, n.Dump(t), "Open changed the kernel")
			other := otherWorld(n.Interfaces)
			n.reach(t, early(other))
			require.Equal(t, before, n.Dump(t), "a batch before in-sync changed the kernel")
			n.reach(t, other)
			require.Equal(t, want, n.Dump(t))
		})
	}
}

func (k kit) teardown(t *testing.T) {
	n := k.start(t)
	before := n.Dump(t)
	require.NoError(t, n.dp.Teardown(t.Context()), "Teardown without objects")
	require.Equal(t, before, n.Dump(t))
	n.reach(t, fullWorld(n.Interfaces))
	require.NoError(t, n.dp.Teardown(t.Context()))
	require.Equal(t, before, n.Dump(t), "objects remain")

	n.restart(t)
	n.reach(t, fullWorld(n.Interfaces))
	n.restart(t)
	require.NoError(t, n.dp.Teardown(t.Context()), "Teardown of objects of an earlier run")
	require.Equal(t, before, n.Dump(t), "objects of an earlier run remain")
}

func (k kit) resync(t *testing.T) {
	n := k.start(t)
	n.reach(t, fullWorld(n.Interfaces))
	dump := n.Dump(t)
	if lacks(t, n.Damage != nil, "Harness.Damage") {
		return
	}
	n.Damage(t)
	require.NotEqual(t, dump, n.Dump(t), "Dump does not show the damage")
	require.NoError(t, n.resync(t))
	require.Equal(t, dump, n.Dump(t), "Resync did not repair")
}

// retry checks that a failed Apply loses nothing.
func (k kit) retry(t *testing.T) {
	want := k.fresh(t, otherWorld)
	for name, next := range map[string]func(t *testing.T, n *node, second dataplane.Batch) error{
		"an empty batch": func(t *testing.T, n *node, _ dataplane.Batch) error {
			return n.apply(t, dataplane.Batch{})
		},
		"the same batch": func(t *testing.T, n *node, b dataplane.Batch) error { return n.apply(t, b) },
		"a resync":       func(t *testing.T, n *node, _ dataplane.Batch) error { return n.resync(t) },
	} {
		t.Run(name, func(t *testing.T) {
			n := k.start(t)
			if lacks(t, n.Fault != nil, "Harness.Fault") {
				return
			}
			heal := n.Fault(t)
			require.Error(t, n.apply(t, n.batchTo(fullWorld(n.Interfaces))), "Fault has no effect")
			second := n.batchTo(otherWorld(n.Interfaces))
			require.Error(t, n.apply(t, second), "Fault has no effect")
			heal()
			require.NoError(t, next(t, n, second))
			require.Equal(t, want, n.Dump(t))
		})
	}
}

// plan checks the method of a Planner.
func (k kit) plan(t *testing.T) {
	n := k.start(t)
	p, ok := n.dp.(dataplane.Planner)
	if lacks(t, ok, "dataplane.Planner") {
		return
	}
	before := n.Dump(t)
	b := n.batchTo(fullWorld(n.Interfaces))
	text, err := p.Plan(t.Context(), b)
	require.NoError(t, err)
	require.NotEmpty(t, text, "the plan for a new world")
	require.Equal(t, before, n.Dump(t), "Plan changed the kernel")
	require.NoError(t, n.apply(t, dataplane.Batch{}))
	require.Equal(t, before, n.Dump(t), "the dataplane is in sync after Plan alone")
	require.NoError(t, n.apply(t, b))
	done := n.Dump(t)
	text, err = p.Plan(t.Context(), dataplane.Batch{})
	require.NoError(t, err)
	require.Empty(t, text, "the plan after the batch")
	text, err = p.Plan(t.Context(), n.batchTo(otherWorld(n.Interfaces)))
	require.NoError(t, err)
	require.NotEmpty(t, text, "the plan for another world")
	require.NoError(t, n.apply(t, dataplane.Batch{}))
	require.Equal(t, done, n.Dump(t), "Plan changed the desired state")
}

// badObject checks that an object that cannot be programmed is the only one reported, and does not
// hold up the others. The programmed objects are the same, whether the others came before it, with
// it or after it.
func (k kit) badObject(t *testing.T) {
	n := k.start(t)
	if lacks(t, n.Spoil != nil, "Harness.Spoil") {
		return
	}
	full, other := fullWorld(n.Interfaces), otherWorld(n.Interfaces)
	spoilt, otherSpoilt := full.Clone(), other.Clone()
	bad := n.Spoil(spoilt)
	require.Equal(t, bad, n.Spoil(otherSpoilt), "Spoil returns different keys")
	requireReported := func(err error) {
		t.Helper()
		objects, general := dataplane.ApplyErrors(err)
		require.False(t, general, "the error is not about one object: %v", err)
		require.Len(t, objects, 1, "%v", err)
		require.Contains(t, objects, bad)
	}

	n.reach(t, full)
	clean := n.Dump(t)
	requireReported(n.apply(t, n.batchTo(spoilt)))
	want := n.Dump(t)
	requireReported(n.apply(t, dataplane.Batch{}))
	requireReported(n.resync(t))
	require.Equal(t, want, n.Dump(t), "after retries")

	with := k.start(t)
	requireReported(with.apply(t, with.batchTo(otherSpoilt)))
	requireReported(with.apply(t, with.batchTo(spoilt)))
	require.Equal(t, want, with.Dump(t), "other objects were not programmed")
	with.reach(t, full)
	require.Equal(t, clean, with.Dump(t), "parts of the bad object remain")
}

// foreignState checks that objects of another program stay unchanged.
func (k kit) foreignState(t *testing.T) {
	n := k.start(t)
	if lacks(t, n.Foreign != nil, "Harness.Foreign") {
		return
	}
	check := n.Foreign(t)
	check()
	before := n.Dump(t)
	for _, world := range []func([3]string) dptest.State{fullWorld, otherWorld, noWorld, fullWorld} {
		n.reach(t, world(n.Interfaces))
		check()
	}
	if n.Damage != nil {
		n.Damage(t)
	}
	require.NoError(t, n.resync(t))
	check()
	n.restart(t)
	n.reach(t, otherWorld(n.Interfaces))
	check()
	require.NoError(t, n.dp.Teardown(t.Context()))
	check()
	require.Equal(t, before, n.Dump(t), "objects remain")
}
