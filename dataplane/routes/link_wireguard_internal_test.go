// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// A device of another kind, or one that was deleted since it was listed, cannot be altered, so it
// is recreated.
func TestWireguardOfAnotherKindIsRecreated(t *testing.T) {
	w := Wireguard{Name: "wg.way"}
	for _, tt := range []struct {
		have netlink.Link
		can  bool
	}{
		{nil, false}, {&netlink.Dummy{}, false}, {&netlink.Wireguard{}, true},
	} {
		steps, can := w.alter(nil, tt.have, nil)
		require.Empty(t, steps)
		require.Equal(t, tt.can, can)
	}
}
