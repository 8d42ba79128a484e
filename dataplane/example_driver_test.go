// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// shop returns a batch with one endpoint, to which a policy allows HTTP.
func shop() (web policy.Key, batch dataplane.Batch) {
	web = policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}
	allow := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "allow-http"}
	return web, dataplane.Batch{Events: []dataplane.Event{
		&dataplane.PolicyUpdate{Key: allow, Policy: &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{
			Action: policy.Allow, Protocol: policy.ProtocolTCP,
			Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(80)}},
		}}}},
		&dataplane.EndpointUpdate{Key: web, Endpoint: &dataplane.Endpoint{
			Interface: "way0",
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
			Ingress: []dataplane.TierPolicies{{
				Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{allow},
			}},
		}},
		&dataplane.InSync{},
	}}
}

// The Driver programs each batch that it receives. A CNI plugin waits until its endpoint is
// programmed or removed. In this example, a Mirror takes the place of the kernel.
func ExampleDriver() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mirror := dptest.NewMirror()
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{mirror}})
	if err != nil {
		log.Fatal(err)
	}
	go driver.Run(ctx)

	web, batch := shop()
	if err := errors.Join(driver.Send(ctx, batch), driver.WaitProgrammed(ctx, web)); err != nil {
		log.Fatal(err)
	}
	fmt.Print(mirror.State())

	batch = dataplane.Batch{Events: []dataplane.Event{&dataplane.EndpointRemove{Key: web}}}
	if err := errors.Join(driver.Send(ctx, batch), driver.WaitRemoved(ctx, web)); err != nil {
		log.Fatal(err)
	}
	fmt.Println("endpoints:", len(mirror.State().Endpoints))
	if err := driver.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// policy Policy/shop/allow-http tier default: ingress allow tcp dst ports 80
	// endpoint WorkloadEndpoint/shop/web way0 [10.0.0.1] ingress default:deny[Policy/shop/allow-http] egress - profiles []
	// in-sync
	// endpoints: 0
}

// The driver retries what a dataplane could not program. EndpointChanges has the status meanwhile.
func ExampleDriver_EndpointChanges() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	web, batch := shop()
	faulty := dptest.NewFaulty(dptest.NewMirror(), func(c dptest.Call) error {
		if c.Op != "apply" || c.N > 1 {
			return nil
		}
		return &dataplane.ApplyError{Backend: "nft", Op: "add chain", Object: web, Err: errors.New("no memory")}
	})
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{faulty}})
	if err != nil {
		log.Fatal(err)
	}
	if err := driver.Send(ctx, batch); err != nil {
		log.Fatal(err)
	}
	changes := driver.EndpointChanges(ctx)
	go driver.Run(ctx)
	for change := range changes {
		if change.Status.State == dataplane.EndpointPending {
			continue
		}
		fmt.Println(change.Key, change.Status.State, change.Status.Err)
		if change.Status.State == dataplane.EndpointUp {
			break
		}
	}
	if err := driver.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// WorkloadEndpoint/shop/web failed nft: add chain WorkloadEndpoint/shop/web: no memory
	// WorkloadEndpoint/shop/web up <nil>
}
