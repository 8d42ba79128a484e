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
	none := policy.HostConfig{
		FailsafeInbound: []policy.Failsafe{}, FailsafeOutbound: []policy.Failsafe{},
	}.WithDefaults()
	require.Empty(t, none.FailsafeInbound)
	require.Empty(t, none.FailsafeOutbound)
	full := policy.HostConfig{
		EndpointToHostAction: policy.HostAccept, HostToEndpointAction: policy.HostReturn, VXLANPort: 1,
		FailsafeInbound: []policy.Failsafe{}, FailsafeOutbound: []policy.Failsafe{}, KeepInvalid: true,
	}
	require.Equal(t, full, full.WithDefaults())
}

func TestForbiddenEncapsulations(t *testing.T) { // S120
	vxlan := policy.Encapsulation{Name: "VXLAN", Protocol: 17, Port: 4789}
	ipip := policy.Encapsulation{Name: "IP in IP", Protocol: 4}
	require.Equal(t, []policy.Encapsulation{vxlan, ipip}, policy.HostConfig{}.ForbiddenEncapsulations())
	vxlan.Port = 8472
	require.Equal(t, []policy.Encapsulation{vxlan}, policy.HostConfig{
		VXLANPort: 8472, AllowIPIPFromWorkloads: true,
	}.ForbiddenEncapsulations())
	require.Equal(t, []policy.Encapsulation{ipip}, policy.HostConfig{
		AllowVXLANFromWorkloads: true,
	}.ForbiddenEncapsulations())
	require.Empty(t, policy.HostConfig{
		AllowVXLANFromWorkloads: true, AllowIPIPFromWorkloads: true,
	}.ForbiddenEncapsulations())
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
		{
			EndpointToHostAction: policy.HostReturn, HostToEndpointAction: policy.HostDrop,
			FailsafeInbound: []policy.Failsafe{good},
		},
	} {
		require.NoError(t, c.Validate())
	}
	for want, c := range map[string]policy.HostConfig{
		"policy: host config: endpointToHostAction: want Drop, Accept or Return, not \"Allow\"": {
			EndpointToHostAction: "Allow",
		},
		"policy: host config: hostToEndpointAction: want Drop, Accept or Return, not \"drop\"": {
			HostToEndpointAction: "drop",
		},
		"policy: host config: failsafeInbound[0].protocol: want TCP, UDP or SCTP, not ICMP": {
			FailsafeInbound: []policy.Failsafe{{Protocol: policy.ProtocolICMP, Port: 1}},
		},
		"policy: host config: failsafeOutbound[1].port: required": {
			FailsafeOutbound: []policy.Failsafe{good, {Protocol: policy.ProtocolTCP}},
		},
		"policy: host config: failsafeInbound[0].net: 10.1.0.0/8 is not canonical: want 10.0.0.0/8 " +
			"(see Canonical)": {
			FailsafeInbound: []policy.Failsafe{
				{Protocol: policy.ProtocolTCP, Port: 1, Net: netip.MustParsePrefix("10.1.0.0/8")},
			},
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
		{FailsafeInbound: []policy.Failsafe{}, FailsafeOutbound: []policy.Failsafe{}},
		policy.HostConfig{}.WithDefaults(),
		{
			EndpointToHostAction: policy.HostReturn,
			HostToEndpointAction: policy.HostDrop, AllowVXLANFromWorkloads: true, AllowIPIPFromWorkloads: true,
			VXLANPort: 65535, KeepInvalid: true, FailsafeInbound: []policy.Failsafe{
				{Protocol: policy.ProtocolUDP, Port: 68},
				{Protocol: policy.ProtocolTCP, Port: 22, Net: netip.MustParsePrefix("fd00::/8")},
			},
		},
		{FailsafeOutbound: []policy.Failsafe{
			{Protocol: policy.ProtocolTCP, Port: 22, Net: netip.MustParsePrefix("10.0.0.0/8")},
		}},
	} {
		data, err := json.Marshal(c)
		require.NoError(t, err)
		// UnmarshalJSON replaces all fields.
		back := policy.HostConfig{KeepInvalid: true, VXLANPort: 1, FailsafeInbound: []policy.Failsafe{{}}}
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, c, back)
	}
	var c policy.HostConfig
	require.NoError(t,
		json.Unmarshal([]byte(`{"failsafeInbound":[{"protocol":"tcp","port":22,"net":"::ffff:10.1.2.3/104"}]}`), &c))
	require.Equal(
		t, []policy.Failsafe{{Protocol: policy.ProtocolTCP, Port: 22, Net: netip.MustParsePrefix("10.0.0.0/8")}},
		c.FailsafeInbound,
	)
	require.NoError(t, c.Validate())
}

// With an error, UnmarshalJSON changes no field.
func TestHostConfigStrictJSON(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"failsafeInbound":[{"protocol":"TCP","port":22,"net":""}]}`, `failsafeInbound[0].net: parse net ""`},
		{
			`{"failsafeInbound":[{"protocol":"TCP","port":22,"net":null}]}`,
			`failsafeInbound[0].net: want a string, not null`,
		},
		{
			`{"failsafeInbound":[{"protocol":"TCP","port":22,"net":"fe80::1%eth0"}]}`,
			`failsafeInbound[0].net: parse net`,
		},
		{
			`{"failsafeOutbound":[{"protocol":"TCP","port":22},{"ports":[22]}]}`,
			`failsafeOutbound[1].ports: unknown field`,
		},
		{
			`{"failsafeOutbound":[{"protocol":"TCP","port":0}]}`,
			`failsafeOutbound[0].port: want a number from 1 to 65535, not 0`,
		},
		{`{"failsafeOutbound":[{"protocol":"any","port":1}]}`, `failsafeOutbound[0].protocol: parse protocol "any"`},
		{`{"failsafeOutbound":[null]}`, `failsafeOutbound[0]: want an object, not null`},
		{`{"failsafeInbound":null}`, `failsafeInbound: want a list, not null`},
		{`{"failsafeinbound":[]}`, `failsafeinbound: unknown field: want "failsafeInbound"`},
		{`{"failsafeInbound":[],"failsafeInbound":[{"protocol":"TCP","port":22}]}`, `failsafeInbound: given twice`},
		{`{"failsafeInbound":[{"protocol":"TCP","port":22,"port":23}]}`, `failsafeInbound[0].port: given twice`},
		{`{"bogus":1}`, `bogus: unknown field`},
		{`{"keepInvalid":"true"}`, `keepInvalid: want true or false, not a string`},
		{`{"vxlanPort":65536}`, `vxlanPort: want a number from 1 to 65535, not 65536`},
		{`{"endpointToHostAction":null}`, `endpointToHostAction: want a string, not null`},
		{`null`, `want an object, not null`},
		{
			`{"keepInvalid":true,"allowIPIPFromWorkloads":1,"endpointToHostAction":"Accept"}`,
			`allowIPIPFromWorkloads: want true or false`,
		},
	} {
		got := policy.HostConfig{VXLANPort: 7}
		require.ErrorContains(t, json.Unmarshal([]byte(c.in), &got), "policy: decode: "+c.want, c.in)
		require.Equal(t, policy.HostConfig{VXLANPort: 7}, got, c.in)
	}
	var f policy.Failsafe
	require.NoError(t, json.Unmarshal([]byte(`{"protocol":"UDP","port":53}`), &f))
	require.Equal(t, policy.Failsafe{Protocol: policy.ProtocolUDP, Port: 53}, f)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"protocol":"UDP","port":53,"net":""}`), &f), "net: parse net")
}
