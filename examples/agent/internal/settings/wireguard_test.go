// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

// Without the setting wireguard, there is no device. Without a lifetime of keys, there is one
// device.
func TestWireguardDevices(t *testing.T) {
	e, err := settings.Resolve()
	require.NoError(t, err)
	require.False(t, e.Wireguard)
	first := wireguard.Device{Port: 51820, KeyFile: "/var/lib/wayleave/wireguard/first.key"}
	require.Equal(t, []wireguard.Device{first}, e.WireguardDevices())

	e, err = settings.Resolve(settings.File(file(t,
		"wireguard: true\nwireguard-dir: /keys\nwireguard-port: 7000\nwireguard-key-lifetime: 24h\n"+
			"wireguard-mtu: 1400\n")))
	require.NoError(t, err)
	require.Equal(t, []wireguard.Device{
		{Port: 7000, KeyFile: "/keys/first.key"}, {Port: 7001, KeyFile: "/keys/second.key"},
	}, e.WireguardDevices())
	require.Equal(t, 24*time.Hour, e.WireguardKeyLifetime)
	require.Equal(t, 1400, e.WireguardMTU)
}

func TestWireguardUnencryptedHosts(t *testing.T) {
	for text, want := range map[string][]netip.Prefix{
		"":     nil,
		"none": nil,
		"192.0.2.1, 198.51.100.0/24,2001:db8::1": {
			netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("198.51.100.0/24"),
			netip.MustParsePrefix("2001:db8::1/128"),
		},
	} {
		e, err := settings.Resolve(settings.Layer{
			Source: "test", Values: map[string]string{"wireguard-unencrypted-hosts": text},
		})
		require.NoError(t, err)
		require.Equal(t, want, e.WireguardUnencryptedPrefixes(), text)
	}
}

func TestWireguardProblems(t *testing.T) {
	const hosts, lifetime = "wireguard-unencrypted-hosts", "wireguard-key-lifetime"
	const want = ": want these, separated by commas, or only the word none"
	for _, row := range []struct {
		values  map[string]string
		problem string // without the key; empty if there is none
	}{
		{map[string]string{"wireguard-port": "0"}, "wireguard-port: want 1 to 65535, not 0"},
		{map[string]string{"wireguard-port": "65535"}, ""},
		{
			map[string]string{"wireguard-port": "65535", lifetime: "24h"},
			"wireguard-port: want 1 to 65534, not 65535",
		},
		{map[string]string{"wireguard-mtu": "1279"}, "wireguard-mtu: want 0, or 1280 to 65535, not 1279"},
		{map[string]string{"wireguard-mtu": "1280"}, ""},
		{map[string]string{lifetime: "59m"}, lifetime + ": want 0s for never, or 1h0m0s or more, not 59m0s"},
		{map[string]string{lifetime: "-1h"}, lifetime + ": want 0s for never, or 1h0m0s or more, not -1h0m0s"},
		{
			map[string]string{"wireguard-dir": ""},
			"wireguard-dir: required: give a directory, in which the node keeps its keys",
		},
		{
			map[string]string{"wireguard-host-encryption": "true"},
			"wireguard-host-encryption: set wireguard-unencrypted-hosts, too: the addresses of the API servers, " +
				"or none",
		},
		{map[string]string{"wireguard-host-encryption": "true", hosts: "none"}, ""},
		{map[string]string{hosts: "none,192.0.2.1"}, hosts + `: "none" is not an address or prefix` + want},
		{map[string]string{hosts: "192.0.2.1,"}, hosts + `: "" is not an address or prefix` + want},
		{map[string]string{hosts: "fe80::1%eth0"}, hosts + `: "fe80::1%eth0" is not an address or prefix` + want},
		{
			map[string]string{hosts: "::ffff:192.0.2.1"},
			hosts + `: "::ffff:192.0.2.1" is an IPv4 address in IPv6: write it as IPv4`,
		},
		{
			map[string]string{hosts: "192.0.2.1/24"},
			hosts + `: "192.0.2.1/24" has bits beyond its length: want 192.0.2.0/24`,
		},
		{
			map[string]string{"interface-prefix": "wg"},
			`interface-prefix: the WireGuard device wg.way begins with "wg": give another prefix`,
		},
		{
			map[string]string{"interface-prefix": "wg2"},
			`interface-prefix: the WireGuard device wg2.way begins with "wg2": give another prefix`,
		},
		{
			map[string]string{"in-cluster": "true", "kubernetes-omit": "nodes"},
			"wireguard: needs the keys of nodes, and kubernetes-omit names nodes: remove nodes from kubernetes-omit",
		},
	} {
		values := map[string]string{"node": "n", "wireguard": "true"}
		maps.Copy(values, row.values)
		_, err := settings.Resolve(settings.Layer{Source: "test", Values: values})
		if row.problem == "" {
			require.NoError(t, err, "%v", row.values)
			continue
		}
		require.EqualError(t, err, "test: "+row.problem)
	}
	// A node without WireGuard does not check the other settings.
	_, err := settings.Resolve(settings.Layer{Source: "test", Values: map[string]string{
		"node": "n", "wireguard-host-encryption": "true", "wireguard-dir": "", "interface-prefix": "wg",
	}})
	require.NoError(t, err)
}

// The datastore cannot set encryption: users who write policy must not decide about it.
func TestWireguardIsLocal(t *testing.T) {
	for _, key := range []string{
		"wireguard", "wireguard-dir", "wireguard-port", "wireguard-mtu", "wireguard-key-lifetime",
		"wireguard-host-encryption", "wireguard-unencrypted-hosts",
	} {
		_, err := settings.Resolve(settings.Layer{
			Source: "test", Datastore: true, Values: map[string]string{key: "x"},
		})
		require.EqualError(t, err, "test: "+key+": cannot be set in the datastore: set it on the node itself")
	}
}
