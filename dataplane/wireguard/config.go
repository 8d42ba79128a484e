// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/wayleave/wayleave/policy"
)

// Defaults of Config.
const (
	// DefaultProtocol is the protocol number that marks the routes, rules and devices of a
	// Dataplane.
	DefaultProtocol = 236
	// DefaultTable is the number of the routing table of a Dataplane.
	DefaultTable = 22361
	// DefaultRulePriority is the default of Config.RulePriority.
	DefaultRulePriority = 99
	// MaxRulePriority is the maximum of Config.RulePriority. The Dataplane's rules have
	// RulePriority and the next two priorities. All three must come before priority 32766. There,
	// the kernel's own rule looks up table main, whose routes send packets unencrypted.
	MaxRulePriority = 32763
	// DefaultPort is the UDP port of the first device. The second device has the next port.
	DefaultPort = 51820
	// DefaultFilterTable is the nftables table of RequireEncryption and HostEncryption.
	DefaultFilterTable = "wayleave-wireguard"
	// DefaultDevice and DefaultSecondDevice are the names of the devices.
	DefaultDevice       = "wg.way"
	DefaultSecondDevice = "wg2.way"
	// DefaultRotationDelay is the default of Config.RotationDelay.
	DefaultRotationDelay = 10 * time.Minute
)

// Config configures a Dataplane. Node and Devices are required.
type Config struct {
	// Node is the name of this node's Node resource.
	Node string
	// NetNS is a file descriptor of the network namespace. It must stay open until Close. 0 means
	// the namespace of the process.
	NetNS int
	// Devices are one or two devices. All nodes must list them in the same order. The first devices
	// of all nodes are peers of each other, and so are the second devices.
	Devices []Device
	// MTU of the devices, in bytes. 0 means the MTU of the interface that has the node's address,
	// less 80 bytes.
	MTU uint32
	// Protocol is the number that marks the routes, rules and devices of the Dataplane. Nothing
	// else may use the number, not even a routes.Dataplane. 0 means DefaultProtocol.
	Protocol uint8
	// Table is the number of the routing table. Nothing else may use it. 0 means DefaultTable.
	Table uint32
	// RulePriority is the first of three consecutive priorities of policy routing rules. The rules
	// with the first priority are the exceptions (see the package comment). The rule with the
	// second priority looks up Table. A packet that matches an exception continues at the rule with
	// the third priority. RulePriority is at most MaxRulePriority. 0 means DefaultRulePriority.
	RulePriority uint32
	// HostEncryption means that packets between the nodes' own addresses are encrypted, too. If a
	// packet of this node must be encrypted but would leave unencrypted, the packet is dropped,
	// such as one of a socket that is bound to an interface. Set HostEncryption on all nodes: a
	// node without it sends unencrypted answers, which a node with HostEncryption and
	// RequireEncryption drops.
	HostEncryption bool
	// UnencryptedHosts are addresses of nodes, or virtual addresses. Packets from and to them are
	// never encrypted. List the following:
	//
	//   - With HostEncryption, the API servers. Otherwise, a node that has missed new keys of other
	//     nodes cannot reach the API servers to read the keys.
	//   - Without HostEncryption, addresses of this node that are not in its Node resource and that
	//     pods of other nodes use. If such an address is not listed, this node encrypts its
	//     answers, and the other node drops them.
	UnencryptedHosts []netip.Prefix
	// RequireEncryption means that an unencrypted packet is dropped if this node encrypts packets
	// to the source of that packet. This applies to packets whose destination is a workload or a
	// WireGuard device of this node. With HostEncryption, it also applies to packets whose
	// destination is an address of the node itself. Set RequireEncryption only when all nodes
	// encrypt.
	RequireEncryption bool
	// FilterTable is the nftables table of RequireEncryption and HostEncryption, of family inet.
	// Nothing else may use it. Empty means DefaultFilterTable.
	FilterTable string
	// KeyLifetime is the age of a key file at which its key is replaced. Set it only with two
	// Devices. 0 means that keys are never replaced.
	KeyLifetime time.Duration
	// RotationDelay is the minimum time from when the node's resource gets an announcement to the
	// next step of a rotation. All nodes should receive an announcement within this time.
	// RotationDelay is at least 180 s, the lifetime of a WireGuard session. 0 means
	// DefaultRotationDelay.
	RotationDelay time.Duration
	// Announce receives the keys that the caller must write to the node's Node resource. Apply and
	// Resync call Announce for the first time when all devices are configured. They call it again
	// if the keys change, or if the resource has other keys. Announce must not block or change the
	// list. If Announce is nil, the caller must write the result of Keys.
	Announce func([]policy.WireguardKey)
	// SysctlFile is a file for the former values of sysctls; see routes.KeeperConfig.SysctlFile.
	SysctlFile string
	// Logger logs warnings, rotations of keys, and repairs of FilterTable. Watch reports repairs of
	// routes, rules and sysctls as Drifts, which the Driver logs. Other repairs are not reported.
	// Nil means no logging.
	Logger *slog.Logger
}

// Device is a WireGuard device of this node.
type Device struct {
	// Name of the device. Empty means DefaultDevice or DefaultSecondDevice.
	Name string
	// Port is the UDP port. 0 means DefaultPort for the first device, DefaultPort+1 for the second.
	Port uint16
	// KeyFile is the path of the file with the private key, in the base64 form that wg reads. A
	// missing file is created with mode 0600 and a new key. The file must belong to the user of the
	// process or to root. Required.
	KeyFile string
}

func (c Config) withDefaults() Config {
	c.Protocol = cmp.Or(c.Protocol, DefaultProtocol)
	c.Table = cmp.Or(c.Table, DefaultTable)
	c.FilterTable = cmp.Or(c.FilterTable, DefaultFilterTable)
	c.RulePriority = cmp.Or(c.RulePriority, DefaultRulePriority)
	c.RotationDelay = cmp.Or(c.RotationDelay, DefaultRotationDelay)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Devices = slices.Clone(c.Devices)
	for i := range c.Devices {
		d := &c.Devices[i]
		d.Port = cmp.Or(d.Port, uint16(DefaultPort+i))
		d.Name = cmp.Or(d.Name, []string{DefaultDevice, DefaultSecondDevice}[min(i, 1)])
	}
	if c.Announce == nil {
		c.Announce = func([]policy.WireguardKey) {}
	}
	return c
}

// validate checks those fields that package routes does not check.
func (c Config) validate() error {
	var errs []error
	if c.Node == "" {
		errs = append(errs, errors.New("wireguard: Config.Node: required"))
	}
	if n := len(c.Devices); n == 0 || n > policy.MaxWireguardKeys {
		errs = append(errs, fmt.Errorf("wireguard: Config.Devices: want 1 to %d, not %d", policy.MaxWireguardKeys, n))
	}
	for i, d := range c.Devices {
		at := fmt.Sprintf("wireguard: Config.Devices[%d].", i)
		if d.KeyFile == "" {
			errs = append(errs, errors.New(at+"KeyFile: required"))
		}
		for _, other := range c.Devices[:i] {
			if d.Name == other.Name || d.Port == other.Port || d.KeyFile == other.KeyFile {
				errs = append(errs, fmt.Errorf("%sName, Port and KeyFile: must not be those of another device", at))
			}
		}
	}
	for i, p := range c.UnencryptedHosts {
		if !p.IsValid() {
			errs = append(errs, fmt.Errorf("wireguard: Config.UnencryptedHosts[%d]: not a prefix", i))
		}
	}
	if c.RulePriority > MaxRulePriority {
		errs = append(errs, fmt.Errorf("wireguard: Config.RulePriority: want at most %d, not %d", MaxRulePriority,
			c.RulePriority))
	}
	if c.KeyLifetime < 0 {
		errs = append(errs, errors.New("wireguard: Config.KeyLifetime: must not be negative"))
	}
	if c.RotationDelay < sessionLifetime {
		errs = append(errs, fmt.Errorf("wireguard: Config.RotationDelay: want at least %s, not %s", sessionLifetime,
			c.RotationDelay))
	}
	if c.KeyLifetime > 0 && len(c.Devices) < policy.MaxWireguardKeys {
		errs = append(errs, errors.New("wireguard: Config.KeyLifetime: needs two Devices"))
	}
	return errors.Join(errs...)
}
