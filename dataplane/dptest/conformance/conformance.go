// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// Harness has the functions with which the conformance kit runs a dataplane and inspects the kernel
// objects that the dataplane has programmed. In this package, a kernel is the place for these
// objects, for example a network namespace. Each Harness has its own kernel. In each subtest, the
// kit calls these functions on the goroutine of the subtest. It also calls the methods of the
// dataplane there, except Watch.
type Harness struct {
	// Open returns a new dataplane that programs the harness's kernel. It may be called more than
	// once. The next dataplane then finds the objects of the previous one, as after a restart.
	// Required.
	Open func(t *testing.T) dataplane.Dataplane
	// Dump returns a list of the programmed objects. Two lists must be equal if and only if the
	// kernel handles packets in the same way. So leave out counters, handles and the like, and sort
	// objects that have no order in the kernel. Required.
	Dump func(t *testing.T) string
	// Interfaces are the names of three interfaces, which the kit gives to its endpoints. If the
	// backend needs interfaces that exist, create them before Open. The default is wl1, wl2 and
	// wl3.
	Interfaces [3]string
	// Damage deletes or changes an object that the dataplane has programmed, as an operator might.
	// Dump must show the difference, unless the dataplane is a Watcher that has repaired it
	// already. Optional.
	Damage func(t *testing.T)
	// Fault makes every Apply fail until the returned function is called. Optional.
	Fault func(t *testing.T) (heal func())
	// Spoil adds to the state one object that the dataplane cannot program, and returns the key of
	// this object. It must return the same key each time, and must not change the rest of the
	// state. Optional; see "Bad objects" in the package documentation.
	Spoil func(s dptest.State) policy.Key
	// Judge reports whether the dataplane lets a packet pass, after the batches that were applied.
	// The packet is the first of a connection, and the node forwards it. An error fails the test.
	// Optional, because a dataplane of routes does not evaluate policy; see "Verdicts" in the
	// package documentation.
	//
	// If From is set, the source is an address of that endpoint. If To is set, the destination is
	// an address of that endpoint. Other addresses belong neither to local endpoints nor to the
	// node. From and To are never equal.
	Judge func(p dptest.Packet) (allowed bool, err error)
	// Worlds is the number of random worlds in which the kit compares the results of Judge with
	// those of the reference. Their seeds are 0, 1 and so on. The default is 20.
	Worlds int
	// Foreign adds objects of another program to the kernel. The returned function fails the test
	// if any of these objects was changed or deleted. Optional.
	Foreign func(t *testing.T) (check func())
	// NoIPIP means that the kit applies no IP-in-IP tunnels, and no routes through such tunnels.
	// Set it if the kernel has no devices for such tunnels.
	NoIPIP bool
}

// Run checks that a dataplane keeps the contract of dataplane.Dataplane. It calls open at the start
// of each subtest, and in some subtests several times. Each call of open must make a new, empty
// place for the objects of the dataplane, such as a network namespace. Each call must return a
// harness for this place. With t.Cleanup, open must register a function that removes this place. If
// the harness lacks an optional function, Run skips the checks that need this function, and names
// them in the test's log.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	run(t, open, waitTimeout)
}

// run is Run with a limit for the time that a Watcher takes.
func run(t *testing.T, open func(t *testing.T) Harness, waitTimeout time.Duration) {
	k := kit{open: open, waitTimeout: waitTimeout}
	t.Run("nothing before in-sync", k.nothingBeforeInSync)
	t.Run("idempotent", k.idempotent)
	t.Run("path independence", k.pathIndependence)
	t.Run("removal", k.removal)
	t.Run("handover", k.handover)
	t.Run("restart", k.restart)
	t.Run("teardown", k.teardown)
	t.Run("resync", k.resync)
	t.Run("retry", k.retry)
	t.Run("plan", k.plan)
	t.Run("bad object", k.badObject)
	t.Run("foreign state", k.foreignState)
	t.Run("judge cases", k.judgeCases)
	t.Run("judge worlds", k.judgeWorlds)
	t.Run("watch", k.watch)
}

// kit has the data that the checks share.
type kit struct {
	open        func(t *testing.T) Harness
	waitTimeout time.Duration
}

// node has a harness, a dataplane on the harness's kernel, and the desired state of the dataplane.
type node struct {
	Harness
	dp    dataplane.Dataplane
	state dptest.State
	// watching is the Watch that runs, or nil.
	watching    *watching
	waitTimeout time.Duration
}

// start opens a dataplane on a new kernel.
func (k kit) start(t *testing.T) *node {
	n := &node{Harness: k.open(t), waitTimeout: k.waitTimeout}
	if n.Interfaces == ([3]string{}) {
		n.Interfaces = [3]string{"wl1", "wl2", "wl3"}
	}
	n.restart(t)
	return n
}

// lacks reports, and logs, that an optional part of the harness or the dataplane is missing.
func lacks(t *testing.T, there bool, part string) bool {
	t.Helper()
	if !there {
		t.Logf("not checked: there is no %s", part)
	}
	return !there
}

// restart opens a new dataplane on the same kernel. The desired state is empty again.
func (n *node) restart(t *testing.T) {
	n.dp, n.state = n.Open(t), dptest.NewState()
}

// reach applies the batch from the desired state to another one.
func (n *node) reach(t *testing.T, to dptest.State) dataplane.Batch {
	t.Helper()
	b := n.batchTo(to)
	require.NoError(t, n.apply(t, b), "apply:\n%s", b)
	return b
}

// batchTo replaces the desired state, and returns the batch from the old one to it.
func (n *node) batchTo(to dptest.State) dataplane.Batch {
	if n.NoIPIP {
		to = withoutIPIP(to)
	}
	b := dptest.Transition(n.state, to)
	n.state = to
	return b
}

// fresh returns the dump of a new kernel after a single batch, which leads to the state of world.
func (k kit) fresh(t *testing.T, world func([3]string) dptest.State) string {
	t.Helper()
	var dump string
	ok := t.Run("reference", func(t *testing.T) {
		n := k.start(t)
		n.reach(t, world(n.Interfaces))
		dump = n.Dump(t)
	})
	require.True(t, ok, "the reference run failed")
	return dump
}

// noWorld is emptyWorld for callers of fresh.
func noWorld([3]string) dptest.State { return emptyWorld() }
