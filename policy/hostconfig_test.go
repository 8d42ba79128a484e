// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

func TestHostConfigDefaults(t *testing.T) {
	c := policy.HostConfig{}.WithDefaults()
	require.Equal(t, policy.HostConfig{
		EndpointToHostAction: policy.HostDrop, HostToEndpointAction: policy.HostAccept, VXLANPort: 4789,
		FailsafeInbound: policy.DefaultFailsafeInbound(), FailsafeOutbound: policy.DefaultFailsafeOutbound(),
	}, c)
	require.Equal(t, c, c.WithDefaults())
	none := policy.HostConfig{FailsafeInbound: []policy.Failsafe{}, FailsafeOutbound: []policy.Failsafe{}}.WithDefaults()
	require.Empty(t, none.FailsafeInbound)
	require.Empty(t, none.FailsafeOutbound)
	full := policy.HostConfig{
		EndpointToHostAction: policy.HostAccept, HostToEndpointAction: policy.HostReturn, VXLANPort: 1,
		FailsafeInbound: []policy.Failsafe{}, FailsafeOutbound: []policy.Failsafe{}, KeepInvalid: true,
	}
	require.Equal(t, full, full.WithDefaults())
}

func TestFailsafeDefaults(t *testing.T) { // S111
	ports := func(list []policy.Failsafe) map[string]bool {
		m := map[string]bool{}
		for _, f := range list {
			m[f.String()] = true
		}
		require.Len(t, m, len(list))
		return m
	}
	require.Equal(t, map[string]bool{
		"TCP 22": true, "TCP 179": true, "TCP 2379": true, "TCP 2380": true, "TCP 5473": true, "TCP 6443": true,
		"TCP 6666": true, "TCP 6667": true, "UDP 68": true,
	}, ports(policy.DefaultFailsafeInbound()))
	require.Equal(t, map[string]bool{
		"TCP 179": true, "TCP 2379": true, "TCP 2380": true, "TCP 5473": true, "TCP 6443": true,
		"TCP 6666": true, "TCP 6667": true, "UDP 53": true, "UDP 67": true,
	}, ports(policy.DefaultFailsafeOutbound()))
	policy.DefaultFailsafeInbound()[0].Port = 1
	require.EqualValues(t, 22, policy.DefaultFailsafeInbound()[0].Port)
	require.Equal(t, "TCP 22 10.0.0.0/8",
		policy.Failsafe{Protocol: policy.ProtocolTCP, Port: 22, Net: netip.MustParsePrefix("10.0.0.0/8")}.String())
}

func TestHostConfigValidate(t *testing.T) {
	good := policy.Failsafe{Protocol: policy.ProtocolSCTP, Port: 1, Net: netip.MustParsePrefix("fd00::/64")}
	for _, c := range []policy.HostConfig{
		{},
		policy.HostConfig{}.WithDefaults(),
		{EndpointToHostAction: policy.HostReturn, HostToEndpointAction: policy.HostDrop, FailsafeInbound: []policy.Failsafe{good}},
	} {
		require.NoError(t, c.Validate())
	}
	for want, c := range map[string]policy.HostConfig{
		"policy: host config: endpointToHostAction: want Drop, Accept or Return, not \"Allow\"": {EndpointToHostAction: "Allow"},
		"policy: host config: hostToEndpointAction: want Drop, Accept or Return, not \"drop\"":  {HostToEndpointAction: "drop"},
		"policy: host config: failsafeInbound[0].protocol: want TCP, UDP or SCTP, not ICMP": {
			FailsafeInbound: []policy.Failsafe{{Protocol: policy.ProtocolICMP, Port: 1}},
		},
		"policy: host config: failsafeOutbound[1].port: required": {
			FailsafeOutbound: []policy.Failsafe{good, {Protocol: policy.ProtocolTCP}},
		},
		"policy: host config: failsafeInbound[0].net: 10.1.0.0/8 is not canonical, which is 10.0.0.0/8 (see Canonical)": {
			FailsafeInbound: []policy.Failsafe{{Protocol: policy.ProtocolTCP, Port: 1, Net: netip.MustParsePrefix("10.1.0.0/8")}},
		},
	} {
		require.EqualError(t, c.Validate(), want)
	}
	// All problems at once.
	err := policy.HostConfig{EndpointToHostAction: "x", FailsafeInbound: []policy.Failsafe{{}}}.Validate()
	require.ErrorContains(t, err, "endpointToHostAction")
	require.ErrorContains(t, err, "failsafeInbound[0].port")
}

// JSON keeps the difference between the default failsafes and none.
func TestHostConfigJSON(t *testing.T) {
	for _, c := range []policy.HostConfig{
		{},
		{FailsafeInbound: []policy.Failsafe{}},
		{FailsafeOutbound: []policy.Failsafe{{Protocol: policy.ProtocolTCP, Port: 22, Net: netip.MustParsePrefix("10.0.0.0/8")}}},
	} {
		data, err := json.Marshal(c)
		require.NoError(t, err)
		var back policy.HostConfig
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, c, back)
	}
}
