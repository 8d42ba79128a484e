// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

// A route protocol is refused if it, or the number of WireGuard objects that follows from it,
// belongs to another program: the agent would remove this program's routes.
func TestProtocolsOfOtherPrograms(t *testing.T) {
	taken := []int{8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 42, 84, 99}
	for frr := 186; frr <= 198; frr++ {
		taken = append(taken, frr)
	}
	for protocol := 5; protocol <= 255; protocol++ {
		second := int(settings.WireguardProtocol(uint8(protocol)))
		require.NotEqual(t, protocol, second)
		require.GreaterOrEqual(t, second, 5)
		_, err := settings.Resolve(settings.Layer{Values: map[string]string{
			"node": "n", "route-protocol": fmt.Sprint(protocol),
		}})
		if slices.Contains(taken, protocol) || slices.Contains(taken, second) {
			require.ErrorContains(t, err, "route-protocol", "%d, %d", protocol, second)
		} else {
			require.NoError(t, err, "%d, %d", protocol, second)
		}
	}
	for protocol, want := range map[string]string{
		"186": `186 is the number of "bgp", whose routes the agent would remove: give another number`,
		"59": `with 59, the agent also uses 12 for WireGuard, the number of "bird", ` +
			"whose routes it would remove: give another number",
	} {
		_, err := settings.ResolveKeys([]settings.Layer{{Values: map[string]string{"route-protocol": protocol}}},
			"route-protocol")
		require.ErrorContains(t, err, want)
	}
}
