// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/examples/agent/internal/connectivity"
	"github.com/wayleave/wayleave/examples/agent/internal/node"
	"github.com/wayleave/wayleave/examples/agent/internal/nodetraffic"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/probe"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// waitTimeout is how long the demo waits for the agent to program something.
const waitTimeout = 30 * time.Second

func demoCommand() cli.Command {
	return cli.Command{
		Name:    "demo",
		Summary: "build a small node in a namespace and measure it with real packets",
		About: `Builds a node with a few workloads and a host outside, each in a network namespace of its own,
and runs the agent on the node. Then it sends packets from each to each, and prints who reaches whom: without
policy, with policy, and after a label of a running pod has changed. It compares each result with the verdict
of the policy evaluator. At the end, it captures packets between two nodes: sent directly, in VXLAN, in
IP-in-IP and encrypted by WireGuard. The exit status is 1 if a result differs.

The demo runs as root, or as an ordinary user in a user namespace. It needs no network and no other program.
It does not touch the machine's own network, and leaves nothing behind.

With --manifests, the demo uses your manifests. Write pods and namespaces in separate files. It tries each TCP
or UDP port of a pod that has a name. The host outside has the addresses 198.51.100.10 and 2001:db8:f::10.

With --wire, a second process, "agent dataplane", programs the kernel.

With --etcd, the demo runs an etcd and three nodes, each with an agent. It writes one policy to etcd, and
measures on each node who reaches whom, before and after.`,
		Examples: []string{"demo", "demo --wire", "demo --manifests /etc/wayleave/manifests --ruleset"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var o demoOptions
			flags.BoolVar(&o.ruleset, "ruleset", false, "print the nftables rules that are programmed at the end")
			flags.BoolVar(&o.keep, "keep", false,
				"at the end, start $SHELL in the node's namespace, while the agent still watches the manifests; "+
					"exit the shell to end the demo")
			flags.StringVar(&o.manifests, "manifests", "",
				"`DIR` with manifests to use (a copy of) instead of the demo's own")
			flags.StringVar(&o.edit, "edit", "",
				"`CHANGE` to make while the agent runs: \"FILE: OLD => NEW\"; none by default with --manifests")
			flags.BoolVar(&o.allModes, "all-modes", false,
				"fail if the kernel lacks a module for a mode between nodes, instead of leaving it out")
			flags.BoolVar(&o.wire, "wire", false, "run nftables and routes in a second process")
			shared := flags.Bool("etcd", false, "show three nodes that share an etcd instead: one policy, written once")
			return func(ctx context.Context, c cli.Console, _ []string) error {
				switch {
				case *shared && o != (demoOptions{}):
					return cli.Usagef("demo: --etcd cannot be combined with other flags")
				case *shared:
					return demonstrateEtcd(ctx, c)
				}
				return demonstrate(ctx, c, o)
			}
		},
	}
}

type demoOptions struct {
	ruleset, keep   bool
	allModes, wire  bool
	manifests, edit string
}

// demo is one run of the demonstration.
type demo struct {
	cli.Console
	folder   *folder
	node     *node.Node
	servers  []*probe.Server
	agent    *runningAgent
	backend  *backendProcess // nil without --wire
	table    *ruleset.Table  // the table that the last stage has programmed
	ports    connectivity.Ports
	measured int
	failures []string
}

// demonstrate runs the demo from beginning to end.
func demonstrate(ctx context.Context, c cli.Console, o demoOptions) (err error) {
	started := time.Now()
	ran, code, err := netns.EnsureRoot()
	switch {
	case err != nil:
		return err
	case ran && code != 0:
		return cli.ExitStatus(code)
	case ran:
		return nil
	}
	d := &demo{Console: c}
	defer func() { err = errors.Join(err, d.close()) }()
	edit, err := d.prepare(o)
	if err != nil {
		return err
	}
	if err := d.build(); err != nil {
		return err
	}
	if o.wire {
		if d.backend, err = startBackend(c, d.node.NS); err != nil {
			return err
		}
	}
	if err := d.stages(ctx, edit); err != nil {
		return err
	}
	if o.ruleset {
		d.Printf("\nThe rules in the node's kernel:\n\n%s", d.table)
	}
	different := len(d.failures)
	if err := d.nodeTraffic(ctx, o.allModes); err != nil {
		return err
	}
	d.Printf("\n%d flows measured, %d differ from policy; %.1f s in all\n",
		d.measured, different, time.Since(started).Seconds())
	for _, f := range d.failures {
		d.Printf("  DIFFERS: %s\n", f)
	}
	if o.keep {
		if err := d.shell(); err != nil {
			return err
		}
	}
	if len(d.failures) > 0 {
		return fmt.Errorf("demo: %d flows differ from policy or from their way between nodes: see DIFFERS above",
			len(d.failures))
	}
	return nil
}

// nodeTraffic shows how traffic travels between two nodes that it makes. (The node of the stages is
// not one of them.) With all, it is an error if the kernel lacks the module for a mode.
func (d *demo) nodeTraffic(ctx context.Context, all bool) error {
	d.Printf("\n== Between two nodes, as seen on the wire\n")
	for _, mode := range nodetraffic.Modes() {
		progress := cli.NewProgress(d.Console, "capturing packets")
		result, err := mode.Show(ctx)
		progress.End()
		if err != nil {
			return err
		}
		d.Printf("%s", cli.Fold(result.String(), d.Width()))
		if all && result.Missing != "" {
			return fmt.Errorf("demo: %s: the kernel has no module %s", result.Mode, result.Missing)
		}
		d.failures = append(d.failures, result.Failures()...)
	}
	return nil
}

// prepare reads the manifests and writes them to a new folder.
func (d *demo) prepare(o demoOptions) (*edit, error) {
	source, change := demoManifests(), demoEdit
	if o.manifests != "" {
		var err error
		if source, err = directory(o.manifests); err != nil {
			return nil, err
		}
		change = ""
	}
	if o.edit != "" {
		change = o.edit
	}
	var err error
	if d.folder, err = newFolder(source); err != nil || change == "" {
		return nil, err
	}
	return d.folder.parseEdit(change)
}

// build makes the node, and starts the servers of all parties.
func (d *demo) build() error {
	began := time.Now()
	var err error
	if d.node, err = node.Build(d.folder.endpoints, outside()); err != nil {
		return err
	}
	for _, p := range d.node.Parties {
		server, err := probe.Serve(p)
		if err != nil {
			return err
		}
		d.servers = append(d.servers, server)
	}
	namespaces := map[string]bool{}
	for _, e := range d.folder.endpoints {
		namespaces[e.Namespace] = true
	}
	d.Printf("Node %s: %d workloads in %d namespaces and a host outside, built in %d ms\n\n%s", d.folder.node,
		len(d.folder.endpoints), len(namespaces), time.Since(began).Milliseconds(), connectivity.Legend(d.Coloured()))
	return nil
}

// stages runs the agent, and measures three times: without policy, with policy, and after the edit.
func (d *demo) stages(ctx context.Context, e *edit) error {
	_, err := d.stage(ctx, "Before policy", "namespaces and pods only", func() error {
		if err := d.folder.write(d.folder.base); err != nil {
			return err
		}
		d.agent = startAgent(d.config())
		return nil
	})
	if err != nil {
		return err
	}
	m, err := d.stage(ctx, "With policy", strings.Join(d.folder.rest, ", "), func() error {
		return d.folder.write(d.folder.rest)
	})
	if err != nil {
		return err
	}
	d.explain(m)
	if e != nil {
		_, err = d.stage(ctx, "After a live change", e.String(), func() error { return d.folder.apply(e) })
	}
	return err
}

// config returns the configuration of the agent.
func (d *demo) config() pipeline.Config {
	defaults := settings.Defaults()
	defaults.Socket = "" // an agent of this machine may use that path
	defaults.Node, defaults.Manifests, defaults.TrustAnnotations = d.folder.node, d.folder.path, true
	defaults.ForwardIPv6 = true
	cfg := pipeline.FromSettings(defaults)
	cfg.NetNS = d.node.NS.FD()
	level := slog.LevelWarn
	if d.backend != nil {
		cfg.Sockets = d.backend.folder
		level = slog.LevelError // the first attempts fail, until the second process has connected
	}
	cfg.Logger = slog.New(slog.NewTextHandler(d.Err, &slog.HandlerOptions{Level: level}))
	return cfg
}

// stage makes a change, waits until it is programmed, and measures.
func (d *demo) stage(ctx context.Context, title, detail string, change func() error) (*connectivity.Matrix, error) {
	d.Printf("\n== %s: %s\n", title, detail)
	changed := time.Now()
	if err := change(); err != nil {
		return nil, err
	}
	world, _ := pipeline.Load(d.agent.config) // the agent logs the errors
	table, err := pipeline.Render(d.agent.config, world)
	if table == nil {
		return nil, err
	}
	unchanged := d.table != nil && d.table.Equal(table)
	d.table = table
	since := changed
	if unchanged {
		since = time.Time{}
	}
	programmed, err := d.agent.wait(ctx, table, since)
	if err != nil {
		return nil, err
	}
	if unchanged {
		d.Printf("   the rules stay the same\n\n")
	} else {
		d.Printf("   in the kernel %.1f ms after the files changed\n\n",
			float64(programmed.Sub(changed).Microseconds())/1000)
	}
	progress := cli.NewProgress(d.Console, "sending packets")
	m, err := connectivity.Measure(ctx, connectivity.Config{
		Parties: d.node.Parties, Evaluator: verdict.New(world), Ports: &d.ports, Probe: d.probe,
	})
	progress.End()
	if err != nil {
		return nil, err
	}
	d.Printf("%s", m.Text(connectivity.Style{Coloured: d.Coloured(), Width: d.Width()}))
	d.measured += len(m.Cells)
	for _, difference := range m.Differences() {
		d.failures = append(d.failures, title+": "+difference)
	}
	return m, nil
}

// probe sends the first packet of a flow.
func (d *demo) probe(ctx context.Context, from, to int, flow verdict.Flow, wait time.Duration) probe.Answer {
	return probe.Send(ctx, probe.Probe{From: d.node.Parties[from].NS, To: d.servers[to], Flow: flow, Wait: wait})
}

// explain prints why one of the blocked flows is blocked. If there is one that a rule denies, it
// chooses that.
func (d *demo) explain(m *connectivity.Matrix) {
	world, _ := pipeline.Load(d.agent.config)
	evaluator := verdict.New(world)
	var shown *verdict.Explanation
	for _, c := range m.Cells {
		if c.Allowed {
			continue
		}
		x := evaluator.Explain(c.Flow)
		byRule := deniedByRule(x.Egress) || deniedByRule(x.Ingress)
		if shown == nil || byRule {
			shown = x
		}
		if byRule {
			break
		}
	}
	if shown != nil {
		d.Printf("\nWhy, for one of these:\n\n%s", cli.Fold(shown.String(), d.Width()))
	}
}

func deniedByRule(d *verdict.Direction) bool {
	return d.Outcome == verdict.Deny && d.Decision.By == verdict.ByRule && d.Decision.Policy != policy.Key{}
}

// close ends everything that the demo has started, the namespaces included.
func (d *demo) close() error {
	var errs []error
	if d.agent != nil {
		errs = append(errs, d.agent.stop())
	}
	if d.backend != nil {
		errs = append(errs, d.backend.stop())
	}
	for _, s := range d.servers {
		errs = append(errs, s.Close())
	}
	if d.node != nil {
		errs = append(errs, d.node.Close())
	}
	if d.folder != nil {
		errs = append(errs, d.folder.remove())
	}
	return errors.Join(errs...)
}
