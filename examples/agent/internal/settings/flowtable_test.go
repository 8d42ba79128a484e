// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

// The datastore can enable the fast path. Settings that exclude it are refused.
func TestFlowtable(t *testing.T) {
	e, err := settings.Resolve(settings.Layer{Source: "test", Values: map[string]string{
		"flowtable": "true", "flowtable-uplinks": "eth0,eth1",
	}})
	require.NoError(t, err)
	require.True(t, e.Flowtable)
	require.Equal(t, []string{"eth0", "eth1"}, e.Uplinks())
	for want, values := range map[string]map[string]string{
		"flowtable: cannot be combined with bridges":         {"flowtable": "true", "bridges": "br0"},
		"flowtable-uplinks: has no effect without flowtable": {"flowtable-uplinks": "eth0"},
		`flowtable-uplinks: "a/b" is not an interface name`:  {"flowtable": "true", "flowtable-uplinks": "eth0,a/b"},
		"flowtable: cannot be combined with wireguard: connections that began unencrypted would stay so": {
			"flowtable": "true", "wireguard": "true",
		},
	} {
		_, err := settings.Resolve(settings.Layer{Source: "test", Values: values})
		require.ErrorContains(t, err, "test: "+want)
	}
}
