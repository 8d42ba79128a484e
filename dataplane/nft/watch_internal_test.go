// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
)

// Missed notifications and changes by the kernel are not reported as changes by another process.
func TestForeignDrift(t *testing.T) {
	require.Equal(t, dataplane.Drift{Backend: "nft", Object: "table inet t", Process: "nft (7)", Foreign: true},
		driftOf(applier.Drift{PID: 7, Process: "nft"}, "table inet t"))
	for _, drift := range []applier.Drift{{}, {Missed: true}, {Missed: true, Generation: 9}} {
		require.Equal(t, dataplane.Drift{Backend: "nft", Object: "table inet t"}, driftOf(drift, "table inet t"))
	}
}
