// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

func runCommand() cli.Command {
	return cli.Command{
		Name:    "run",
		Summary: "program this node and keep it right",
		About: `Programs what the manifests in a directory say into this node's kernel, then every change of
them, until SIGINT or SIGTERM. The kernel keeps what was programmed: packets go on being
judged, and the next run picks up from there. Needs root (CAP_NET_ADMIN).

A manifest that makes no sense is logged with file, document and field; its objects are absent (of a
Kubernetes NetworkPolicy, just the rule with a bad peer or port: the policy goes on isolating), all others count.`,
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var cfg pipeline.Config
			configFlags(flags, &cfg)
			flags.BoolVar(&cfg.ForwardIPv6, "forward-ipv6", false,
				"forward IPv6 between all of the node's interfaces; workloads have none otherwise, and the node does not heed router advertisements any more")
			show := flags.Bool("ruleset", false, "print the nftables rules whenever they have changed")
			level := slog.LevelInfo
			flags.TextVar(&level, "log-level", level, "log what is at least `LEVEL`: DEBUG, INFO, WARN or ERROR")
			return func(ctx context.Context, c cli.Console, _ []string) error {
				if err := complete(&cfg); err != nil {
					return err
				}
				cfg.Logger = slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: level}))
				ctx, cancel := context.WithCancelCause(ctx)
				defer cancel(nil)
				refused := endIfRefused(cancel)
				show := *show
				printTable := printChanges(c)
				cfg.Programmed = func(s pipeline.State) {
					refused(s)
					if show {
						printTable(s)
					}
				}
				cfg.Logger.Info("starting", "node", cfg.Node, "manifests", cfg.Manifests)
				if err := pipeline.Run(ctx, cfg); err != nil {
					return err
				}
				if cause := context.Cause(ctx); errors.Is(cause, fs.ErrPermission) {
					return cause
				}
				cfg.Logger.Info("stopped; the kernel stays as it is")
				return nil
			}
		},
	}
}

// endIfRefused returns a function that ends the run if the kernel refuses the first thing that is programmed:
// without the rights trying again is of no use.
func endIfRefused(cancel context.CancelCauseFunc) func(pipeline.State) {
	worked := false
	return func(s pipeline.State) {
		worked = worked || s.Table != nil
		if !worked && errors.Is(s.Err, fs.ErrPermission) {
			cancel(fmt.Errorf("run needs root, or CAP_NET_ADMIN in the network namespace: %w", s.Err))
		}
	}
}

// printChanges returns a function that prints the table whenever it is another one.
func printChanges(c cli.Console) func(pipeline.State) {
	var last *ruleset.Table
	return func(s pipeline.State) {
		if s.Table != nil && (last == nil || !last.Equal(s.Table)) {
			c.Printf("%s", s.Table)
			last = s.Table
		}
	}
}

func rulesetCommand() cli.Command {
	return cli.Command{
		Name:    "ruleset",
		Summary: "show the nftables rules for a node, program nothing",
		About: `Prints, in the syntax of nft, the table that 'agent run' would program for the manifests in a
directory. It touches nothing and needs no rights.`,
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var cfg pipeline.Config
			configFlags(flags, &cfg)
			return func(_ context.Context, c cli.Console, _ []string) error {
				if err := complete(&cfg); err != nil {
					return err
				}
				world, rejected := pipeline.Load(cfg)
				table, err := pipeline.Render(cfg, world)
				if table != nil {
					c.Printf("%s", table)
				}
				return errors.Join(append(rejected, err)...)
			}
		},
	}
}

// configFlags declares the flags that say what to program.
func configFlags(flags *flag.FlagSet, cfg *pipeline.Config) {
	manifestFlags(flags, cfg)
	flags.StringVar(&cfg.Node, "node", "", "`NAME` of the node whose pods to look after; the machine's host name if not given")
	flags.StringVar(&cfg.InterfacePrefix, "interface-prefix", "way", "`PREFIX` of the names of workloads' interfaces; those that no pod accounts for drop everything")
	flags.StringVar(&cfg.Table, "table", "wayleave", "`NAME` of the nftables table, which must be the agent's alone")
}

// manifestFlags declares the flags that say what to read.
func manifestFlags(flags *flag.FlagSet, cfg *pipeline.Config) {
	flags.StringVar(&cfg.Manifests, "manifests", "", "`DIR` with the manifests: *.yaml, *.yml and *.json. Required")
	flags.BoolVar(&cfg.TrustAnnotations, "trust-annotations", false,
		"let pods name their interface and MAC address by the annotations wayleave.dev/interface and wayleave.dev/mac")
}

// complete fills in what was not given and can be known.
func complete(cfg *pipeline.Config) error {
	if cfg.Manifests == "" {
		return cli.Usagef("--manifests is required")
	}
	if info, err := os.Stat(cfg.Manifests); err != nil {
		return fmt.Errorf("--manifests: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("--manifests: %s is not a directory", cfg.Manifests)
	}
	if cfg.Node != "" {
		return nil
	}
	var err error
	cfg.Node, err = os.Hostname()
	return err
}
