// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/routes"
)

// reconciler keeps the desired objects in a routes.Keeper, and delays deletions until finish.
type reconciler struct {
	keeper *routes.Keeper
	// desired are the objects that the kernel is to have. unwanted are the objects that finish deletes.
	desired, unwanted objects
	// finished is set by the first call of finish. Before that, the kernel may have objects of an earlier process.
	finished bool
	// firstFailed is set if an object of the last applyFirst may be missing in the kernel.
	firstFailed bool
	// missing are the rules and blackhole routes that the kernel has refused, by identity. If they are not desired any
	// more, apply deletes them at once, without finish.
	missing map[any]bool
}

func newReconciler(keeper *routes.Keeper) reconciler {
	return reconciler{keeper: keeper, desired: objects{}, unwanted: objects{}}
}

// apply installs the desired objects, and leaves the deletion of unwanted ones to finish. It deletes a throw route
// at once, so that its packets are encrypted, unless the prefix around it is unwanted too. With resync, it reads all
// objects from the kernel and repairs those that differ.
func (r *reconciler) apply(ctx context.Context, desired objects, resync bool) error {
	set, removed := r.desired.changes(desired)
	r.keeper.Set(set...)
	for _, o := range set {
		delete(r.unwanted, identity(o))
	}
	for _, o := range removed {
		if r.missing[identity(o)] {
			r.keeper.Delete(o)
		} else {
			r.unwanted.add(o)
		}
	}
	unwantedPrefixes := r.unwantedPrefixes()
	for id, o := range r.unwanted {
		route, ok := o.(routes.Route)
		if ok && route.Type == routes.Throw && !hasShorterPrefix(unwantedPrefixes, route.Dst) {
			delete(r.unwanted, id)
			r.keeper.Delete(o)
		}
	}
	r.desired = desired
	if resync && r.finished {
		return r.record(r.keeper.Resync(ctx))
	}
	return r.install(ctx)
}

// applyFirst installs objects that must be in the kernel before everything else, and returns an error if one of them
// may be missing. The next call of apply must have them, too.
func (r *reconciler) applyFirst(ctx context.Context, first objects) error {
	set, _ := r.desired.changes(first)
	if len(set) == 0 && !r.firstFailed {
		return nil
	}
	r.keeper.Set(set...)
	for _, o := range set {
		r.desired.add(o)
		delete(r.unwanted, identity(o))
	}
	err := r.install(ctx)
	if r.firstFailed = first.fail(err); r.firstFailed {
		return err
	}
	return nil
}

// install installs the objects of the keeper, and after the first finish deletes all others.
func (r *reconciler) install(ctx context.Context) error {
	if !r.finished {
		return r.record(r.keeper.ApplyAdditions(ctx))
	}
	return r.record(r.keeper.Apply(ctx))
}

// record sets r.missing to the rules and blackhole routes in an error of the keeper, and returns the error.
func (r *reconciler) record(err error) error {
	r.missing = map[any]bool{}
	for _, fault := range objectErrors(err) {
		if isGuard(fault.Object) {
			r.missing[identity(fault.Object)] = true
		}
	}
	return err
}

// unwantedPrefixes returns the prefixes whose encryption finish ends.
func (r *reconciler) unwantedPrefixes() map[netip.Prefix]struct{} {
	prefixes := map[netip.Prefix]struct{}{}
	for _, o := range r.unwanted {
		if route, ok := o.(routes.Route); ok && route.Type == routes.Blackhole && route.Table != routes.DefaultTable {
			prefixes[route.Dst] = struct{}{}
		}
	}
	return prefixes
}

// finish deletes the unwanted objects, also those of an earlier process.
func (r *reconciler) finish(ctx context.Context) error {
	r.keeper.Delete(r.unwanted.values()...)
	clear(r.unwanted)
	r.finished = true
	return r.record(r.keeper.Apply(ctx))
}

// forget clears the desired state.
func (r *reconciler) forget() { *r = newReconciler(r.keeper) }
