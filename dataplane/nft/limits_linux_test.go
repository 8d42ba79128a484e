// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// A group that crosses its limit becomes chains, and lookups again, in the kernel too. The objects
// of the other way are deleted. The log reports the limit when it is near, and the chains once.
func TestGroupCrossesItsLimit(t *testing.T) {
	const bits = 6
	ns := nstest.New(t)
	var out bytes.Buffer
	d, err := nft.New(nft.Config{
		Renderer: render.Config{Classes: render.ClassesConfig{MaxPerGroup: 3 * (1<<bits - 2)}}, NetNS: ns.FD(),
		Logger: slog.New(slog.NewTextHandler(&out, nil)),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	events := nfttest.BitWorld(bits, func(int) uint16 { return 1000 })
	set := events[0].(*dataplane.IPSetUpdate)
	some := []dataplane.Member{set.Members[0]} // 10.0.0.1, which is in no other set
	apply := func(chains int, events ...dataplane.Event) {
		t.Helper()
		require.NoError(t, d.Apply(t.Context(), dataplane.Batch{Events: events}))
		require.Equal(t, chains, d.ClassStats().ChainGroups)
		nfttest.RequireLists(t, ns, d.Table())
		fresh := 0
		for _, c := range d.Table().Chains {
			if strings.HasPrefix(c.Name, "group-ingress/") {
				fresh++
			}
		}
		require.Equal(t, 1-chains, fresh)
	}
	apply(1, append(events, &dataplane.InSync{})...)
	for range 2 {
		apply(0, &dataplane.IPSetDelta{ID: set.ID, Removed: some})
		apply(1, &dataplane.IPSetDelta{ID: set.ID, Added: some})
	}
	require.Equal(t, 1, strings.Count(out.String(), "is over a limit"), out.String())
	require.Equal(t, 1, strings.Count(out.String(), "near its limit"), out.String())
	apply(0, &dataplane.IPSetDelta{ID: set.ID, Removed: set.Members})
	require.Equal(t, 1, strings.Count(out.String(), "lookups again"), out.String())
}
