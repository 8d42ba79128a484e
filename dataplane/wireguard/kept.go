// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/routes"
)

// kept are the objects of a keeper.
type kept struct {
	keeper *routes.Keeper
	// installed are the desired objects, and unwanted those that finish deletes.
	installed, unwanted objects
	// applied is set by the first call of the keeper.
	applied bool
}

func newKept(keeper *routes.Keeper) kept {
	return kept{keeper: keeper, installed: objects{}, unwanted: objects{}}
}

// apply brings the keeper's objects to the desired state, but leaves unwanted ones to finish, also those of an
// earlier process. A route of type throw is removed at once, because it leads to unencrypted routes, unless an unwanted
// prefix around it stays. With again, everything is read and repaired.
func (k *kept) apply(ctx context.Context, to objects, again bool) error {
	set, gone := k.installed.changes(to)
	k.keeper.Set(set...)
	for _, o := range set {
		delete(k.unwanted, identity(o))
	}
	for _, o := range gone {
		k.unwanted.add(o)
	}
	kept := k.unwantedPrefixes()
	for id, o := range k.unwanted {
		if r, isRoute := o.(routes.Route); isRoute && r.Type == routes.Throw && !inside(kept, r.Dst) {
			delete(k.unwanted, id)
			k.keeper.Delete(o)
		}
	}
	k.installed = to
	switch {
	case !k.applied:
		k.applied = true
		return k.keeper.Adopt(ctx)
	case again:
		return k.keeper.Resync(ctx)
	default:
		return k.keeper.Apply(ctx)
	}
}

// unwantedPrefixes returns those that were encrypted.
func (k *kept) unwantedPrefixes() map[netip.Prefix]struct{} {
	prefixes := map[netip.Prefix]struct{}{}
	for _, o := range k.unwanted {
		if r, isRoute := o.(routes.Route); isRoute && r.Type == routes.Blackhole {
			prefixes[r.Dst] = struct{}{}
		}
	}
	return prefixes
}

// finish deletes the unwanted objects, also those of an earlier process.
func (k *kept) finish(ctx context.Context) error {
	k.keeper.Delete(k.unwanted.values()...)
	clear(k.unwanted)
	return k.keeper.Apply(ctx)
}

// forget clears the desired state.
func (k *kept) forget() { k.installed, k.unwanted, k.applied = objects{}, objects{}, false }
