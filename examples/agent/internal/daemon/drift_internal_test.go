// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
)

// The text of a drift does not repeat the object. For a changed interface, it refers to the
// 'endpoint' events.
func TestDriftText(t *testing.T) {
	for want, drift := range map[string]dataplane.Drift{
		"changed by nft (4711)": {Backend: "nft", Object: "table inet wayleave", Process: "nft (4711)", Foreign: true},
		"changed": {
			Backend: "routes", Object: "route 10.0.0.1/32 dev way0", Foreign: true, Repaired: true,
		},
		"changed: an interface of an endpoint was added, removed or changed; see the 'endpoint' events": {
			Backend: "routes", Object: "set of objects at fault",
		},
	} {
		require.Equal(t, want, driftText(drift))
	}
}
