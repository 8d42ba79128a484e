// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
}

func commands() []command {
	return []command{
		{"up", "[FLAGS]", "start a cluster and install Wayleave on it", runUp},
		{"down", "", "end the cluster; logs, results and programs stay in bin", runDown},
		{"shell", "[COMMAND...]", "run a shell, or a command, that has kubectl and the cluster's network", runShell},
		{"node", "NODE [COMMAND...]", "run a shell, or a command, on a node", runNode},
		{"kill", "NODE", "end a node as a power failure does", runKill},
		{"start", "NODE", "start a killed node again", runStart},
		{"stop", "MACHINE SERVICE", "stop a service, for example 'control kube-apiserver'", runStop},
		{"resume", "MACHINE", "start the stopped services of a machine again", runResume},
		{"test", "[SUITE...]", "run suites of tests on the cluster and print a table of their results", runTest},
		{"faults", "[SCENARIO...]", "probe policy while nodes, agents or the control plane fail", runFaults},
		{"use", "IMPLEMENTATION", "make another implementation enforce policy, for example before 'test'", runUse},
		{"compare", "[IMPLEMENTATION...]", "measure implementations of network policy in rounds", runCompare},
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
	if len(args) == 0 || args[0] == "help" {
		usage(flags)
		return nil
	}
	i := slices.IndexFunc(commands(), func(c command) bool { return c.name == args[0] })
	if i < 0 {
		return fmt.Errorf("no command %q; 'cluster help' lists the commands", args[0])
	}
	if os.Geteuid() != 0 {
		return errors.New("a cluster needs root: it makes namespaces, mounts and control groups")
	}
	c, err := openCluster(*repository)
	if err != nil {
		return err
	}
	return ignoreHelp(commands()[i].run(ctx, c, args[1:]))
}

func usage(flags *flag.FlagSet) {
	out := flags.Output()
	fmt.Fprint(out, "A Kubernetes cluster on this host, each node in namespaces of its own.\n\n"+
		"usage: cluster [-C FOLDER] COMMAND\n\n")
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

func runKill(_ context.Context, c *cluster, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: cluster kill NODE")
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
	i := slices.Index(c.nodes(), args[0])
	if i < 0 {
		return fmt.Errorf("no node %q, only %s", args[0], strings.Join(c.nodes(), ", "))
	}
	if _, err := machine.Open(c.machine(args[0])); err == nil {
		return fmt.Errorf("node %s runs already", args[0])
	}
	return c.startNode(ctx, i)
}

func runStop(_ context.Context, c *cluster, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: cluster stop MACHINE SERVICE")
	}
	m, err := machine.Open(c.machine(args[0]))
	if err != nil {
		return err
	}
	services := c.services(args[0])
	kept := slices.DeleteFunc(slices.Clone(services), func(s machine.Service) bool { return s.Name == args[1] })
	if len(kept) == len(services) {
		return fmt.Errorf("machine %s has no service %q", args[0], args[1])
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
	return m.Run(c.services(args[0]))
}

func runDown(_ context.Context, c *cluster, args []string) error {
	if len(args) != 0 {
		return errors.New("usage: cluster down")
	}
	return c.down()
}
