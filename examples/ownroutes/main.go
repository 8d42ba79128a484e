// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log"
	"net/netip"
	"os"
	"os/signal"

	"github.com/wayleave/wayleave/dataplane/routes"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	keeper, err := routes.NewKeeper(routes.KeeperConfig{Protocol: 230, Tables: []uint32{100}})
	if err != nil {
		log.Fatal(err)
	}
	for i := range byte(20) {
		keeper.Set(routes.Route{
			Dst:       netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 20, i, 0}), 24),
			Interface: "lo",
			MTU:       1400,
		})
	}
	keeper.Set(routes.Rule{Family: 4, Priority: 100, To: netip.MustParsePrefix("10.20.0.0/16"), Table: 100})
	if err := keeper.Apply(ctx); err != nil {
		log.Print(err) // one error a route; the others are in the kernel
	}
	_ = keeper.Watch(ctx, func() { log.Printf("at fault: %d", keeper.Stats().Failing) }) // ends with the context
	if err := keeper.Teardown(context.Background()); err != nil {
		log.Fatal(err)
	}
}
