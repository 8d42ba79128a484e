// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// nameGenerator makes names for temporary chains and sets.
type nameGenerator struct {
	last uint64 // the number in the last name
}

// unused returns a name that is not in the table and that this Applier never used.
func (n *nameGenerator) unused(view *ruleset.State, d *readback.Difference) string {
	for {
		n.last++
		name := fmt.Sprintf("shadow-%d", n.last)
		used := view.Chain(name) != nil || view.Set(name) != nil
		if !used && (d == nil || !slices.Contains(d.Foreign.Chains, name) && !slices.Contains(d.Foreign.Sets, name)) {
			return name
		}
	}
}
