// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Rendered returns the table of some batches, and the errors of the renderer. The table must be
// valid.
func Rendered(t testing.TB, cfg render.Config, batches ...dataplane.Batch) (*ruleset.Table, []error) {
	r, err := render.New(cfg)
	require.NoError(t, err)
	for _, b := range batches {
		r.Update(b)
	}
	table, errs := r.Table()
	require.NoError(t, table.Validate())
	return table, errs
}

// Transition returns the batch that leads from the empty state to s.
func Transition(s dptest.State) dataplane.Batch { return dptest.Transition(dptest.NewState(), s) }

// InSync returns an empty state that is in sync.
func InSync() dptest.State {
	s := dptest.NewState()
	s.InSync = true
	return s
}
