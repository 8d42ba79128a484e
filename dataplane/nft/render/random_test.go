// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// FuzzRenderer compares the verdicts of the rendered table of a random state with those of the
// state itself. It also compares the table after steps with the table of a new Renderer.
func FuzzRenderer(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		w := nfttest.NewWorld(seed, 0)
		before, state := w.State(), w.State()
		for _, classes := range nfttest.Forms() {
			sc := scenario{
				Config:  render.Config{LogRate: -1, Classes: classes},
				Batches: []dataplane.Batch{nfttest.Transition(state)},
			}
			if seed%2 == 1 { // S171
				sc.Config.Bridges = nfttest.Bridges()
				sc.Ports = map[string]string{"way0": "br0", "way1": "br1"}
			}
			table, errs := sc.rendered(t)
			require.Empty(t, errs)
			sc.Batches = []dataplane.Batch{nfttest.Transition(before), dptest.Transition(before, state)}
			again, _ := sc.rendered(t)
			require.Equal(t, table.String(), again.String(), "S100: the table depends on earlier states")
			require.True(t, table.Equal(again))
			ready := newSimTable(t, table)
			for range 40 {
				p, sp := randomPacket(w)
				sp.IIF, sp.OIF = cmp.Or(sc.Ports[sp.IIF], sp.IIF), cmp.Or(sc.Ports[sp.OIF], sp.OIF)
				want := state.Judge(p)
				result := sp.Run(t, ready.after, ruleset.Forward)
				got, logs := result.Allowed, result.Logs
				require.Equal(
					t, want.Allowed(), got, "seed %d\npacket %+v\nverdict %+v\n%s\n%s", seed, p, want, state, table,
				)
				slices.Sort(logs)
				require.Len(
					t, slices.Compact(slices.Clone(logs)), len(logs), "S28: a rule logs a packet once: %v", logs,
				)
			}
		}
	})
}
