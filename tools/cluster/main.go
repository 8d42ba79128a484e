// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
)

// command is one of the program's commands.
type command struct {
	name, arguments, help string
	run                   func(ctx context.Context, c *cluster, args []string) error
	kind                  commandKind
}

// commandKind is how a command answers --help.
type commandKind int

const (
	plain     commandKind = iota // it has no flags
	withFlags                    // run prints the help, before it uses the cluster
	runsOther                    // the arguments after the first are another command's
)

// parse parses flags wherever they stand, and returns the other arguments.
func parse(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
			return rest, err
		}
		rest, args = append(rest, flags.Arg(0)), flags.Args()[1:]
	}
}

func commands() []command {
	return []command{
		{"up", "[FLAGS]", "start a cluster and install Wayleave on it", runUp, withFlags},
		{"down", "", "end the cluster; logs, results and programs stay in bin", runDown, plain},
		{
			"shell", "[COMMAND...]", "run a shell, or a command, that has kubectl and the cluster's network",
			runShell, runsOther,
		},
		{"node", "NODE [COMMAND...]", "run a shell, or a command, on a node", runNode, runsOther},
		{"kill", "NODE", "end a node as a power failure does", runKill, plain},
		{"start", "NODE", "start a killed node again", runStart, plain},
		{"stop", "MACHINE PROGRAM", "stop a program, for example 'control kube-apiserver'", runStop, plain},
		{"resume", "MACHINE", "start the stopped programs of a machine again", runResume, plain},
		{
			"test", "[SUITE...]", "run suites of tests on the cluster and print a table of their results",
			runTest, withFlags,
		},
		{
			"faults", "[SCENARIO...]", "probe policy while nodes, agents or the control plane fail",
			runFaults, withFlags,
		},
		{
			"pages", "[PAGE...]", "run the commands of docs/migrate.md and docs/kubernetes.md, which remove Wayleave",
			runPages, plain,
		},
		{
			"use", "IMPLEMENTATION", "make another implementation enforce policy, for example before 'test'",
			runUse, plain,
		},
		{
			"compare", "[IMPLEMENTATION...]", "measure implementations of network policy in rounds",
			runCompare, withFlags,
		},
	}
}

func main() {
	machine.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		stop()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() > 0 {
			os.Exit(exit.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	repository := flags.String("C", ".", "the `folder` of the repository; programs, state and logs are in its bin")
	flags.Usage = func() { usage(flags) }
	if err := flags.Parse(args); err != nil {
		return ignoreHelp(err)
	}
	args = flags.Args()
	if len(args) == 2 && args[0] == "help" {
		args = []string{args[1], "--help"}
	}
	if len(args) == 0 || args[0] == "help" {
		usage(flags)
		return nil
	}
	i := slices.IndexFunc(commands(), func(c command) bool { return c.name == args[0] })
	if i < 0 {
		return fmt.Errorf("no command %q; 'cluster help' lists the commands", args[0])
	}
	if called := commands()[i]; called.isHelp(args[1:]) {
		return called.printHelp(ctx, flags.Output())
	}
	if os.Geteuid() != 0 {
		return errors.New("a cluster needs root: it makes namespaces, mounts and control groups")
	}
	c, err := openCluster(*repository)
	if err != nil {
		return err
	}
	return commands()[i].run(ctx, c, args[1:])
}

// isHelp reports whether the arguments request the help of a command.
func (c command) isHelp(args []string) bool {
	if c.kind == runsOther {
		args = args[:min(len(args), 1)]
	}
	return slices.ContainsFunc(args, func(arg string) bool {
		return arg == "-h" || arg == "-help" || arg == "--help"
	})
}

// printHelp prints the usage of a command. It needs neither root nor a cluster.
func (c command) printHelp(ctx context.Context, out io.Writer) error {
	if c.kind == withFlags {
		return ignoreHelp(c.run(ctx, &cluster{}, []string{"--help"}))
	}
	fmt.Fprintf(out, "usage: cluster %s\n\n%s\n", strings.TrimSpace(c.name+" "+c.arguments), c.help)
	return nil
}

func usage(flags *flag.FlagSet) {
	out := flags.Output()
	fmt.Fprint(out, "A Kubernetes cluster on this host, each node in namespaces of its own.\n\n"+
		"usage: cluster [-C FOLDER] COMMAND\n"+
		"       cluster COMMAND --help\n\n")
	for _, c := range commands() {
		fmt.Fprintf(out, "  %-24s %s\n", strings.TrimSpace(c.name+" "+c.arguments), c.help)
	}
	fmt.Fprintln(out)
	flags.PrintDefaults()
}

func ignoreHelp(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	return err
}

// interactive runs a command with the standard files of this program.
func interactive(cmd *exec.Cmd) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

func runShell(ctx context.Context, c *cluster, args []string) error {
	control, err := machine.Open(c.machine(controlName))
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{shell()}
	}
	cmd := control.NetCommand(ctx, args...)
	cmd.Env = c.clientEnvironment()
	return interactive(cmd)
}

func runNode(ctx context.Context, c *cluster, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: cluster node NODE [COMMAND...]")
	}
	node, err := machine.Open(c.machine(args[0]))
	if err != nil {
		return err
	}
	if len(args) == 1 {
		args = append(args, shell())
	}
	cmd := node.Command(ctx, args[1:]...)
	cmd.Env = append(os.Environ(), "PATH="+c.path())
	return interactive(cmd)
}

func shell() string {
	if shell := os.Getenv("SHELL"); shell != "" {
		return shell
	}
	return "sh"
}

// node returns the index of a node. Only nodes can be killed and started again: the control plane
// has the bridge that connects all machines.
func (c *cluster) node(name string) (int, error) {
	if i := slices.Index(c.nodes(), name); i >= 0 {
		return i, nil
	}
	switch {
	case name == controlName:
		return 0, errors.New("control is the machine of the control plane, which is not killed or started as nodes " +
			"are. 'cluster stop control PROGRAM' stops one of its programs. 'cluster resume control' starts them again")
	case c.Nodes == 0:
		return 0, errors.New("no cluster runs")
	}
	return 0, fmt.Errorf("no node %q, only %s", name, strings.Join(c.nodes(), ", "))
}

func runKill(_ context.Context, c *cluster, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: cluster kill NODE")
	}
	if _, err := c.node(args[0]); err != nil {
		return err
	}
	node, err := machine.Open(c.machine(args[0]))
	if err != nil {
		return err
	}
	return node.Kill()
}

func runStart(ctx context.Context, c *cluster, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: cluster start NODE")
	}
	i, err := c.node(args[0])
	if err != nil {
		return err
	}
	return c.startNode(ctx, i)
}

func runStop(_ context.Context, c *cluster, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: cluster stop MACHINE PROGRAM")
	}
	m, err := machine.Open(c.machine(args[0]))
	if err != nil {
		return err
	}
	programs := c.programs(args[0])
	kept := slices.DeleteFunc(slices.Clone(programs), func(p machine.Program) bool { return p.Name == args[1] })
	if len(kept) == len(programs) {
		return fmt.Errorf("machine %s has no program %q", args[0], args[1])
	}
	return m.Run(kept)
}

func runResume(_ context.Context, c *cluster, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: cluster resume MACHINE")
	}
	m, err := machine.Open(c.machine(args[0]))
	if err != nil {
		return err
	}
	return m.Run(c.programs(args[0]))
}

func runDown(_ context.Context, c *cluster, args []string) error {
	if len(args) != 0 {
		return errors.New("usage: cluster down")
	}
	return c.down()
}
