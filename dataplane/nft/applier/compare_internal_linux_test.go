// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// If the model cannot express the kernel's table, the tables differ, and the reported change is the
// whole table.
func TestChangesOfUnknownForm(t *testing.T) {
	table := &ruleset.Table{Family: ruleset.FamilyINet, Name: "own"}
	want, err := ruleset.StateOf(table)
	require.NoError(t, err)
	d := &readback.Difference{Inverse: ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "none"}}}}
	_, err = kernelState(want, d)
	require.ErrorIs(t, err, errForm)
	text, err := changes(table, want, d)
	require.NoError(t, err)
	require.Equal(t, table.String(), text)
}
