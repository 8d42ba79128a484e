// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// A table that another process flushes repeatedly is repaired each time, and the first five repairs
// are in the log as warnings.
func TestRepeatedRepairsDoNotFillTheLog(t *testing.T) {
	const times = 12
	ns := nstest.New(t)
	var log bytes.Buffer
	a, err := applier.New(applier.Config{
		Name: tableName, NetNS: ns.FD(), Shared: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	require.NoError(t, a.Apply(bg, tenBy(10, rule(drop))))
	want := nft(t, ns, "", "list", "table", "inet", tableName)
	for range times {
		nft(t, ns, "", "flush", "ruleset")
		require.NoError(t, a.Resync(bg))
		require.Equal(t, want, nft(t, ns, "", "list", "table", "inet", tableName))
	}
	require.EqualValues(t, times, a.Stats().Repairs)
	require.Equal(t, 5, strings.Count(log.String(), `level=WARN msg="repaired nftables table"`), log.String())
}
