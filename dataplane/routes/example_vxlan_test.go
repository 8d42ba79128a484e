// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
)

// A route to the workloads of another node, through VXLAN. It needs two tunnel endpoints: that of
// this node, for which the device is added, and that of the other. It needs CAP_NET_ADMIN, so it
// does not run as a test.
func ExampleDataplane_Plan() {
	d, err := routes.New(routes.Config{VXLAN: routes.VXLANConfig{VNI: 4097, MTU: 1450}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	batch := dataplane.Batch{Events: []dataplane.Event{
		&dataplane.TunnelUpdate{Tunnel: &dataplane.Tunnel{
			Node: "n1", IPVersion: 4, Local: true, Address: netip.MustParseAddr("10.1.1.0"),
			MAC: "66:3e:ca:a4:db:65", ParentAddress: netip.MustParseAddr("192.0.2.1"),
		}},
		&dataplane.TunnelUpdate{Tunnel: &dataplane.Tunnel{
			Node: "n2", IPVersion: 4, Address: netip.MustParseAddr("10.1.2.0"),
			MAC: "66:3e:ca:a4:db:66", ParentAddress: netip.MustParseAddr("192.0.2.2"),
		}},
		&dataplane.RouteUpdate{Route: &dataplane.Route{
			Dst: netip.MustParsePrefix("10.1.2.0/26"), Type: dataplane.RouteRemoteWorkload, Node: "n2",
			NodeAddress: netip.MustParseAddr("192.0.2.2"), Pool: dataplane.PoolVXLAN,
		}},
		&dataplane.InSync{},
	}}
	plan, err := d.Plan(context.Background(), batch)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(plan) // commands of ip, bridge and sysctl; nothing is changed
}
