// SPDX-License-Identifier: Apache-2.0

package wireguard_test

import (
	"context"
	"log"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/policy"
)

// A node that encrypts, and programs unencrypted routes to nodes that do not. It needs
// CAP_NET_ADMIN, so it does not run as a test.
func ExampleNew() {
	encryption, err := wireguard.New(wireguard.Config{
		Node:     "n1",
		Devices:  []wireguard.Device{{KeyFile: "/var/lib/wayleave/wireguard/first.key"}},
		Announce: func(keys []policy.WireguardKey) { /* write them to the Node resource of n1 */ },
	})
	if err != nil {
		log.Fatal(err)
	}
	routing, err := routes.New(routes.Config{})
	if err != nil {
		log.Fatal(err)
	}
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: []dataplane.Dataplane{encryption, routing}, // put nft.Dataplane first, for policy
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Print(driver.Run(context.Background())) // give driver.Send to a Runner of a graph with UnreachableRoutes
}
