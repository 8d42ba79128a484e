// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
)

// A change of policy closes a port of one address: its flows end.
func ExampleSweeper() {
	closed := netip.MustParseAddrPort("10.0.0.2:8080")
	judge := func(open bool) conntrack.Judge {
		return func(f *conntrack.Flow) conntrack.Verdict {
			if !open && f.Destination() == closed {
				return conntrack.Denied
			}
			return conntrack.Allowed
		}
	}
	sweeper, err := conntrack.New(conntrack.Config{EndRate: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = sweeper.Close() }()
	// The kernel has the new ruleset now.
	sweeper.Change(judge(true), judge(false))
	ctx := context.Background()
	for {
		progress, err := sweeper.Step(ctx, 1000)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			fmt.Println("tried again:", err)
		}
		if progress.Done {
			return
		}
		time.Sleep(progress.Wait)
	}
}

// The flows of an address that gets another owner end.
func ExampleConn_EndHosts() {
	conn, err := conntrack.Dial(conntrack.ConnConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	// The ruleset drops packets from and to the old owner, and does not admit the new one yet.
	if _, err := conn.EndHosts(context.Background(), netip.MustParseAddr("10.0.0.3")); err != nil {
		fmt.Println(err)
	}
}
