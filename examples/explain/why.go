// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"

	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

// partiesHelp explains the syntax of parties and ports, in help texts.
const partiesHelp = `

A party is one of these:

  shop/web-0        a pod: NAMESPACE/NAME
  shop/web-*        all pods whose name matches the pattern
  198.51.100.7      an IP address
  svc/shop/web      the backends of a service: svc/NAMESPACE/NAME

A port is one of these. For a service, it is the port of the backends:

  tcp/80            a protocol and a number
  http, tcp/http    a port that the pod names, with or without the protocol
  icmp              a ping
  icmp/3, icmp/3/4  an ICMP type, or a type and a code
  ip/89             the number of a protocol without ports`

func whyCommand() cli.Command {
	return cli.Command{
		Name:    "why",
		Args:    "PATH...",
		Summary: "show whether A may connect to B, and why",
		About: `Prints the verdict of policy for a flow, and each tier, policy and rule that led to it. It
reads files and folders of Kubernetes and Calico manifests. Pods need an address, as in the output of "kubectl
get pods -o yaml". Examples:

  explain why manifests --from shop/web --to shop/db --port tcp/5432
  explain why manifests --from 198.51.100.7 --to shop/web --port http
  explain why cluster.yaml policies --from shop/web --to shop/api --port icmp --json` + partiesHelp + `

If both parties have IPv4 and IPv6 addresses, the command explains a flow of each. It explains more flows if a party
is a pattern or a service, or if several ports have the name.

The exit status is

  0  if all flows are allowed
  1  if one is denied
  2  after an error
  3  if none is denied, but policy applies to neither party of one: for example, a pod with
     hostNetwork and an address outside` + exitStatuses,
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var q whyQuestion
			q.reading.flags(flags)
			flags.StringVar(&q.from, "from", "", "`PARTY` that sends (required)")
			flags.StringVar(&q.to, "to", "", "`PARTY` that receives (required)")
			flags.StringVar(&q.port, "port", "", "`PORT` to reach (required)")
			flags.UintVar(&q.sourcePort, "source-port", probe.DefaultSourcePort,
				"port `NUMBER` that the sender uses")
			flags.BoolVar(&q.json, "json", false, "write JSON")
			return func(_ context.Context, c cli.Console, args []string) error {
				q.paths = args
				return q.run(c)
			}
		},
	}
}

// whyQuestion has the arguments of one command line.
type whyQuestion struct {
	reading
	paths          []string
	from, to, port string
	sourcePort     uint
	json           bool
}

func (q *whyQuestion) run(c cli.Console) error {
	switch {
	case len(q.paths) == 0:
		return cli.Usagef("why: want files or folders of manifests")
	case q.from == "" || q.to == "" || q.port == "":
		return cli.Usagef("why: --from, --to and --port are required")
	case q.sourcePort == 0 || q.sourcePort > 65535:
		return cli.Usagef("why: --source-port: %d is not a port", q.sourcePort)
	}
	port, err := probe.ParsePort(q.port)
	if err != nil {
		return cli.Usagef("why: --port: %w", err)
	}
	f, err := q.read(c, "", q.paths...)
	if err != nil {
		return err
	}
	queries, err := f.Index.Queries([]string{q.from}, []string{q.to}, []probe.Port{port})
	if err != nil {
		return err
	}
	status := 0
	answers := make([]probe.Answer, 0, len(queries))
	progress := cli.NewProgress(c, "flows explained")
	for i, p := range queries {
		progress.Report(i, len(queries))
		for i := range p.Flows {
			if p.Flows[i].SrcPort != 0 {
				p.Flows[i].SrcPort = uint16(q.sourcePort)
			}
		}
		a := p.Explain(f.Evaluator)
		answers = append(answers, a)
		if s := statusOf(a.Outcome); s == isDenied || status == 0 {
			status = s
		}
	}
	progress.End()
	if q.json {
		err := printJSON(c, struct {
			Answers  []probe.Answer `json:"answers"`
			Rejected []string       `json:"rejected"`
		}{answers, rejections(f)})
		if err != nil {
			return err
		}
		return q.status(c, status, f)
	}
	for i, a := range answers {
		if i > 0 {
			c.Printf("\n")
		}
		c.Printf("%s", a)
	}
	return q.status(c, status, f)
}

func statusOf(o verdict.Outcome) int {
	switch o {
	case verdict.Allow:
		return 0
	case verdict.NotApplicable:
		return notApplicable
	}
	return isDenied
}
