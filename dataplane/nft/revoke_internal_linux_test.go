// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// recorder is a revoker that records the changes, and needs the whole table after three deltas.
type recorder struct {
	revoker
	deltas int
	whole  *ruleset.Table
}

func (r *recorder) Changed(_ *ruleset.Delta, whole *ruleset.Table) {
	r.deltas++
	if whole != nil {
		r.deltas, r.whole = 0, whole
	}
}

func (r *recorder) NeedsTable() bool { return r.deltas >= 3 }

// While programming fails, the whole table replaces many deltas.
func TestRevokerGetsTableAfterManyFailures(t *testing.T) {
	nfttest.EachForm(t, testRevokerGetsTableAfterManyFailures)
}

func testRevokerGetsTableAfterManyFailures(t *testing.T, classes render.ClassesConfig) {
	r, err := render.New(render.Config{Classes: classes})
	require.NoError(t, err)
	record := &recorder{}
	w := &writer{renderer: r, revoker: record, fastPath: &fastPath{deleted: true}}
	w.applier, err = applier.New(applier.Config{Name: "wayleave", NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, w.applier.Close()) }()
	failing, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 10 {
		r.Update(dataplane.Batch{Events: []dataplane.Event{
			nfttest.EndpointUpdate("open", "way3", nil, nil, fmt.Sprintf("fd00::1:%x", i)),
		}})
		require.Error(t, w.write(failing, r.Flush()))
		require.LessOrEqual(t, record.deltas, 3)
	}
	require.NotNil(t, record.whole)
	require.NotEmpty(t, record.whole.Chains)
}
