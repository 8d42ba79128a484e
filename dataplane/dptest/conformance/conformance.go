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

// Harness lets the conformance kit drive a dataplane and look at what it programmed. All functions,
// and all methods of the dataplane but Watch, are called on the goroutine of one subtest.
type Harness struct {
	// Open returns a new dataplane over the harness's kernel. It may be called more than
	// once: the next dataplane finds what the one before left, as after a restart. Required.
	Open func(t *testing.T) dataplane.Dataplane
	// Dump lists what is programmed, deterministically: equal if and only if the kernel handles
	// packets the same (without counters, handles and the like). Required.
	Dump func(t *testing.T) string
	// Interfaces are the names of three interfaces that the kit's endpoints have. If the backend
	// needs them to exist, they exist. Default wl1, wl2 and wl3.
	Interfaces [3]string
	// Damage takes away or changes something that the dataplane has programmed, as an operator
	// might. Dump must tell the difference, unless the dataplane is a Watcher that has repaired it
	// already. Optional.
	Damage func(t *testing.T)
	// Fault makes every Apply fail until the returned function is called. Optional.
	Fault func(t *testing.T) (heal func())
	// Spoil adds to the state one object that the dataplane cannot program, and returns its key, the
	// same each time. The rest of the state stays as it is. Optional; see the package documentation.
	Spoil func(s dptest.State) policy.Key
	// Judge returns whether the dataplane, after the batches applied so far, lets a packet pass. The
	// packet is the first of a connection, and the node forwards it. An error fails the test. Optional,
	// since a dataplane of routes has no policy to judge by; see the package documentation.
	//
	// The source of a packet with a From is an address of that endpoint, and its destination, with a
	// To, one of that. Other addresses are no local endpoint's and none of the node. From and To are
	// never the same.
	Judge func(p dptest.Packet) (allowed bool, err error)
	// Worlds is how many random worlds Judge is compared in, with the seeds from 0 on. Default 20.
	Worlds int
	// Foreign puts something of somebody else's beside what the dataplane programs. The returned
	// function fails the test if any of it has changed or gone. Optional.
	Foreign func(t *testing.T) (check func())
}

// Run checks that a dataplane keeps the contract of dataplane.Dataplane. It calls open at the start
// of each of its subtests for a harness over a fresh kernel; what open makes, open cleans up
// (t.Cleanup). Checks that need an optional function are left out without it; the test's log says
// which.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	run(t, open, patience)
}

// run is Run, with the time that a Watcher has.
func run(t *testing.T, open func(t *testing.T) Harness, patience time.Duration) {
	k := kit{open: open, patience: patience}
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

// kit holds what the checks share.
type kit struct {
	open     func(t *testing.T) Harness
	patience time.Duration
}

// node is one dataplane over one kernel, and the state that it was led to.
type node struct {
	Harness
	dp    dataplane.Dataplane
	state dptest.State
}

// start opens a dataplane over a fresh kernel.
func (k kit) start(t *testing.T) *node {
	n := &node{Harness: k.open(t)}
	if n.Interfaces == ([3]string{}) {
		n.Interfaces = [3]string{"wl1", "wl2", "wl3"}
	}
	n.restart(t)
	return n
}

// lacks reports, and logs, that a part of the harness or the dataplane is not there.
func lacks(t *testing.T, there bool, part string) bool {
	t.Helper()
	if !there {
		t.Logf("not checked: there is no %s", part)
	}
	return !there
}

// restart opens another dataplane over the same kernel, which knows nothing yet.
func (n *node) restart(t *testing.T) {
	n.dp, n.state = n.Open(t), dptest.NewState()
}

// lead applies the batch that leads to the state.
func (n *node) lead(t *testing.T, to dptest.State) dataplane.Batch {
	t.Helper()
	b := n.want(to)
	require.NoError(t, n.dp.Apply(t.Context(), b), "apply:\n%s", b)
	return b
}

// want moves the desired state and returns the batch that leads there.
func (n *node) want(to dptest.State) dataplane.Batch {
	b := dptest.Transition(n.state, to)
	n.state = to
	return b
}

// fresh returns the dump of a dataplane over a fresh kernel that was led straight to the state.
func (k kit) fresh(t *testing.T, world func([3]string) dptest.State) string {
	t.Helper()
	var dump string
	ok := t.Run("reference", func(t *testing.T) {
		n := k.start(t)
		n.lead(t, world(n.Interfaces))
		dump = n.Dump(t)
	})
	require.True(t, ok, "the reference run failed")
	return dump
}

// noWorld is emptyWorld for callers of fresh.
func noWorld([3]string) dptest.State { return emptyWorld() }
