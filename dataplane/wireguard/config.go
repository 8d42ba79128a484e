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
	// DefaultTable is the routing table.
	DefaultTable = 22361
	// DefaultRulePriority is the priority of the first rules.
	DefaultRulePriority = 99
	// MaxRulePriority is the last one before the kernel's lookup in table main, which is 32766: that would find
	// unencrypted routes.
	MaxRulePriority = 32763
	// DefaultPort is the UDP port of the first device. That of the second is one more.
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
	// Node is the name of this node, as its Node resource has it.
	Node string
	// NetNS is the file descriptor of the network namespace to work in. It must stay open for
	// as long as the Dataplane is used. 0 means the program's own.
	NetNS int
	// Devices are one or two. All nodes must have them in the same order: the first devices of two nodes
	// are peers, and the second ones.
	Devices []Device
	// MTU of the devices, in bytes. 0 means that of the interface with the node's address, less 80 bytes.
	MTU uint32
	// Protocol number by which our routes, rules and devices are known, and used by nothing else: not by a
	// routes.Dataplane either. 0 means DefaultProtocol.
	Protocol uint8
	// Table is the routing table, which must be ours alone. 0 means DefaultTable.
	Table uint32
	// RulePriority is the first of three consecutive priorities: of the exceptions, of the lookup in Table, and of
	// the target of the exceptions' goto. It is at most MaxRulePriority. 0 means DefaultRulePriority.
	RulePriority uint32
	// HostEncryption also encrypts between the nodes' own addresses. Set it on all nodes: a node without it
	// answers unencrypted, and a node with RequireEncryption drops that.
	HostEncryption bool
	// UnencryptedHosts are addresses of nodes, or virtual ones: packets from and to them are never encrypted. With
	// HostEncryption, name the API servers: a node that does not receive the others' new keys could not reach them.
	// Without it, name addresses of this node that are not in its Node resource and that pods of other nodes use,
	// or its answers are encrypted, and dropped by the other node.
	UnencryptedHosts []netip.Prefix
	// RequireEncryption drops packets to this node's workloads and devices, and with HostEncryption to its own
	// addresses, that come unencrypted from a source that this node sends to encrypted. Set it once all nodes
	// encrypt: until a node has received the keys of another one, it sends unencrypted packets.
	RequireEncryption bool
	// FilterTable is the nftables table of RequireEncryption, of family inet. It must be ours alone. Empty means
	// DefaultFilterTable.
	FilterTable string
	// KeyLifetime is the age at which a key is replaced, if there are two Devices. 0 means never. The age
	// is that of the key file.
	KeyLifetime time.Duration
	// RotationDelay is the maximum time until all nodes have received an announcement. It is at least 180 s, the
	// lifetime of a session of WireGuard. 0 means DefaultRotationDelay.
	RotationDelay time.Duration
	// Announce receives the keys that the node's Node resource is to have, whenever they change, once the
	// devices work. It must not block, nor change the list. If nil, the caller must announce the result of Keys.
	Announce func([]policy.WireguardKey)
	// SysctlFile is as in routes.KeeperConfig.
	SysctlFile string
	// Logger for warnings and information. nil discards.
	Logger *slog.Logger
}

// Device is a WireGuard device of this node.
type Device struct {
	// Name of the device. Empty means DefaultDevice or DefaultSecondDevice.
	Name string
	// Port is the UDP port. 0 means DefaultPort for the first device, DefaultPort+1 for the second.
	Port uint16
	// KeyFile is the path of the file with the private key, in base64 as wg reads it. It is made, with mode
	// 0600, if it does not exist. Required.
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
