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
		About: `Prints the version, the revision and the Go version that this program was built from. The running
agent's is in the metric wayleave_build_info and in 'agent status'.`,
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
