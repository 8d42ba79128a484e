// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/wayleave/wayleave/examples/explain/internal/expect"
	"github.com/wayleave/wayleave/examples/explain/internal/folder"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/policy/probe"
)

func checkCommand() cli.Command {
	return cli.Command{
		Name:    "check",
		Args:    "PATH...",
		Summary: "check manifests against a file of expectations",
		About: `Checks whether manifests allow and deny the flows that a file of expectations lists. It
explains each expectation that is not met. For a pull request:

  explain check manifests --expect expect.yaml

This is an example of such a file:

  expect:
  - from: shop/web              # one party, or a list of them
    to: [shop/api, shop/cart]
    port: tcp/8080              # one port, or a list of them
    allow: true
  - name: only the api uses the database     # for the report
    from: [shop/web, 198.51.100.7]
    to: shop/db
    port: [tcp/postgres, icmp]
    allow: false` + partiesHelp + `

An expectation with "allow: true" is met if all its flows are allowed, over IPv4 and IPv6 as far as both parties have
such addresses. With "allow: false", it is met if all are denied. If policy does not apply to a flow, neither is met.

The exit status is 0 if all expectations are met, 1 if one is not, and 2 after an error. It is an error if a field, a
pod or the name of a port does not exist, or if the file has no expectation.` + exitStatuses,
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var q checkQuestion
			q.reading.flags(flags)
			flags.StringVar(&q.expect, "expect", "", "`FILE` of expectations (required)")
			flags.BoolVar(&q.json, "json", false, "write JSON")
			return func(_ context.Context, c cli.Console, args []string) error {
				q.paths = args
				return q.run(c)
			}
		},
	}
}

// checkQuestion has the arguments of one command line.
type checkQuestion struct {
	reading
	paths  []string
	expect string
	json   bool
}

// verified is an expectation and its result.
type verified struct {
	Name  string   `json:"name,omitempty"`
	Line  int      `json:"line"`
	From  []string `json:"from"`
	To    []string `json:"to"`
	Ports []string `json:"ports"`
	Allow bool     `json:"allow"`
	Holds bool     `json:"holds"`
	// Flows is the number of flows that were evaluated.
	Flows int `json:"flows"`
	// Failed has the answers that differ from the expectation.
	Failed []probe.Answer `json:"failed,omitempty"`

	result probe.Result
}

func (q *checkQuestion) run(c cli.Console) error {
	if len(q.paths) == 0 {
		return cli.Usagef("check: want files or folders of manifests")
	}
	if q.expect == "" {
		return cli.Usagef("check: --expect is required")
	}
	data, err := os.ReadFile(q.expect)
	if err != nil {
		return err
	}
	list, err := expect.Parse(q.expect, data)
	if err != nil {
		return err
	}
	f, err := q.read(c, "", q.paths...)
	if err != nil {
		return err
	}
	progress := cli.NewProgress(c, "expectations checked")
	results, err := verifyAll(f, q.expect, list, progress.Report)
	progress.End()
	if err != nil {
		return err
	}
	broken := 0
	for _, r := range results {
		if !r.Holds {
			broken++
		}
	}
	if q.json {
		err := printJSON(c, struct {
			Holds    bool       `json:"holds"`
			Results  []verified `json:"results"`
			Rejected []string   `json:"rejected"`
		}{broken == 0 && (len(f.Rejected) == 0 || q.allowRejected), results, rejections(f)})
		if err != nil {
			return err
		}
	} else {
		for _, r := range results {
			c.Printf("%s", r)
		}
		c.Printf("\n%s, %d failed\n", count(len(results), "expectation"), broken)
	}
	return q.status(c, min(broken, isDenied), f)
}

// verifyAll compares the manifests with all expectations. It calls report with the number of
// expectations that it has compared, and the number of all. Errors: an expectation names a pod or a
// port that the manifests do not have.
func verifyAll(
	f *folder.Folder, file string, list []expect.Expectation, report func(done, all int),
) ([]verified, error) {
	var errs []error
	var results []verified
	for i, x := range list {
		report(i, len(list))
		r, err := verify(f, x)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: line %d: %w", file, x.Line, err))
		}
		results = append(results, r)
	}
	return results, errors.Join(errs...)
}

// verify compares the manifests with one expectation.
func verify(f *folder.Folder, x expect.Expectation) (verified, error) {
	r, err := x.Check(f.Index, f.Evaluator)
	v := verified{
		Name: x.Name, Line: x.Line, From: x.From, To: x.To, Allow: x.Allow, Holds: r.Holds, Flows: r.Flows,
		Failed: r.Failed, result: r,
	}
	for _, port := range x.Ports {
		v.Ports = append(v.Ports, port.String())
	}
	return v, err
}

// String returns the result as text. If the expectation is not met, the text lists the flows that
// contradict the expectation, and explains the first of these flows.
func (v verified) String() string {
	mark := "ok  "
	if !v.Holds {
		mark = "FAIL"
	}
	return fmt.Sprintf("%s line %d: %s (%s)\n%s", mark, v.Line, v.result.Expectation, count(v.Flows, "flow"),
		v.result.Failures())
}
