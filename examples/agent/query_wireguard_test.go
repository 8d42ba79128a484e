// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
)

// The status has each key, why the keys are not announced, and why objects of an earlier run stay.
func TestWireguardTexts(t *testing.T) {
	require.Empty(t, wireguardTexts(nil))
	require.Equal(t, []string{"key one:51820", "key two:51821", "the keys cannot be announced: refused"},
		wireguardTexts(&api.Wireguard{Keys: []string{"one:51820", "two:51821"}, Error: "refused"}))
	require.Equal(t, []string{"the WireGuard objects of an earlier run stay for now: refused"},
		wireguardTexts(&api.Wireguard{RemovalError: "refused"}))
}
