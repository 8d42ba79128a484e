// SPDX-License-Identifier: Apache-2.0

package interfaces_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/signal"

	"github.com/wayleave/wayleave/dataplane/interfaces"
)

// Prints the interface that has an address, whenever it changes, until the program is interrupted.
// So the example does not run as a test.
func ExampleWatch() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	address := netip.MustParseAddr("192.0.2.1")
	var last string
	err := interfaces.Watch(ctx, interfaces.Config{}, func(s *interfaces.Snapshot) {
		now := "none"
		for _, i := range s.Holding(address) {
			now = i.Name
		}
		if now != last {
			fmt.Println(address, "is an address of", now)
			last = now
		}
	})
	log.Print(err)
}
