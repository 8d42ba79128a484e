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
	// desired are the objects that the kernel is to have. unwanted are the objects that finish
	// deletes.
	desired, unwanted objects
	// postponed are the throw routes that finish adds.
	postponed objects
	// finished is set by the first call of finish. Before, the kernel may have unwanted objects of
	// an earlier process.
	finished bool
	// missing has the rules and blackhole routes that the kernel has refused, by identity. When one
	// is not desired any more, apply deletes it at once and does not leave it to finish.
	missing map[any]bool
}

func newReconciler(keeper *routes.Keeper) reconciler {
	return reconciler{keeper: keeper, desired: objects{}, unwanted: objects{}}
}

// apply installs the desired objects, and leaves the deletion of unwanted ones to finish. An
// exception is an unwanted throw route: apply deletes it at once, so that packets to its prefix are
// encrypted. (If the wider encrypted prefix is unwanted as well, finish deletes both.) With resync,
// apply reads all objects from the kernel and repairs those that differ. It removes from desired
// the routes that it postpones.
func (r *reconciler) apply(ctx context.Context, desired objects, resync bool) error {
	r.postponeThrows(desired)
	set, removed := r.desired.changes(desired)
	r.keeper.Set(set...)
	for _, o := range set {
		delete(r.unwanted, identity(o))
	}
	for _, o := range removed {
		r.unwanted.add(o)
	}
	unwantedPrefixes := encryptedPrefixes(r.unwanted)
	for id, o := range r.unwanted {
		route, ok := asThrow(o)
		if r.missing[id] || ok && !hasShorterPrefix(unwantedPrefixes, route.Dst) {
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

// postponeThrows moves new throw routes from the desired objects to r.postponed, if packets to
// their prefix were encrypted until now. Later dataplanes may still have an unencrypted route to
// such a prefix. Before the first call of finish, it moves all new throw routes, because an earlier
// process may have encrypted any prefix.
func (r *reconciler) postponeThrows(desired objects) {
	r.postponed = objects{}
	encrypted := encryptedPrefixes(r.desired, r.unwanted)
	for id, o := range desired {
		route, ok := asThrow(o)
		if !ok {
			continue
		}
		_, had := asThrow(r.desired[id])
		_, has := asThrow(r.unwanted[id]) // the kernel still has the route
		if had || has {
			continue
		}
		_, same := encrypted[route.Dst]
		if !r.finished || same || hasShorterPrefix(encrypted, route.Dst) {
			r.postponed.add(o)
			delete(desired, id)
		}
	}
}

// omitNewExceptions removes from the desired objects the exception rules that this process has not
// set yet, except those for encrypted packets.
func (r *reconciler) omitNewExceptions(desired objects) {
	for id, o := range desired {
		if rule, ok := o.(routes.Rule); ok && rule.Goto != 0 && rule.UDPSourcePort == 0 && r.desired[id] == nil {
			delete(desired, id)
		}
	}
}

// asThrow reports whether an object is a throw route.
func asThrow(o routes.Object) (routes.Route, bool) {
	route, ok := o.(routes.Route)
	return route, ok && route.Type == routes.Throw
}

// applyFirst installs objects that must be in the kernel before all others, and returns an error if
// one of them may be missing. The desired objects of the next call of apply must contain them, too.
func (r *reconciler) applyFirst(ctx context.Context, first objects) error {
	set, _ := r.desired.changes(first)
	r.keeper.Set(set...)
	for _, o := range set {
		r.desired.add(o)
		delete(r.unwanted, identity(o))
	}
	if err := r.install(ctx); first.fail(err) {
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

// record sets r.missing to the rules and blackhole routes that an error of the keeper names, and
// returns the error. If the error concerns all objects, it does not change r.missing.
func (r *reconciler) record(err error) error {
	faults := objectErrors(err)
	if err != nil && len(faults) == 0 {
		return err
	}
	r.missing = map[any]bool{}
	for _, fault := range faults {
		if isGuard(fault.Object) {
			r.missing[identity(fault.Object)] = true
		}
	}
	return err
}

// encryptedPrefixes returns the prefixes that have a blackhole route in Config.Table: packets to
// them are encrypted, or dropped while that is not possible.
func encryptedPrefixes(all ...objects) map[netip.Prefix]struct{} {
	prefixes := map[netip.Prefix]struct{}{}
	for _, list := range all {
		for _, o := range list {
			route, ok := o.(routes.Route)
			if ok && route.Type == routes.Blackhole && route.Table != routes.DefaultTable {
				prefixes[route.Dst] = struct{}{}
			}
		}
	}
	return prefixes
}

// finish adds the postponed routes and deletes the unwanted objects, also those of an earlier
// process.
func (r *reconciler) finish(ctx context.Context) error {
	for id, o := range r.postponed {
		r.keeper.Set(o)
		r.desired.add(o)
		delete(r.unwanted, id) // the postponed route replaces it
	}
	clear(r.postponed)
	r.keeper.Delete(r.unwanted.values()...)
	clear(r.unwanted)
	r.finished = true
	return r.record(r.keeper.Apply(ctx))
}

// forget clears the desired state.
func (r *reconciler) forget() { *r = newReconciler(r.keeper) }
