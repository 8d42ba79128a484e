// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"

	"github.com/wayleave/wayleave/examples/agent/internal/build"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

func versionCommand() cli.Command {
	return cli.Command{
		Name: "version", Summary: "show the version of this program",
		About: `Prints the version of this program, its revision in Git, and the version of Go that built it.
The metric wayleave_build_info and "agent status" show the version of the running agent, which may be another
one.`,
		Examples: []string{"version", "version -o json"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var o output
			o.declareFormat(flags)
			return func(_ context.Context, c cli.Console, _ []string) error {
				i := build.Read()
				return o.print(c, i, i.String()+"\n")
			}
		},
	}
}
