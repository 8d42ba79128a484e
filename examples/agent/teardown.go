// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/agent/internal/tableowner"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

func teardownCommand() cli.Command {
	return cli.Command{
		Name:    "teardown",
		Summary: "remove from the kernel everything that the agent made",
		About: `Removes from this node's kernel what "agent run" left: routes, neighbour and proxy entries,
routing rules, WireGuard, VXLAN and IP-in-IP devices, and the nftables table. It restores each sysctl that
still has the value of the agent. It prints each change as a command of ip, bridge, sysctl or nft. Afterwards,
no policy is enforced, and workloads have no connectivity. Needs root (CAP_NET_ADMIN).

Stop the agent first. The files in the endpoint directory stay, and so do the private keys of WireGuard.

The command uses the settings below and ignores the other settings of "agent run". If it cannot read the file
of --config, give all settings as flags.

With --hold, the command does not end after success, but waits until it is stopped. A DaemonSet needs that,
because it would start an ended pod again.`,
		Examples: []string{"teardown --dry-run", "teardown --config /etc/wayleave/agent.yaml"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			declared := settings.Defaults()
			settings.DeclareIdentity(flags, &declared)
			config := configFlag(flags)
			dry := flags.Bool("dry-run", false, "print the changes, but do not make them")
			hold := flags.Bool("hold", false, "stay after success, until the command is stopped")
			return func(ctx context.Context, c cli.Console, _ []string) error {
				below, above := layers(flags, *config)
				effective, err := settings.ResolveKeys(append(below, above...), "table", "route-protocol", "socket")
				if err != nil {
					return err
				}
				if err := teardown(ctx, c, effective.Settings, *dry); err != nil || !*hold {
					return err
				}
				c.Printf("done, and waiting to be stopped\n")
				<-ctx.Done()
				return nil
			}
		},
	}
}

// teardown removes all kernel state of the agent, unless an agent runs. It detects an agent that
// holds the lock of the socket, and an agent with another socket that owns the table. During the
// teardown, teardown holds the lock, so that no agent with that socket can start.
func teardown(ctx context.Context, c cli.Console, s settings.Settings, dry bool) error {
	owner, err := tableowner.Find(s.Table)
	if errors.Is(err, syscall.EPERM) {
		return withoutRights("teardown", err)
	}
	if s.Socket != "" {
		lock, err := api.Lock(s.Socket)
		if err != nil {
			return err
		}
		defer func() { _ = lock.Close() }()
	}
	if owner.Port != 0 { // check before routes are removed, because the table could not be removed
		return fmt.Errorf("table inet %s belongs to %s: %s", s.Table, owner, stopFirst(owner))
	}
	progress := cli.NewProgress(c, "removing")
	commands, err := pipeline.Teardown(ctx, pipeline.Config{
		Table: s.Table, RouteProtocol: uint8(s.RouteProtocol), SysctlFile: s.SysctlFile(),
		Logger: slog.New(slog.DiscardHandler),
	}, dry)
	progress.End()
	for _, command := range commands {
		c.Printf("%s\n", command)
	}
	switch {
	case errors.Is(err, syscall.EPERM):
		return withoutRights("teardown", err)
	case err != nil:
		return fmt.Errorf("not everything is removed; run teardown again: %w", err)
	case len(commands) == 0:
		c.Printf("nothing of the agent is in the kernel: neither table inet %s nor a route of protocol %d\n",
			s.Table, s.RouteProtocol)
	}
	return nil
}

// stopFirst returns the text of an error: the user must first stop the agent that owns a table.
func stopFirst(o tableowner.Owner) string {
	if o.PID == 0 {
		return "stop the agent first"
	}
	return fmt.Sprintf("stop the agent (process %d) first", o.PID)
}
