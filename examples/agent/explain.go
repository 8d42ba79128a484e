// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/examples/internal/question"
	"github.com/wayleave/wayleave/policy/verdict"
)

func explainCommand() cli.Command {
	return cli.Command{
		Name:    "explain",
		Args:    "FROM TO PROTOCOL[/PORT]",
		Summary: "say whether policy lets one party reach another, and why",
		About: `Walks through every tier, policy and rule that has a say in a flow. FROM and TO are pods
(NAMESPACE/NAME, or a pattern with *) or addresses; where both families are possible each is explained. It
touches nothing and needs no rights. The command in examples/explain asks more of manifests. Examples:

  agent explain --manifests DIR shop/web data/db tcp/5432
  agent explain --manifests DIR 198.51.100.10 shop/web icmp`,
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var cfg pipeline.Config
			manifestFlags(flags, &cfg)
			asJSON := flags.Bool("json", false, "write JSON, one object a flow")
			return func(_ context.Context, c cli.Console, args []string) error {
				if len(args) != 3 {
					return cli.Usagef("explain: want FROM TO PROTOCOL[/PORT] after the flags")
				}
				if err := complete(&cfg); err != nil {
					return err
				}
				world, rejected := pipeline.Load(cfg)
				flows, err := parseFlows(world, args[0], args[1], args[2])
				if err != nil {
					return errors.Join(append(rejected, err)...)
				}
				evaluator := verdict.New(world)
				for _, flow := range flows {
					if err := printExplanation(c, evaluator.Explain(flow), *asJSON); err != nil {
						return err
					}
				}
				return errors.Join(rejected...)
			}
		},
	}
}

func printExplanation(c cli.Console, x *verdict.Explanation, asJSON bool) error {
	if !asJSON {
		c.Printf("%s", x)
		return nil
	}
	return json.NewEncoder(c.Out).Encode(x)
}

// parseFlows returns the flows that are meant, one for each pair of addresses of one family.
func parseFlows(world verdict.World, from, to, what string) ([]verdict.Flow, error) {
	port, err := question.ParsePort(what)
	if err != nil {
		return nil, cli.Usagef("explain: %w", err)
	}
	book := question.NewBook(world)
	sources, err := book.Find(from)
	if err != nil {
		return nil, err
	}
	destinations, err := book.Find(to)
	if err != nil {
		return nil, err
	}
	var flows []verdict.Flow
	for _, src := range sources {
		for _, dst := range destinations {
			flows = append(flows, port.Flows(src, dst)...)
		}
	}
	if len(flows) == 0 {
		return nil, fmt.Errorf("%s and %s have no addresses of one family, or %s has no port %s", from, to, to, port)
	}
	return flows, nil
}
