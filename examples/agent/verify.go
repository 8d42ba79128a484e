// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// The exit statuses of verify besides 0.
const (
	statusDiffers = 1
	statusFailed  = 2
)

func verifyCommand() cli.Command {
	return cli.Command{
		Name: "verify", Summary: "prove that the kernel enforces the policy of this node",
		About: `Makes two comparisons for the running agent. First, the agent reads its nftables table from
the kernel, and compares each rule, set and element with the desired table. Then it compares the desired table
with policy: for each endpoint of the node, it takes one packet of each kind that policy or the table can tell
apart, evaluates the table for this packet, and compares the result with the verdict of policy.

The command prints the first differences with an explanation, and lists what it did not compare. It changes
and repairs nothing.

With --manifests or --resources, it makes the second comparison alone, with the table that "agent run" would
write for these objects. It then needs no agent.

The exit status is 0 if there is no difference, 1 if there is one, and 2 if the comparison failed.`,
		Examples: []string{"verify", "verify --manifests /etc/wayleave/manifests --node n1"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			s := offline()
			sourceFlags(flags, &s)
			settings.DeclareTable(flags, &s.Settings)
			flags.StringVar(&s.Node, "node", s.Node, "`NAME` of the node, with --manifests")
			var o output
			o.declare(flags)
			asJSON := flags.Bool("json", false, "the same as -o json")
			limit := flags.Int("limit", 10, "print at most this `NUMBER` of differences")
			return func(ctx context.Context, c cli.Console, args []string) error {
				if len(args) != 0 || *limit < 1 {
					return cli.Usagef("verify: want flags only, and a --limit of at least 1")
				}
				if *asJSON {
					o.format = formatJSON
				}
				progress := cli.NewProgress(c, "proving, steps")
				v, err := verification(ctx, o, s, *limit, progress)
				progress.End()
				if err == nil {
					err = o.print(c, v.Result, cli.Fold(v.Text, c.Width()))
				}
				switch {
				case err != nil:
					c.Errorf("agent verify: %v\n", err)
					return cli.ExitStatus(statusFailed)
				case v.Differs:
					return cli.ExitStatus(statusDiffers)
				}
				return nil
			}
		},
	}
}

// verification requests the result from the agent. If sources are given on the command line, it
// computes the result itself.
func verification(
	ctx context.Context, o output, s offlineSettings, limit int, progress *cli.Progress,
) (last api.Verification, err error) {
	if s.hasSources() {
		return verifyOffline(ctx, s, limit, progress)
	}
	path := fmt.Sprintf("/v1/verify?limit=%d", limit)
	err = api.Stream(ctx, o.client(), path, func(v api.Verification) error {
		if last = v; v.All > 0 {
			progress.Report(v.Done, v.All)
		}
		return nil
	})
	switch {
	case err != nil:
	case last.Error != "":
		err = errors.New(last.Error)
	case !last.Last:
		err = fmt.Errorf("%s: %w", o.socket, api.ErrEnded)
	}
	return last, err
}

// verifyOffline renders the table for the sources, and compares it with their policy.
func verifyOffline(
	ctx context.Context, s offlineSettings, limit int, progress *cli.Progress,
) (v api.Verification, err error) {
	cfg, err := s.config()
	if err != nil {
		return v, err
	}
	world, rejected := pipeline.Load(cfg)
	if err := hasNode(world, s.Node); err != nil {
		return v, errors.Join(append(rejected, err)...)
	}
	table, err := pipeline.Render(cfg, world)
	if err = errors.Join(append(rejected, err)...); err != nil {
		return v, err
	}
	result, err := pipeline.Prove(ctx, cfg, world, table, limit, func(done, all int) error {
		progress.Report(done, all)
		return nil
	})
	if err != nil {
		return v, err
	}
	v = api.Verification{Last: true, Differs: result.Differs(), Text: result.String()}
	v.Result, err = json.Marshal(result)
	return v, err
}

// hasNode returns an error that lists the nodes of the world if the world has no object of the
// node.
func hasNode(world verdict.World, node string) error {
	nodes := map[string]bool{}
	for _, r := range world {
		switch r := r.(type) {
		case *policy.Node:
			nodes[r.Name] = true
		case *policy.WorkloadEndpoint:
			nodes[r.Node] = true
		case *policy.HostEndpoint:
			nodes[r.Node] = true
		}
	}
	const listed = 5
	names := slices.Sorted(maps.Keys(nodes))
	text := strings.Join(names[:min(len(names), listed)], ", ")
	if more := len(names) - listed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	switch {
	case nodes[node]:
		return nil
	case len(names) == 0:
		return fmt.Errorf("the manifests have no object of node %q: add a Node, a HostEndpoint, or a Pod with "+
			"spec.nodeName and status.podIPs", node)
	}
	return fmt.Errorf("the manifests have no object of node %q: set --node to one of these nodes: %s", node, text)
}
