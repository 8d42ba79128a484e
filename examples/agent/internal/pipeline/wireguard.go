// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

// wireguardProtocol returns the protocol number of the WireGuard objects.
func (c Config) wireguardProtocol() uint8 {
	return settings.WireguardProtocol(cmp.Or(c.RouteProtocol, routes.DefaultProtocol))
}

// wireguardSysctlFile returns the path of the file with the former values of sysctls. It must
// differ from that of routes: see routes.KeeperConfig.SysctlFile.
func (c Config) wireguardSysctlFile() string {
	if c.SysctlFile == "" {
		return ""
	}
	return c.SysctlFile + ".wireguard"
}

// defaultTable is the default of Config.Table.
const defaultTable = "wayleave"

// wireguard returns the configuration of the dataplane of WireGuard.
func (c Config) wireguard() wireguard.Config {
	cfg := *c.Wireguard
	cfg.Node, cfg.NetNS, cfg.Logger = c.Node, c.NetNS, c.Logger
	cfg.Protocol, cfg.SysctlFile = c.wireguardProtocol(), c.wireguardSysctlFile()
	cfg.FilterTable = cmp.Or(c.Table, defaultTable) + "-wireguard"
	return cfg
}

// OpenWireguard returns a dataplane that is only for teardown. The dataplane can remove the
// WireGuard objects that Run programmed with this Config, in this process or in an earlier one. It
// can also plan this removal.
func OpenWireguard(cfg Config) (*wireguard.Dataplane, error) {
	cfg = cfg.withDefaults()
	cfg.Wireguard = &wireguard.Config{Devices: []wireguard.Device{
		{KeyFile: "first.key"}, {KeyFile: "second.key"}, // teardown does not read them
	}}
	cfg.Node = cmp.Or(cfg.Node, "none") // teardown does not use it
	return wireguard.New(cfg.wireguard())
}
