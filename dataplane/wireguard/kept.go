// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"

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

// apply brings the keeper's objects to the desired state, but leaves unwanted ones to finish. A route of type throw
// is removed at once: it leads to unencrypted routes. With again, everything is read and repaired.
func (k *kept) apply(ctx context.Context, to objects, again bool) error {
	set, gone := k.installed.changes(to)
	k.keeper.Set(set...)
	for _, o := range set {
		delete(k.unwanted, identity(o))
	}
	for _, o := range gone {
		if r, isRoute := o.(routes.Route); isRoute && r.Type == routes.Throw {
			k.keeper.Delete(o)
		} else {
			k.unwanted.add(o)
		}
	}
	k.installed = to
	if again && k.applied {
		return k.keeper.Resync(ctx)
	}
	k.applied = true
	return k.keeper.Apply(ctx)
}

// finish deletes the unwanted objects.
func (k *kept) finish(ctx context.Context) error {
	k.keeper.Delete(k.unwanted.values()...)
	clear(k.unwanted)
	return k.keeper.Apply(ctx)
}
