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
	// desired are the objects that the kernel is to have. unwanted are the objects that finish deletes.
	desired, unwanted objects
	// finished is set by the first call of finish. Before that, the kernel may have objects of an earlier process.
	finished bool
}

func newKept(keeper *routes.Keeper) kept {
	return kept{keeper: keeper, desired: objects{}, unwanted: objects{}}
}

// apply installs the desired objects, and leaves the deletion of unwanted ones to finish. It deletes a throw route
// at once, so that its packets are encrypted, unless the prefix around it is unwanted too. With resync, it reads all
// objects from the kernel and repairs those that differ.
func (k *kept) apply(ctx context.Context, desired objects, resync bool) error {
	set, removed := k.desired.changes(desired)
	k.keeper.Set(set...)
	for _, o := range set {
		delete(k.unwanted, identity(o))
	}
	for _, o := range removed {
		k.unwanted.add(o)
	}
	unwanted := k.unwantedPrefixes()
	for id, o := range k.unwanted {
		if r, isRoute := o.(routes.Route); isRoute && r.Type == routes.Throw && !hasShorterPrefix(unwanted, r.Dst) {
			delete(k.unwanted, id)
			k.keeper.Delete(o)
		}
	}
	k.desired = desired
	switch {
	case !k.finished:
		return k.keeper.ApplyAdditions(ctx)
	case resync:
		return k.keeper.Resync(ctx)
	default:
		return k.keeper.Apply(ctx)
	}
}

// unwantedPrefixes returns the prefixes whose encryption finish ends.
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
	k.finished = true
	return k.keeper.Apply(ctx)
}

// forget clears the desired state.
func (k *kept) forget() { k.desired, k.unwanted, k.finished = objects{}, objects{}, false }
