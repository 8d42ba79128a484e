// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// Bridges returns the names of the bridges of a cluster that NewBridgedCluster makes.
func Bridges() []string { return []string{"br0", "br1"} }

// NewBridgedCluster calls NewCluster, and configures its renderer for workloads on the bridges that
// Bridges returns. Cluster.Bridge attaches workloads to these bridges.
func NewBridgedCluster(t *testing.T, seed uint64, classes render.ClassesConfig) *Cluster {
	t.Helper()
	c := NewCluster(t, seed, classes)
	c.Config.Bridges = Bridges()
	var err error
	c.Renderer, err = render.New(c.Config)
	require.NoError(t, err)
	c.Renderer.SetInterfaces(c.Known())
	return c
}

// Bridge attaches interfaces of workloads to bridges, as their ports. Each call chooses new
// interfaces and bridges at random. No two endpoints at one bridge have the same address. After
// Bridge, the caller must pass the result of Cluster.Known to Renderer.SetInterfaces.
func (c *Cluster) Bridge() {
	c.Ports, c.behind = map[string]string{}, map[bridgeAddress]string{}
	for _, e := range c.Graph.Snapshot().Events {
		update, ok := e.(*dataplane.EndpointUpdate)
		if !ok || c.IntN(3) == 0 {
			continue
		}
		w, bridge := update.Endpoint, Pick(c.World, Bridges())
		taken := slices.ContainsFunc(w.Addresses, func(a netip.Addr) bool {
			return c.behind[bridgeAddress{bridge, a}] != ""
		})
		if taken {
			continue
		}
		c.Ports[w.Interface] = bridge
		for _, a := range w.Addresses {
			c.behind[bridgeAddress{bridge, a}] = w.Interface
		}
	}
}

// bridgeAddress is an address behind a bridge.
type bridgeAddress struct {
	bridge  string
	address netip.Addr
}

// At returns two interfaces for packets from or to the interface iface. The first one is their
// interface in the netfilter hooks of IPv4 and IPv6. The second one is the interface of the
// workload whose policy applies to them. The parameter a is the source address of packets from
// iface, or the destination address of packets to iface.
//
// If iface is not a port of a bridge, both results are iface. Otherwise, the first result is the
// bridge. The second result is then the interface of the workload that has the address a and is
// behind the bridge. If there is no such workload, it is "".
func (c *Cluster) At(iface string, a netip.Addr) (seen, owner string) {
	bridge := c.Ports[iface]
	if bridge == "" {
		return iface, iface
	}
	return bridge, c.behind[bridgeAddress{bridge, a}]
}

// Known returns the interfaces of the host, the workload interfaces that are ports of a bridge, and
// the bridges in Config.Bridges.
func (c *Cluster) Known() map[string]render.Interface {
	out := InterfacesWith(c.Interfaces)
	for name, bridge := range c.Ports {
		out[name] = render.Interface{Master: render.Master{Name: bridge, Kind: "bridge"}}
	}
	for _, name := range c.Config.Bridges {
		out[name] = render.Interface{}
	}
	return out
}
