// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/memory"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/agent/internal/tableowner"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

func runCommand() cli.Command {
	return cli.Command{
		Name:    "run",
		Summary: "program this node, and react to changes",
		About: `Programs the policy and the routes of this node from the manifests in a directory. It programs
each change of the manifests, until SIGINT or SIGTERM. When it ends, everything stays in the kernel: policy is
still enforced. The next run continues with that. Needs root (CAP_NET_ADMIN).

If a manifest is invalid, the agent logs its file, document and field. Its objects are absent, and the agent
uses all others. If one rule of a policy is invalid, the policy still applies: an invalid Allow
rule matches nothing, and an invalid Deny rule denies everything.

With --etcd, the agent also reads objects and settings from an etcd that several nodes share, and reports
there what it has programmed. With --kubeconfig or --in-cluster, it reads objects from the API of a Kubernetes
cluster.

Each setting can come from five places. Of two places, the later one in this list takes precedence:

  1. the environment: WAYLEAVE_APPLY_INTERVAL for --apply-interval
  2. the YAML file of --config or WAYLEAVE_CONFIG: apply-interval: 20ms
  3. an object of kind AgentConfig for all nodes, among the manifests or in etcd
  4. an object of kind AgentConfig for this node
  5. the command line

"agent config" shows each setting and the place it comes from. On SIGHUP, the agent reads the file again.
Changes of settings that an AgentConfig may have take effect at once. The log and "agent status" show errors,
and changes that take effect only after a restart.`,
		Examples: []string{
			"run --manifests /etc/wayleave/manifests",
			"run --in-cluster --node n1 --verdict-log-group 100 --flows",
		},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			declared := settings.Defaults()
			settings.Declare(flags, &declared)
			config := configFlag(flags)
			show := flags.Bool("ruleset", false, "print the nftables rules whenever they have changed")
			return func(ctx context.Context, c cli.Console, _ []string) error {
				_, above := layers(flags, *config)
				return runAgent(ctx, c, func() []settings.Layer {
					below, _ := layers(flags, *config)
					return below
				}, above, *show)
			}
		},
	}
}

// configFlag declares the flag with the path of the settings file.
func configFlag(flags *flag.FlagSet) *string {
	return flags.String("config", "", "`FILE` with settings, as YAML; that of WAYLEAVE_CONFIG if not given, or none")
}

// layers returns the settings with lower and with higher precedence than those of the datastore.
func layers(flags *flag.FlagSet, config string) (below, above []settings.Layer) {
	path := cmp.Or(config, os.Getenv(settings.ConfigVariable))
	below = []settings.Layer{settings.Environment(os.Environ()), settings.File(path)}
	return below, []settings.Layer{settings.CommandLine(flags)}
}

// runAgent runs the agent. At the start, and again after each SIGHUP, it reads the settings that
// have lower precedence than those of the datastore.
func runAgent(
	ctx context.Context, c cli.Console, read func() []settings.Layer, above []settings.Layer, show bool,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reread := onHangup(ctx, read)
	below := read()
	effective, opened, err := checkSettings(slices.Concat(below, above))
	if err != nil {
		return err
	}
	defer func() { _ = opened.close() }() // an error loses no data
	// Check the rights before the agent creates directories or waits for one. Other errors of the
	// kernel are reported later.
	if _, err := tableowner.Find(effective.Table); errors.Is(err, syscall.EPERM) {
		return withoutRights("run", err)
	}
	limit := memory.Read(os.DirFS("/"))
	memory.Set(limit)
	refused, started := endIfRefused(cancel), saveMemory()
	printTable := printChanges(c)
	err = daemon.Run(ctx, daemon.Config{
		Below: below, Above: above, Reread: reread, Etcd: opened.etcd, Kubernetes: opened.kubernetes, Log: c.Err,
		Memory: limit, Exceeded: func(error) {
			os.Exit(1) // exit at once, because running computations need more and more memory
		}, Programmed: func(s pipeline.State) {
			refused(s)
			started(s)
			if show {
				printTable(s)
			}
		},
	})
	if errors.Is(err, syscall.EPERM) { // not EACCES, which is about a file or directory
		return withoutRights("run", err)
	}
	if err != nil {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, fs.ErrPermission) {
		return cause
	}
	return nil
}

// onHangup returns a channel that receives the result of read after each SIGHUP, until ctx is done.
// Afterwards, SIGHUP is ignored, so that it does not kill a process that is shutting down.
func onHangup(ctx context.Context, read func() []settings.Layer) <-chan []settings.Layer {
	hangups, out := make(chan os.Signal, 1), make(chan []settings.Layer)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-hangups:
			case <-ctx.Done():
				return
			}
			select {
			case out <- read():
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// endIfRefused returns a function that ends the agent if the kernel refuses the first attempt to
// program for lack of rights. A retry would fail again.
func endIfRefused(cancel context.CancelCauseFunc) func(pipeline.State) {
	worked := false
	return func(s pipeline.State) {
		worked = worked || s.Table() != nil
		if !worked && errors.Is(s.Err, fs.ErrPermission) {
			cancel(withoutRights("run", s.Err))
		}
	}
}

// steadyGOGC is the value of GOGC after the start: the percentage by which the heap may grow before
// garbage is collected. After the start few objects change, and memory is more important than time.
// During the start, when all objects are read at once, the agent uses Go's default of 100.
const steadyGOGC = 25

// saveMemory returns a function that releases the memory that the start has used. From then on,
// garbage is collected earlier, unless the environment sets GOGC.
func saveMemory() func(pipeline.State) {
	var once sync.Once
	return func(s pipeline.State) {
		if !s.InSync {
			return
		}
		once.Do(func() {
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(steadyGOGC)
			}
			go debug.FreeOSMemory() // takes time, and programming need not wait for it
		})
	}
}

// withoutRights returns the error of a command that the kernel refuses.
func withoutRights(command string, err error) error {
	return fmt.Errorf("%s needs root, or CAP_NET_ADMIN in the network namespace: %w: use sudo", command, err)
}

// printChanges returns a function that prints the table whenever the table has changed.
func printChanges(c cli.Console) func(pipeline.State) {
	var last *ruleset.Table
	return func(s pipeline.State) {
		table := s.Table()
		if table != nil && (last == nil || !last.Equal(table)) {
			c.Printf("%s", table)
			last = table
		}
	}
}
