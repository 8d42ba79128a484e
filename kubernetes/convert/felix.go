// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"math"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
)

// WireguardSettings are the settings of WireGuard in a FelixConfiguration. A zero field means the
// default of package wireguard.
type WireguardSettings struct {
	// Enabled encrypts traffic between nodes, in both families.
	Enabled bool
	// HostEncryption also encrypts traffic between the addresses of nodes.
	HostEncryption bool
	// Port is the UDP port of the device.
	Port uint16
	// MTU of the device.
	MTU uint32
	// RulePriority is the first of the three priorities of WireGuard's policy routing rules.
	RulePriority uint32
	// Interface is the name of the device.
	Interface string
}

// maxRulePriority leaves room for three rules before the kernel's lookup in table main, which is
// 32766.
const maxRulePriority = 32763

// FelixWireguard returns the settings of WireGuard in a FelixConfiguration. If the configuration
// enables WireGuard for one family only, the result enables it for both. An invalid setting is left
// out and reported. Every error is an *Error.
func FelixWireguard(f *calico.FelixConfiguration) (WireguardSettings, []error) {
	p, _ := begin(calico.APIVersion, "FelixConfiguration", f, false)
	spec := &f.Spec
	isSet := func(b *bool) bool { return b != nil && *b }
	s := WireguardSettings{
		Enabled:        isSet(spec.WireguardEnabled) || isSet(spec.WireguardEnabledV6),
		HostEncryption: isSet(spec.WireguardHostEncryptionEnabled),
		Interface:      spec.WireguardInterfaceName,
	}
	number := func(field string, value *int, least, most int) uint32 {
		if value == nil || *value == 0 {
			return 0
		}
		if *value < least || *value > most {
			p.warnf("spec."+field, "%d is not from %d to %d", *value, least, most)
			return 0
		}
		return uint32(*value)
	}
	s.Port = uint16(number("wireguardListeningPort", spec.WireguardListeningPort, 1, math.MaxUint16))
	ignored := func(field string, isSet bool) {
		if isSet {
			p.warnf("spec."+field, "both families use one device: set the field for IPv4")
		}
	}
	ignored("wireguardListeningPortV6", spec.WireguardListeningPortV6 != nil)
	ignored("wireguardMTUV6", spec.WireguardMTUV6 != nil)
	ignored("wireguardInterfaceNameV6", spec.WireguardInterfaceNameV6 != "")
	s.MTU = number("wireguardMTU", spec.WireguardMTU, 68, math.MaxUint16)
	s.RulePriority = number("wireguardRoutingRulePriority", spec.WireguardRoutingRulePriority, 1, maxRulePriority)
	return s, p.warnings
}
