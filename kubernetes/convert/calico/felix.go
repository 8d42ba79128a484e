// SPDX-License-Identifier: Apache-2.0

package calico

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FelixConfiguration has the settings of Felix, Calico's agent. This type has only the fields for
// WireGuard, so use a decoder that accepts unknown fields.
type FelixConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec has the settings.
	Spec FelixConfigurationSpec `json:"spec"`
}

// FelixConfigurationSpec has the settings of WireGuard. Nil means Calico's default.
type FelixConfigurationSpec struct {
	// WireguardEnabled encrypts IPv4 traffic between nodes. The default is false.
	WireguardEnabled *bool `json:"wireguardEnabled,omitempty"`
	// WireguardEnabledV6 encrypts IPv6 traffic between nodes. The default is false.
	WireguardEnabledV6 *bool `json:"wireguardEnabledV6,omitempty"`
	// WireguardListeningPort is the UDP port. The default is 51820.
	WireguardListeningPort *int `json:"wireguardListeningPort,omitempty"`
	// WireguardListeningPortV6 is the UDP port of a second device, for IPv6. Wayleave has one
	// device for both families.
	WireguardListeningPortV6 *int `json:"wireguardListeningPortV6,omitempty"`
	// WireguardMTUV6 of the second device.
	WireguardMTUV6 *int `json:"wireguardMTUV6,omitempty"`
	// WireguardInterfaceNameV6 is the name of the second device.
	WireguardInterfaceNameV6 string `json:"wireguardInterfaceNameV6,omitempty"`
	// WireguardMTU of the device. The default is the MTU of the interface that carries the
	// encrypted packets, less the overhead of the encryption.
	WireguardMTU *int `json:"wireguardMTU,omitempty"`
	// WireguardRoutingRulePriority is the priority of the routing rule. The default is 99.
	WireguardRoutingRulePriority *int `json:"wireguardRoutingRulePriority,omitempty"`
	// WireguardInterfaceName is the name of the device. The default is "wireguard.cali".
	WireguardInterfaceName string `json:"wireguardInterfaceName,omitempty"`
	// WireguardHostEncryptionEnabled also encrypts traffic between the addresses of nodes. The
	// default is false.
	WireguardHostEncryptionEnabled *bool `json:"wireguardHostEncryptionEnabled,omitempty"`
}
