// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/policy/verdict"
)

// offlineSettings has the settings for commands that need no running agent.
type offlineSettings struct{ settings.Settings }

func offline() offlineSettings { return offlineSettings{settings.Defaults()} }

// sourceFlags declares the flags of sources.
func sourceFlags(flags *flag.FlagSet, s *offlineSettings) {
	settings.DeclareSources(flags, &s.Settings)
}

func (s offlineSettings) hasSources() bool { return s.Manifests != "" || s.Resources != "" }

// config returns the configuration of the pipeline.
func (s offlineSettings) config() (pipeline.Config, error) {
	return pipeline.FromSettings(s.Settings), existing(s.Settings)
}

// load reads the directories once, and shows progress; see pipeline.Load.
func load(c cli.Console, cfg pipeline.Config) (verdict.World, []error) {
	progress := cli.NewProgress(c, "reading manifests")
	defer progress.End()
	return pipeline.Load(cfg)
}

// existing checks that the configured directories can be read.
func existing(s settings.Settings) error {
	var errs []error
	for _, path := range []string{s.Manifests, s.Resources} {
		if path != "" {
			if _, err := os.ReadDir(path); err != nil {
				errs = append(errs, noFolder(err))
			}
		}
	}
	return errors.Join(errs...)
}

// noFolder returns the error of a folder that cannot be read.
func noFolder(err error) error { return fmt.Errorf("%w: give a folder of manifests", err) }

func rulesetCommand() cli.Command {
	return cli.Command{
		Name:    "ruleset",
		Summary: "show the nftables rules of the agent, or those for manifests",
		About: `Prints the nftables table that the running agent wrote last, in the syntax of nft. With
--manifests, it prints the table that "agent run" would write for these manifests. For that, it needs neither
an agent nor root.`,
		Examples: []string{"ruleset", "ruleset --manifests /etc/wayleave/manifests --node n1"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			s := offline()
			sourceFlags(flags, &s)
			settings.DeclareTable(flags, &s.Settings)
			flags.StringVar(&s.Node, "node", s.Node, "`NAME` of the node, with --manifests")
			var o output
			o.declare(flags)
			return func(ctx context.Context, c cli.Console, _ []string) error {
				if !s.hasSources() {
					r, err := get[api.Ruleset](ctx, c, o, "/v1/ruleset")
					if err != nil {
						return err
					}
					return o.print(c, r, r.Table)
				}
				cfg, err := s.config()
				if err != nil {
					return err
				}
				world, rejected := load(c, cfg)
				table, err := pipeline.Render(cfg, world)
				if table != nil {
					text := table.String()
					err = errors.Join(o.print(c, api.Ruleset{Table: text}, text), err)
				}
				return errors.Join(append(rejected, err)...)
			}
		},
	}
}
