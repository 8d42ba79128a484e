// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

// clearScreen moves the cursor to the top and clears the screen (ECMA-48).
const clearScreen = "\x1b[H\x1b[J"

// flowOrders returns the values of --sort, with the number by which flows are sorted. The greatest
// number comes first.
func flowOrders() map[string]func(api.Flow) uint64 {
	return map[string]func(api.Flow) uint64{
		"bytes":       func(f api.Flow) uint64 { return f.Bytes + f.ReplyBytes },
		"packets":     func(f api.Flow) uint64 { return f.Packets + f.ReplyPackets },
		"connections": func(f api.Flow) uint64 { return f.Connections },
		"last":        func(f api.Flow) uint64 { return uint64(f.Last.UnixNano()) },
	}
}

func flowsCommand() cli.Command {
	return cli.Command{
		Name: "flows", Summary: "show which workloads talk to each other, and by which policy",
		About: `Prints the flows that the agent has counted: source, destination and port; the verdict, and
the policy and rule that decided; the numbers of connections, packets and bytes. A connection between two
workloads of this node has two lines, one for the policy of each workload. For a denied flow, the numbers are
those of the dropped packets. The agent counts flows only with its setting "flows".

With --watch, the command prints the flows again after each interval, until it is interrupted. With -o json,
it prints a JSON object each time.`,
		Examples: []string{"flows --top 10 --sort connections", "flows --watch 2s --denied"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var o output
			o.declare(flags)
			watch := flags.Duration("watch", 0, "print the flows again after this `TIME`, from 1s; 0: once")
			top := flags.Uint("top", 50, "print at most this `NUMBER` of flows; 0: all")
			order := flags.String("sort", "bytes",
				"print the flows with most `WHAT` first: bytes, packets, connections, or last for the latest")
			denied := flags.Bool("denied", false, "print only flows that policy denies")
			return func(ctx context.Context, c cli.Console, args []string) error {
				by := flowOrders()[*order]
				switch {
				case by == nil:
					return cli.Usagef("flows: --sort: want bytes, packets, connections or last, not %q", *order)
				case *watch != 0 && *watch < time.Second:
					return cli.Usagef("flows: --watch: want 1s or more")
				}
				show := func() error {
					all, err := get[api.Flows](ctx, c, o, "/v1/flows")
					if err != nil {
						return err
					}
					found := len(all.Flows)
					if *denied {
						all.Flows = slices.DeleteFunc(all.Flows, func(f api.Flow) bool { return f.Decision != "deny" })
					}
					slices.SortStableFunc(all.Flows, func(a, b api.Flow) int { return cmp.Compare(by(b), by(a)) })
					if *top > 0 {
						all.Flows = all.Flows[:min(len(all.Flows), int(*top))]
					}
					text := flowsText(c.Width(), all, found)
					if *watch > 0 {
						text = clearScreen + text
					}
					return o.print(c, all, text)
				}
				return repeat(ctx, *watch, show)
			}
		},
	}
}

// repeat calls do once. If interval is not 0, it calls do again at each interval, until ctx is
// done.
func repeat(ctx context.Context, interval time.Duration, do func() error) error {
	for {
		err := do()
		if ctx.Err() != nil && interval > 0 {
			return nil
		}
		if err != nil || interval == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// flowsText returns flows as a table. found is the number of all flows that match the request.
func flowsText(width int, all api.Flows, found int) string {
	var rows [][]string
	for _, f := range all.Flows {
		port := f.Protocol
		if f.Port > 0 {
			port = fmt.Sprintf("%s %d", f.Protocol, f.Port)
		}
		by := f.Reason
		if f.Policy != nil {
			by = fmt.Sprintf("%s %s rule %d", f.Policy, f.Direction, *f.Rule)
		}
		rows = append(rows, []string{
			f.Source, f.Destination, port, f.Decision, fmt.Sprint(f.Connections),
			fmt.Sprintf("%d/%d", f.Packets, f.ReplyPackets), size(f.Bytes) + "/" + size(f.ReplyBytes), by,
		})
	}
	var out strings.Builder
	out.WriteString(table(width, "SOURCE DESTINATION PORT VERDICT CONNECTIONS PACKETS BYTES BY", rows))
	fmt.Fprintf(&out, "%d of %d flows; %d connections go on\n", len(all.Flows), found, all.Connections)
	for _, line := range []struct {
		n    uint64
		text string
	}{
		{all.Evicted, "flows were replaced by others"},
		{all.Uncounted, "verdicts were of connections over the limit, whose packets are not counted"},
		{all.MissedVerdicts, "verdicts are missing: there were too many at once"},
		{all.MissedEnds, "times, ends of connections are missing: there were too many at once"},
	} {
		if line.n > 0 {
			fmt.Fprintf(&out, "%d %s\n", line.n, line.text)
		}
	}
	return out.String()
}

// size formats a number of bytes.
func size(n uint64) string {
	const kilo = 1000
	value, unit := float64(n), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if value < kilo {
			break
		}
		value, unit = value/kilo, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
