// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/policy"
)

// A node agent serves the policy of an endpoint, and a client judges a connection by it.
func Example() {
	folder, err := os.MkdirTemp("", "example")
	must(err)
	defer func() { must(os.RemoveAll(folder)) }()
	server, err := policysync.NewServer(policysync.ServerConfig{
		Folder:       folder,
		Authenticate: policysync.Users(uint32(os.Getuid())), // the default needs a workload
	})
	must(err)
	defer func() { must(server.Close()) }()

	web := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}
	http := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "allow-http"}
	ctx, cancel := context.WithCancel(context.Background())
	must(server.Apply(ctx, dataplane.Batch{Events: []dataplane.Event{ // a Driver calls it
		&dataplane.PolicyUpdate{Key: http, Policy: &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{
			Action: policy.Allow, Protocol: policy.ProtocolTCP,
			Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(80)}},
		}}}},
		&dataplane.EndpointUpdate{Key: web, Endpoint: &dataplane.Endpoint{
			Interface: "way0", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
			Ingress: []dataplane.TierPolicies{{
				Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{http},
			}},
		}},
		&dataplane.InSync{},
	}}))

	_ = policysync.Watch(ctx, policysync.Folder(folder)(web), func(s *policysync.State) {
		for _, port := range []uint16{80, 81} {
			decision := s.Ingress(dptest.Packet{
				Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.0.1"),
				Protocol: policy.ProtocolTCP, SrcPort: 40000, DstPort: port,
			}, policysync.UnknownDSCP)
			fmt.Println(s.Key, port, decision.Action, "by", decision.By)
		}
		cancel() // enough for an example
	})
	// Output:
	// WorkloadEndpoint/shop/web 80 Allow by tier default Policy/shop/allow-http rule 0
	// WorkloadEndpoint/shop/web 81 Deny by end of tier default
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// A node agent puts the server last in the list of its driver. It needs root, so it does not run as
// a test.
func ExampleNewServer() {
	filter := dptest.NewMirror() // usually an nft.Dataplane
	server, err := policysync.NewServer(policysync.ServerConfig{Folder: "/run/wayleave/policysync"})
	must(err)
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{filter, server}})
	must(err)
	must(driver.Run(context.Background())) // give driver.Send to a calcgraph.Runner
}
