// SPDX-License-Identifier: Apache-2.0

package owners

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// backend is the name of the backend in errors.
const backend = "nft"

// Kernel carries out the steps of a handover.
type Kernel interface {
	// Program writes the desired state to the kernel. It programs the withheld endpoints as if they
	// were down. Program also returns whether the kernel has the desired state, except for objects
	// that it refused.
	Program(ctx context.Context, withheld []policy.Key) (errs []error, done bool)
	// End ends all current connections in the selection, and returns their number.
	End(ctx context.Context, selected Connections) (int, error)
	// WaitGrace waits for a grace period.
	WaitGrace()
}

// Connections selects connections by their addresses.
type Connections struct {
	// Hosts lists addresses. Each of them selects the connections in which it is the source before
	// source NAT, or the destination after destination NAT.
	Hosts []netip.Addr
	// Floating lists addresses that are or were floating addresses. Each of them selects the same
	// connections as if it were in Hosts. It also selects the connections in which it is the
	// destination before destination NAT, or the source after source NAT.
	Floating []netip.Addr
	// Sources may be nil. Otherwise, each address for which it returns true selects the same
	// connections as if it were in Hosts.
	Sources func(netip.Addr) bool
}

// Handover programs the desired state by Kernel.Program, and ends the connections of addresses and
// prefixes that have moved. Until these connections are ended, Handover programs the new owners as
// if they were down. It also returns whether the kernel has the desired state, except for objects
// that the kernel refused.
//
// Errors: those of Program, and the context's. If the connections of an address or prefix cannot be
// ended, there is a *dataplane.ApplyError with the key of the new owner. If there is no new owner,
// the error has the key of the former one. The next call tries again.
func (o *Tracker) Handover(ctx context.Context, k Kernel) (errs []error, done bool) {
	h := handover{o, k}
	all, gained, taken := o.moves()
	newOwners := o.newOwnersOf(gained)
	moved := gained
	ended, failures := 0, []error(nil)
	if !taken {
		ended, failures = h.endConnections(ctx, moved)
	}
	if taken || ended > 0 {
		if errs, done = k.Program(ctx, newOwners); !done {
			return errs, false
		}
		k.WaitGrace()
		moved = all
		_, failures = h.endConnections(ctx, moved)
	}
	if len(failures) == 0 {
		o.ended(moved)
		newOwners = nil
	}
	if errs, done = k.Program(ctx, newOwners); !done {
		return append(errs, failures...), false
	}
	if len(failures) == 0 {
		rest, _, _ := o.moves()
		if !rest.empty() { // a packet under way may still create a connection
			k.WaitGrace()
		}
		if _, failures = h.endConnections(ctx, rest); len(failures) == 0 {
			o.ended(rest)
			o.admitted()
		}
	}
	return append(errs, failures...), true
}

// handover ends connections for a Tracker.
type handover struct {
	tracker *Tracker
	kernel  Kernel
}

// endConnections ends the connections of moved addresses and prefixes. If it has ended any, it
// waits for a grace period and ends connections again. The reason is that a packet under way may
// still belong to an ended connection, or create a new one.
func (h handover) endConnections(ctx context.Context, moved moves) (ended int, errs []error) {
	if moved.empty() {
		return 0, nil
	}
	selected := h.connectionsOf(moved)
	ended, err := h.kernel.End(ctx, selected)
	if err == nil && ended > 0 {
		h.kernel.WaitGrace()
		_, err = h.kernel.End(ctx, selected)
	}
	if err == nil {
		return ended, nil
	}
	if ctx.Err() != nil {
		return 0, []error{ctx.Err()}
	}
	report := func(of fmt.Stringer, keys []policy.Key, former []owner) {
		if len(keys) == 0 {
			keys = []policy.Key{former[0].key}
		}
		for _, key := range keys {
			op := fmt.Sprintf("end earlier connections of %s", of)
			errs = append(errs, &dataplane.ApplyError{Backend: backend, Op: op, Object: key, Err: err})
		}
	}
	for _, a := range moved.addresses {
		report(a, h.tracker.newOwnersOf(moves{addresses: []netip.Addr{a}}), h.tracker.moved[a].former)
	}
	for _, p := range moved.prefixes {
		report(p, h.tracker.gainers(p), h.tracker.lost[p].former)
	}
	return 0, errs
}

// connectionsOf selects the connections of moved addresses and prefixes.
func (h handover) connectionsOf(moved moves) (selected Connections) {
	for _, a := range moved.addresses {
		if h.tracker.moved[a].floating {
			selected.Floating = append(selected.Floating, a)
		} else {
			selected.Hosts = append(selected.Hosts, a)
		}
	}
	if len(moved.prefixes) > 0 {
		selected.Sources = h.tracker.sourceSelector(moved.prefixes)
	}
	return selected
}
