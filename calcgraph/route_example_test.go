// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// networkPrinter prints routes, tunnels and names.
type networkPrinter struct{}

func (networkPrinter) RouteUpdate(r *dataplane.Route)         { fmt.Println("route", r) }
func (networkPrinter) RouteRemove(dst netip.Prefix)           { fmt.Println("no route", dst) }
func (networkPrinter) TunnelUpdate(t *dataplane.Tunnel)       { fmt.Println("tunnel", t) }
func (networkPrinter) TunnelRemove(k dataplane.TunnelKey)     { fmt.Println("no tunnel", k) }
func (networkPrinter) NodeUpdate(n *dataplane.Node)           { fmt.Println("node", n) }
func (networkPrinter) NodeRemove(name string)                 { fmt.Println("no node", name) }
func (networkPrinter) NamespaceUpdate(n *dataplane.Namespace) { fmt.Println("namespace", n) }
func (networkPrinter) NamespaceRemove(name string)            { fmt.Println("no namespace", name) }

// Routes to the blocks of other nodes, of a pool without encapsulation. A pool with VXLAN also
// needs a TunnelResolver, whose receiver is the RouteResolver.
func ExampleRouteResolver() {
	routes, err := calcgraph.NewRouteResolver(calcgraph.RouteResolverConfig{Node: "n1", Routes: networkPrinter{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	block := &policy.Block{CIDR: netip.MustParsePrefix("10.0.1.0/26"), Node: "n2"}
	routes.UpdatePool(&policy.IPPool{Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/16")})
	routes.UpdateBlock(block)
	routes.Flush()
	routes.UpdateNode(&policy.Node{Name: "n2", Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.0.2/24")}})
	routes.Flush()
	routes.DeleteBlock(block.Key())
	routes.Flush()
	// Output:
	// route 10.0.0.0/16 pool pool direct
	// route 10.0.1.0/26 remote-workload node n2 via 192.168.0.2 pool direct
	// route 192.168.0.2/32 remote-host node n2 via 192.168.0.2
	// no route 10.0.1.0/26
}

func ExampleTunnelResolver() {
	tunnels, err := calcgraph.NewTunnelResolver(calcgraph.TunnelResolverConfig{Node: "n1", Tunnels: networkPrinter{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	tunnels.UpdateNode(&policy.Node{
		Name: "remotehostname", IPv4VXLANTunnelAddr: netip.MustParseAddr("10.0.1.1"),
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.0.2/24")},
	})
	tunnels.Flush()
	tunnels.DeleteNode("remotehostname")
	tunnels.Flush()
	// Output:
	// tunnel remotehostname/v4 10.0.1.1 mac 66:3e:ca:a4:db:65 parent 192.168.0.2
	// no tunnel remotehostname/v4
}

// Resources without a receiver are ignored.
func ExampleRelay() {
	relay := calcgraph.Relay{Nodes: networkPrinter{}, Namespaces: networkPrinter{}}
	relay.UpdateNode(&policy.Node{Name: "n2", Labels: map[string]string{"zone": "a"}})
	relay.UpdatePool(&policy.IPPool{Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/16")})
	relay.UpdateProfile(&policy.Profile{Name: "kns.shop", LabelsToApply: map[string]string{"pcns.env": "prod"}})
	relay.DeleteProfile("kns.shop")
	// Output:
	// node n2 [] labels zone=a
	// namespace shop labels env=prod
	// no namespace shop
}
