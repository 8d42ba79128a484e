// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"syscall"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/agent/internal/tableowner"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

func dataplaneCommand() cli.Command {
	return cli.Command{
		Name:    "dataplane",
		Args:    "FOLDER",
		Summary: "program this node for a policy engine in another process",
		About: `Programs nftables and routes of this node for a policy engine that runs in another process.
Runs until SIGINT or SIGTERM. Needs root (CAP_NET_ADMIN).

The policy engine serves two Unix sockets in FOLDER, with package dataplane/wire: "policy" for nftables and
"routes" for routes. This command waits for the sockets. When a connection ends, it connects again. While
there is no connection, and after the command ends, the kernel keeps what was programmed. The policy engine
must run as the same user as this command, or as root.

"agent demo --wire" shows how it works.`,
		Examples: []string{"dataplane /run/wayleave/sockets"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			declared := settings.Defaults()
			settings.DeclareKernel(flags, &declared)
			config := configFlag(flags)
			return func(ctx context.Context, c cli.Console, args []string) error {
				if len(args) != 1 {
					return cli.Usagef("dataplane: want one FOLDER with the sockets")
				}
				below, above := layers(flags, *config)
				keys := append(settings.KernelKeys(), "log-level")
				effective, err := settings.ResolveKeys(append(below, above...), keys...)
				if err != nil {
					return err
				}
				return serveDataplanes(ctx, c, effective.Settings, args[0])
			}
		},
	}
}

// serveDataplanes runs the dataplanes until ctx is done.
func serveDataplanes(ctx context.Context, c cli.Console, s settings.Settings, folder string) error {
	if _, err := tableowner.Find(s.Table); errors.Is(err, syscall.EPERM) {
		return withoutRights("dataplane", err)
	}
	s.Socket = "" // no file for sysctls: that file belongs to the agent
	cfg := pipeline.FromSettings(s)
	cfg.Sockets = folder
	cfg.Logger = slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: s.LogLevel}))
	return pipeline.ServeDataplanes(ctx, cfg)
}
