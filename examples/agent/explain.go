// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"

	"github.com/wayleave/wayleave/examples/agent/internal/flows"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/policy"
)

func explainCommand() cli.Command {
	return cli.Command{
		Name:    "explain",
		Args:    "FROM TO PROTOCOL[/PORT]",
		Summary: "show whether policy lets one party reach another, and why",
		About: `Prints the verdict of policy for a flow, and each tier, policy and rule that led to it. For
each rule it prints where the rule comes from: the file and line, or the object of the Kubernetes API, and the
field with the peer and the port. For a policy without rules, it prints where the policy comes from. FROM and
TO are addresses or pods (NAMESPACE/NAME; * matches any text). If both have IPv4 and IPv6 addresses, the
command explains a flow of each.

The command uses the running agent. With --manifests, it reads the manifests instead, and needs neither an
agent nor root. With -o json, it prints a JSON object for each flow, one on each line.

The program in examples/explain answers more questions about manifests.`,
		Examples: []string{
			"explain shop/web data/db tcp/5432",
			"explain --manifests /etc/wayleave/manifests 198.51.100.10 shop/web icmp",
		},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			s := offline()
			sourceFlags(flags, &s)
			var o output
			o.declare(flags)
			asJSON := flags.Bool("json", false, "the same as -o json")
			return func(ctx context.Context, c cli.Console, args []string) error {
				if len(args) != 3 {
					return cli.Usagef("explain: want FROM TO PROTOCOL[/PORT] after the flags")
				}
				if *asJSON {
					o.format = formatJSON
				}
				q := api.Question{From: args[0], To: args[1], Port: args[2]}
				if !s.hasSources() {
					list, err := send[[]api.Explanation](ctx, c, o, http.MethodPost, "/v1/explain", q)
					if err != nil {
						return err
					}
					return printExplanations(c, o, list)
				}
				return explainOffline(c, o, s, q)
			}
		},
	}
}

// explainOffline answers from manifests, without an agent.
func explainOffline(c cli.Console, o output, s offlineSettings, q api.Question) error {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	world, rejected := load(c, cfg)
	parsed, err := flows.Parse(world, q.From, q.To, q.Port)
	var port *flows.PortError
	var party *flows.PartyError
	switch {
	case errors.As(err, &port):
		return cli.Usagef("explain: %w", err)
	case errors.As(err, &party):
		err = fmt.Errorf("%w: give an address, or a pod of the manifests with spec.nodeName and status.podIPs", err)
	}
	if err != nil {
		return errors.Join(append(rejected, err)...)
	}
	list, err := flows.Explain(world, parsed, func([]policy.Key) flows.Origins {
		progress := cli.NewProgress(c, "finding the lines of the rules")
		defer progress.End()
		return pipeline.Origins(cfg)
	})
	if err != nil {
		return err
	}
	return errors.Join(append(rejected, printExplanations(c, o, list))...)
}

// printExplanations prints text, or JSON with one object for each flow.
func printExplanations(c cli.Console, o output, list []api.Explanation) error {
	for _, x := range list {
		if o.format != formatJSON {
			c.Printf("%s", cli.Fold(x.Text, c.Width()))
		} else {
			c.Printf("%s\n", x.Explanation)
		}
	}
	return nil
}
