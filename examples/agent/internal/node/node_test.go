// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/node"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

func TestMain(m *testing.M) { nstest.Main(m) }

func interfaces(t *testing.T, ns *netns.NS) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, ns.Do(func() error {
		list, err := net.Interfaces()
		for _, i := range list {
			out[i.Name] = i.HardwareAddr.String()
		}
		return err
	}))
	return out
}

func endpoint(name, link, mac string, addrs ...string) *policy.WorkloadEndpoint {
	e := &policy.WorkloadEndpoint{Namespace: "a", Name: name, Node: "n", Interface: link, MAC: mac}
	for _, a := range addrs {
		e.Addresses = append(e.Addresses, netip.MustParseAddr(a))
	}
	return e
}

func TestBuild(t *testing.T) {
	nstest.New(t)
	const mac = "02:00:00:00:00:01"
	n, err := node.Build([]*policy.WorkloadEndpoint{
		endpoint("one", "way1", mac, "10.0.0.1", "2001:db8::1"), endpoint("two", "way2", "", "2001:db8::2"),
	}, node.Party{Name: "out", Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.1")}})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()

	links := interfaces(t, n.NS)
	require.Len(t, links, 4)
	require.Contains(t, links, "way1")
	require.Contains(t, links, "way2")
	require.Contains(t, links, "uplink")
	require.Len(t, n.Parties, 3)
	require.Equal(t, "a/one", n.Parties[0].Name)
	require.Equal(t, "out", n.Parties[2].Name)
	require.Equal(t, mac, interfaces(t, n.Parties[0].NS)["eth0"])
	forwarding, err := n.NS.Sysctl("net/ipv4/conf/uplink/forwarding")
	require.NoError(t, err)
	require.Equal(t, "1", forwarding)
}

func TestBuildFails(t *testing.T) {
	nstest.New(t)
	for _, e := range []*policy.WorkloadEndpoint{
		endpoint("long", "an-interface-name-of-more-than-15", "", "10.0.0.1"),
		endpoint("mac", "way1", "nonsense", "10.0.0.1"),
		endpoint("taken", "uplink", "", "10.0.0.1"),
	} {
		_, err := node.Build([]*policy.WorkloadEndpoint{e}, node.Party{Name: "out"})
		require.ErrorContains(t, err, "node: build ")
	}
}
