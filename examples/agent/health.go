// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/examples/agent/internal/health"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

func healthCommand() cli.Command {
	return cli.Command{
		Name: "health", Summary: "fail if a part of the agent is stuck; for a liveness probe",
		About: `Checks the health of the running agent over its socket: whether a part is stuck (/livez) or,
with --ready, also whether a part is not ready yet (/readyz). It prints each part. The exit status is 1 if a
part is stuck or not ready, or if the agent does not answer.

Use this command for probes. A probe of http-address can be delayed by other users of the node, this command
cannot.`,
		Examples: []string{"health", "health --ready --timeout 2s"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var o output
			o.declare(flags)
			ready := flags.Bool("ready", false, "also fail if a part is not ready")
			return func(ctx context.Context, c cli.Console, _ []string) error {
				path := "/livez"
				if *ready {
					path = "/readyz"
				}
				report, err := get[health.Report](ctx, c, o, path)
				var failure *api.Error
				if errors.As(err, &failure) {
					_ = json.Unmarshal(failure.Body, &report) // if there is no report, the error has the reason
				}
				if report.Components != nil && err != nil {
					err = errors.New("not healthy: " + strings.Join(faults(report), "; "))
				} else if err != nil {
					return err
				}
				return errors.Join(o.print(c, report, healthText(c.Width(), report)), err)
			}
		},
	}
}

// faults returns the parts that are not healthy, each with the reason.
func faults(r health.Report) (parts []string) {
	for _, part := range r.Components {
		if !part.OK {
			parts = append(parts, fmt.Sprintf("%s: %s", part.Name, part.Detail))
		}
	}
	return parts
}

func healthText(width int, r health.Report) string {
	var rows [][]string
	for _, part := range r.Components {
		state := "ok"
		if !part.OK {
			state = "not ok"
		}
		rows = append(rows, []string{part.Name, state, part.Detail + part.Note}) // at most one of both is set
	}
	return table(width, "PART STATE DETAIL", rows)
}
