// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	stdjson "encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/json"
)

func TestFelixWireguard(t *testing.T) {
	read := func(spec string) (convert.WireguardSettings, []error) {
		var values any
		require.NoError(t, yaml.Unmarshal([]byte("{metadata: {name: default}, spec: {"+spec+"}}"), &values))
		text, err := stdjson.Marshal(values)
		require.NoError(t, err)
		var f calico.FelixConfiguration
		require.NoError(t, json.UnmarshalCaseSensitivePreserveInts(text, &f))
		return convert.FelixWireguard(&f)
	}
	s, problems := read("bpfEnabled: true")
	require.Empty(t, problems)
	require.Equal(t, convert.WireguardSettings{}, s)
	s, problems = read("wireguardEnabled: true, wireguardListeningPort: 4, wireguardMTU: 1400, " +
		"wireguardRoutingRulePriority: 50, wireguardInterfaceName: wg0, wireguardHostEncryptionEnabled: true")
	require.Empty(t, problems)
	require.Equal(t, convert.WireguardSettings{
		Enabled: true, HostEncryption: true, Port: 4, MTU: 1400, RulePriority: 50, Interface: "wg0",
	}, s)
	for text, ignored := range map[string][]string{
		"wireguardListeningPort: 65536, wireguardMTU: -1, wireguardRoutingRulePriority: 32764": {
			"spec.wireguardListeningPort", "spec.wireguardMTU", "spec.wireguardRoutingRulePriority",
		},
		"wireguardListeningPortV6: 51821, wireguardMTUV6: 1400, wireguardInterfaceNameV6: wg1": {
			"spec.wireguardListeningPortV6", "spec.wireguardMTUV6", "spec.wireguardInterfaceNameV6",
		},
	} {
		s, problems := read("wireguardEnabledV6: true, " + text)
		require.Equal(t, convert.WireguardSettings{Enabled: true}, s)
		require.Equal(t, ignored, fields(t, problems))
	}
}
