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
	// DefaultProtocol marks our routes, rules and devices, as routes.DefaultProtocol does.
	DefaultProtocol = 236
	// DefaultTable is the number of the routing table.
	DefaultTable = 22361
	// DefaultRulePriority is the default of Config.RulePriority.
	DefaultRulePriority = 99
	// MaxRulePriority is the maximum of Config.RulePriority. All three rules must precede the kernel's lookup in table
	// main, which has priority 32766 and finds unencrypted routes.
	MaxRulePriority = 32763
	// DefaultPort is the UDP port of the first device. The second device has the next port.
	DefaultPort = 51820
	// DefaultFilterTable is the nftables table of RequireEncryption.
	DefaultFilterTable = "wayleave-wireguard"
	// DefaultDevice and DefaultSecondDevice are the names of the devices.
	DefaultDevice       = "wg.way"
	DefaultSecondDevice = "wg2.way"
	// DefaultRotationDelay is the maximum time until all nodes have received an announcement.
	DefaultRotationDelay = 10 * time.Minute
)

// Config of a Dataplane. Node and Devices are required.
type Config struct {
	// Node is the name of this node's Node resource.
	Node string
	// NetNS is a file descriptor of the network namespace. It must stay open until Close. 0 means that of the process.
	NetNS int
	// Devices are one or two devices. All nodes must list them in the same order: the first devices of two nodes are
	// peers, and so are the second ones.
	Devices []Device
	// MTU of the devices, in bytes. 0 means that of the interface with the node's address, less 80 bytes.
	MTU uint32
	// Protocol is the number that marks the routes, rules and devices of the Dataplane. Nothing else may use it, a
	// routes.Dataplane included. 0 means DefaultProtocol.
	Protocol uint8
	// Table is the number of the routing table. Nothing else may use it. 0 means DefaultTable.
	Table uint32
	// RulePriority is the first of three consecutive priorities: of the exceptions, of the lookup in Table, and of
	// the target of the exceptions' goto. It is at most MaxRulePriority. 0 means DefaultRulePriority.
	RulePriority uint32
	// HostEncryption also encrypts between the nodes' own addresses. Set it on all nodes: a node without it answers
	// unencrypted, and a node with RequireEncryption drops such answers.
	HostEncryption bool
	// UnencryptedHosts are addresses of nodes, or virtual addresses: packets from and to them are never encrypted.
	// With HostEncryption, name the API servers: a node that has missed new keys of other nodes could not reach them
	// otherwise. Without it, name addresses of this node that are not in its Node resource and that pods of other
	// nodes use: otherwise its answers are encrypted, and the other node drops them.
	UnencryptedHosts []netip.Prefix
	// RequireEncryption drops unencrypted packets to this node's workloads and devices, and with HostEncryption to its
	// own addresses, if this node encrypts packets to their source. Set it once all nodes encrypt: until a node has
	// received the keys of another one, it sends unencrypted packets.
	RequireEncryption bool
	// FilterTable is the nftables table of RequireEncryption, of family inet. Nothing else may use it. Empty means
	// DefaultFilterTable.
	FilterTable string
	// KeyLifetime is the age of the key file at which a key is replaced. It needs two Devices. 0 means never.
	KeyLifetime time.Duration
	// RotationDelay is the maximum time until all nodes have received an announcement. It is at least 180 s, the
	// lifetime of a WireGuard session. 0 means DefaultRotationDelay.
	RotationDelay time.Duration
	// Announce receives the keys to write to the node's Node resource. Apply and Resync call it when the keys change,
	// or the resource has other keys, once all devices are configured. It must not block or change the list. If it is
	// nil, announce the result of Keys.
	Announce func([]policy.WireguardKey)
	// SysctlFile is as in routes.KeeperConfig.
	SysctlFile string
	// Logger logs warnings, rotations of keys and repairs. Nil discards.
	Logger *slog.Logger
}

// Device is a WireGuard device of this node.
type Device struct {
	// Name of the device. Empty means DefaultDevice or DefaultSecondDevice.
	Name string
	// Port is the UDP port. 0 means DefaultPort for the first device, DefaultPort+1 for the second.
	Port uint16
	// KeyFile is the path of the file with the private key, in base64 as wg reads it. If it does not exist, it is
	// created with mode 0600 and a new key. Required.
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

// validate checks what package routes does not check.
func (c Config) validate() error {
	var errs []error
	if c.Node == "" {
		errs = append(errs, errors.New("wireguard: Node: a name is required"))
	}
	if n := len(c.Devices); n == 0 || n > policy.MaxWireguardKeys {
		errs = append(errs, fmt.Errorf("wireguard: Devices: want 1 to %d, not %d", policy.MaxWireguardKeys, n))
	}
	for i, d := range c.Devices {
		at := fmt.Sprintf("wireguard: Devices[%d].", i)
		if d.KeyFile == "" {
			errs = append(errs, errors.New(at+"KeyFile: a path is required"))
		}
		for _, other := range c.Devices[:i] {
			if d.Name == other.Name || d.Port == other.Port || d.KeyFile == other.KeyFile {
				errs = append(errs, fmt.Errorf("%sName, Port and KeyFile must not be those of another device", at))
			}
		}
	}
	for i, p := range c.UnencryptedHosts {
		if !p.IsValid() {
			errs = append(errs, fmt.Errorf("wireguard: UnencryptedHosts[%d]: no prefix", i))
		}
	}
	if c.RulePriority > MaxRulePriority {
		errs = append(errs, fmt.Errorf("wireguard: RulePriority: want at most %d, not %d", MaxRulePriority,
			c.RulePriority))
	}
	if c.KeyLifetime < 0 {
		errs = append(errs, errors.New("wireguard: KeyLifetime must not be negative"))
	}
	if c.RotationDelay < sessionLifetime {
		errs = append(errs, fmt.Errorf("wireguard: RotationDelay: want at least %s, not %s", sessionLifetime,
			c.RotationDelay))
	}
	if c.KeyLifetime > 0 && len(c.Devices) < policy.MaxWireguardKeys {
		errs = append(errs, errors.New("wireguard: KeyLifetime: two Devices are required"))
	}
	return errors.Join(errs...)
}
