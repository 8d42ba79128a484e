// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/wayleave/wayleave/dataplane/wireguard"
)

// noHosts is the value of WireguardUnencryptedHosts that means no address.
const noHosts = "none"

// minWireguardMTU is the minimum MTU of IPv6.
const minWireguardMTU = 1280

// minKeyLifetime is the minimum of WireguardKeyLifetime. It leaves enough time for a rotation, in
// which the node waits twice for wireguard.DefaultRotationDelay until other nodes have read an
// announcement.
const minKeyLifetime = time.Hour

// declareWireguard declares the flags of encryption.
func declareWireguard(flags *flag.FlagSet, s *Settings) {
	flags.BoolVar(&s.Wireguard, "wireguard", s.Wireguard,
		"encrypt traffic with other nodes that have keys, with WireGuard")
	flags.StringVar(&s.WireguardDir, "wireguard-dir", s.WireguardDir,
		"`DIR` that keeps the private keys of WireGuard, first.key and second.key, across restarts")
	flags.IntVar(&s.WireguardPort, "wireguard-port", s.WireguardPort,
		"UDP port `NUMBER` of the first WireGuard device; the second one has the next")
	flags.IntVar(&s.WireguardMTU, "wireguard-mtu", s.WireguardMTU,
		"MTU of the WireGuard devices in `BYTES`; 0 for that of the interface with the node's address, less 80")
	flags.DurationVar(&s.WireguardKeyLifetime, "wireguard-key-lifetime", s.WireguardKeyLifetime,
		"`TIME` after which the key of a WireGuard device is replaced, by a second device; 0 for never")
	flags.BoolVar(&s.WireguardHostEncryption, "wireguard-host-encryption", s.WireguardHostEncryption,
		"also encrypt packets between the nodes' own addresses; set it on all nodes")
	flags.StringVar(&s.WireguardUnencryptedHosts, "wireguard-unencrypted-hosts", s.WireguardUnencryptedHosts,
		"`ADDRESSES` or prefixes, separated by commas, whose packets are never encrypted; "+
			"wireguard-host-encryption needs it: the addresses of the API servers, or the word none")
	flags.BoolVar(&s.WireguardRequireEncryption, "wireguard-require-encryption", s.WireguardRequireEncryption,
		"drop unencrypted packets from nodes to which this node encrypts; set it when all nodes encrypt")
}

// WireguardDevices returns the devices: two if keys are rotated.
func (s Settings) WireguardDevices() []wireguard.Device {
	device := func(number int, file string) wireguard.Device {
		return wireguard.Device{Port: uint16(s.WireguardPort + number), KeyFile: filepath.Join(s.WireguardDir, file)}
	}
	devices := []wireguard.Device{device(0, "first.key")}
	if s.WireguardKeyLifetime > 0 {
		devices = append(devices, device(1, "second.key"))
	}
	return devices
}

// WireguardUnencryptedPrefixes returns the prefixes in WireguardUnencryptedHosts, in order.
func (s Settings) WireguardUnencryptedPrefixes() []netip.Prefix {
	prefixes, _ := parseHosts(s.WireguardUnencryptedHosts) // wireguardProblems reports the error
	return prefixes
}

// parseHosts parses a list of addresses and prefixes.
func parseHosts(list string) (prefixes []netip.Prefix, err error) {
	if list == noHosts {
		return nil, nil
	}
	for _, text := range split(list) {
		prefix, err := netip.ParsePrefix(text)
		if address, addressErr := netip.ParseAddr(text); addressErr == nil && address.Zone() == "" {
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is not an address or prefix: want these, separated by commas, or only "+
				"the word none", text)
		case prefix.Addr().Is4In6():
			return nil, fmt.Errorf("%q is an IPv4 address in IPv6: write it as IPv4", text)
		case prefix != prefix.Masked():
			return nil, fmt.Errorf("%q has bits beyond its length: want %s", text, prefix.Masked())
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// wireguardProblems returns the problems of the settings of encryption, by key.
func (s Settings) wireguardProblems() map[string]error {
	found := map[string]error{}
	last := math.MaxUint16
	if s.WireguardKeyLifetime > 0 {
		last-- // the second device has the next port
	}
	if s.WireguardPort < 1 || s.WireguardPort > last {
		found["wireguard-port"] = fmt.Errorf("want 1 to %d, not %d", last, s.WireguardPort)
	}
	if s.WireguardMTU != 0 && (s.WireguardMTU < minWireguardMTU || s.WireguardMTU > math.MaxUint16) {
		found["wireguard-mtu"] = fmt.Errorf("want 0, or %d to %d, not %d", minWireguardMTU, math.MaxUint16,
			s.WireguardMTU)
	}
	if s.WireguardKeyLifetime != 0 && s.WireguardKeyLifetime < minKeyLifetime {
		found["wireguard-key-lifetime"] = fmt.Errorf("want 0s for never, or %s or more, not %s", minKeyLifetime,
			s.WireguardKeyLifetime)
	}
	if _, err := parseHosts(s.WireguardUnencryptedHosts); err != nil {
		found["wireguard-unencrypted-hosts"] = err
	}
	if !s.Wireguard {
		return found
	}
	if s.WireguardDir == "" {
		found["wireguard-dir"] = errors.New("required: give a directory, in which the node keeps its keys")
	}
	if s.WireguardHostEncryption && s.WireguardUnencryptedHosts == "" {
		found["wireguard-host-encryption"] = errors.New("set wireguard-unencrypted-hosts, too: the addresses of the " +
			"API servers, or none")
	}
	for _, name := range []string{wireguard.DefaultSecondDevice, wireguard.DefaultDevice} {
		if s.InterfacePrefix != "" && strings.HasPrefix(name, s.InterfacePrefix) {
			found["interface-prefix"] = fmt.Errorf("the WireGuard device %s begins with %q: give another prefix", name,
				s.InterfacePrefix)
		}
	}
	return found
}
