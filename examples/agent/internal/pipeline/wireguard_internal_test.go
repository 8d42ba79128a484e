// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/wireguard"
)

// WireGuard objects have their own protocol number, and their own file of sysctls.
func TestWireguardConfig(t *testing.T) {
	require.Equal(t, uint8(wireguard.DefaultProtocol), Config{}.wireguardProtocol())
	require.Equal(t, uint8(wireguard.DefaultProtocol), Config{RouteProtocol: 219}.wireguardProtocol())

	logger := slog.New(slog.DiscardHandler)
	cfg := Config{
		Node: "n", NetNS: 7, Table: "t", RouteProtocol: 77, SysctlFile: "/run/s", Logger: logger,
		Wireguard: &wireguard.Config{MTU: 1400},
	}.wireguard()
	require.Equal(t, wireguard.Config{
		Node: "n", NetNS: 7, Protocol: 77 ^ 0x37, FilterTable: "t-wireguard", SysctlFile: "/run/s.wireguard",
		Logger: logger, MTU: 1400,
	}, cfg)
	require.Empty(t, Config{}.wireguardSysctlFile())
}

// Without keys of this node, the graph sends unreachable routes only with WireGuard.
func TestGraphConfig(t *testing.T) {
	require.Equal(t, calcgraph.Config{Node: "n"}, Config{Node: "n"}.graph())
	require.True(t, Config{Wireguard: &wireguard.Config{}}.graph().UnreachableRoutes)
}

// A Pipeline with Config.Wireguard has a third dataplane, and closes it.
func TestPipelineWithWireguard(t *testing.T) {
	p, err := New(Config{Manifests: t.TempDir(), Node: "n", Wireguard: &wireguard.Config{
		Devices: []wireguard.Device{{KeyFile: t.TempDir() + "/first.key"}},
	}})
	require.NoError(t, err)
	require.Len(t, p.dataplanes(), 3)
	require.NoError(t, p.close())
	_, err = New(Config{Manifests: t.TempDir(), Node: "n", Wireguard: &wireguard.Config{}})
	require.ErrorContains(t, err, "wireguard: Config.Devices")
}
