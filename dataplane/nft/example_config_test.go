// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"context"
	"fmt"
	"log"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// A table with another name, for workloads whose interfaces begin with "pod". They may connect to
// their host. Connections that policy denies after a change end. It needs CAP_NET_ADMIN, so it does
// not run as a test.
func ExampleNew() {
	filter, err := nft.New(nft.Config{
		Renderer: render.Config{
			Table:           "example",
			InterfacePrefix: "pod",
			Host:            policy.HostConfig{EndpointToHostAction: policy.HostAccept},
			TCPFromSYN:      true,
			Reject:          true,
			Counters:        true,
		},
		ConntrackPolicy: conntrack.End,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer filter.Close()
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{filter}})
	if err != nil {
		log.Fatal(err)
	}
	log.Print(driver.Run(context.Background())) // give driver.Send to a calcgraph.Runner
}

// Workloads whose interfaces are ports of the bridge cni0. It needs CAP_NET_ADMIN, so it does not
// run as a test.
func ExampleNew_bridges() {
	filter, err := nft.New(nft.Config{Renderer: render.Config{
		Bridges:         []string{"cni0"},
		InterfacePrefix: "veth",
		Host:            policy.HostConfig{EndpointToHostAction: policy.HostAccept},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer filter.Close()
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{filter}})
	if err != nil {
		log.Fatal(err)
	}
	log.Print(driver.Run(context.Background())) // give driver.Send to a calcgraph.Runner
}

// PlanTeardown returns the objects that Teardown would remove, also those of an earlier process. It
// needs CAP_NET_ADMIN, so it does not run as a test.
func ExampleDataplane_PlanTeardown() {
	filter, err := nft.New(nft.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer filter.Close()
	plan, err := filter.PlanTeardown(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(plan)
}
