// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/wayleave/wayleave/examples/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := agent(ctx, cli.Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

func commands() (all []cli.Command) {
	add := func(group string, list ...cli.Command) {
		for _, command := range list {
			command.Group = group
			all = append(all, command)
		}
	}
	add("Try it", demoCommand())
	add("Program the node", runCommand(), dataplaneCommand(), teardownCommand(), installCNICommand(),
		uninstallCNICommand(), applyCommand())
	add("See what the agent does", statusCommand(), endpointsCommand(), policiesCommand(), setsCommand(),
		routesCommand(), rulesetCommand(), configCommand(), watchCommand(), waitCommand(), healthCommand())
	add("See what packets do", dropsCommand(), flowsCommand())
	add("Check policy", explainCommand(), planCommand(), verifyCommand())
	add("Other", versionCommand())
	return all
}

// agent runs the command that the arguments name, and returns the exit code.
func agent(ctx context.Context, c cli.Console, args []string) int {
	return cli.Program{
		Name:       "agent",
		About:      "agent programs network policy and routes of one node, from manifests.",
		Commands:   commands(),
		Failed:     1,
		Completion: true,
	}.Run(ctx, c, args)
}
