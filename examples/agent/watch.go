// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

// watchIndent is the number of columns before the text of an event.
const watchIndent = len("15:04:05.000 endpoint ")

func watchCommand() cli.Command {
	return cli.Command{
		Name: "watch", Summary: "follow the events of the agent",
		About: `Prints events of the running agent as they happen: changes of endpoints and settings, changes
of the kernel, changes that another process made to the agent's objects (drift), and rejected objects. With -o
json, it prints a JSON object for each event, one on each line. The command ends when it is interrupted, or
when the agent ends.`,
		Examples: []string{"watch", "watch -o json"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var o output
			o.declare(flags)
			return func(ctx context.Context, c cli.Console, _ []string) error {
				err := api.Stream(ctx, o.client(), "/v1/watch", func(e api.Event) error {
					if o.format == formatJSON {
						return json.NewEncoder(c.Out).Encode(e)
					}
					text := strings.TrimSpace(e.Object + " " + e.Text)
					text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", watchIndent))
					c.Printf("%s %-8s %s\n", e.Time.Format("15:04:05.000"), e.Type, text)
					return nil
				})
				return o.ended(ctx, err, api.ErrEnded)
			}
		},
	}
}

func dropsCommand() cli.Command {
	return cli.Command{
		Name: "drops", Summary: "follow the packets that policy denies, with the rule or reason",
		About: `Prints the packets that policy denies: source and destination, and the tier, policy and rule with
its annotations, or the reason if no rule decided. With --all, it also prints the packets that policy allows.
It finds a rule even if the rule has changed or been deleted since. The agent must log verdicts: see its
setting verdict-log-group.

Several of these commands can run at the same time. While one runs, no other program can receive the packets
of the group. With -o json, it prints a JSON object for each packet, one on each line. The command ends when
it is interrupted, or when the agent ends.`,
		Examples: []string{"drops", "drops --all --rate 10"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var o output
			o.declare(flags)
			group := flags.Int("group", -1,
				"`NUMBER` of the nflog group; by default that of the agent's setting verdict-log-group")
			rate := flags.Uint("rate", 100, "print at most this `NUMBER` of packets a second, and count the others")
			all := flags.Bool("all", false, "also print packets that policy allows")
			return func(ctx context.Context, c cli.Console, _ []string) error {
				path := fmt.Sprintf("/v1/drops?rate=%d&all=%t", *rate, *all)
				if *group >= 0 {
					path += fmt.Sprintf("&group=%d", *group)
				}
				err := api.Stream(ctx, o.client(), path, func(v api.Verdict) error {
					if o.format == formatJSON {
						return json.NewEncoder(c.Out).Encode(v)
					}
					c.Printf("%s", verdictText(v))
					return nil
				})
				return o.ended(ctx, err, errFollowed)
			}
		},
	}
}

// errFollowed is the error if the agent ends its answer to the command drops.
var errFollowed = errors.New("the agent has ended, or can no longer follow the group: look at its log")

// ended returns the error of a command that receives events from the agent until an interrupt.
// cause is the error to return if the agent has ended its answer.
func (o *output) ended(ctx context.Context, err, cause error) error {
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil:
		return fmt.Errorf("%s: %w", o.socket, cause)
	}
	return err
}

// verdictText returns a verdict in one line.
func verdictText(v api.Verdict) string {
	var out strings.Builder
	if v.Missed > 0 {
		fmt.Fprintf(&out, "(%d more are not shown)\n", v.Missed)
	}
	fmt.Fprintf(&out, "%s %-5s %s %s -> %s", v.Time.Format("15:04:05.000"), v.Decision, v.Protocol,
		partyText(v.From, v.Src, v.SrcPort), partyText(v.To, v.Dst, v.DstPort))
	if v.In != "" {
		out.WriteString(" in " + v.In)
	}
	if v.Out != "" {
		out.WriteString(" out " + v.Out)
	}
	out.WriteString(": " + v.Reason)
	if v.Policy != nil {
		if v.Tier != "" {
			fmt.Fprintf(&out, "tier %s, ", v.Tier)
		}
		fmt.Fprintf(&out, "%s, %s rule %d", v.Policy, v.Direction, *v.Rule)
	}
	for _, key := range slices.Sorted(maps.Keys(v.Annotations)) {
		fmt.Fprintf(&out, " %s=%q", key, v.Annotations[key])
	}
	out.WriteString("\n")
	return out.String()
}

// partyText returns the source or destination of a packet.
func partyText(name, address string, port uint16) string {
	text := address
	if addr, err := netip.ParseAddr(address); err == nil && port > 0 {
		text = netip.AddrPortFrom(addr, port).String()
	}
	if name == "" {
		return text
	}
	return name + " (" + text + ")"
}
