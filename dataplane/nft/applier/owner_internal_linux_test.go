// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/kernel"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The kernels that docs/kernels.md names have table owners.
func TestOwnersByKernel(t *testing.T) {
	conn, err := nfnl.Dial(nfnl.Config{NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	for _, row := range []struct {
		flags        uint32
		major, minor int
	}{
		{encode.TableOwner, 5, 12},
		{owned, 6, 9},
	} {
		has, err := canOwn(conn, ruleset.FamilyINet, row.flags)
		require.NoError(t, err)
		require.Equal(t, !kernel.OlderThan(row.major, row.minor, 0), has, "since %d.%d", row.major, row.minor)
	}
}
