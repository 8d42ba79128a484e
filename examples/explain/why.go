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
A party is a pod (NAMESPACE/NAME), several pods by a pattern (shop/web-*), an IP address, or the
backends of a service (svc/NAMESPACE/NAME). A port is PROTOCOL/PORT as in tcp/80, PROTOCOL/NAME or
NAME for a port that the pod names, icmp for a ping, icmp/TYPE or icmp/TYPE/CODE, or ip/NUMBER for a
protocol without ports. Of a service it is the port of the backends.
`

func whyCommand() cli.Command {
	return cli.Command{
		Name:    "why",
		Args:    "PATH...",
		Summary: "say whether A may talk to B, and why (not)",
		About: `Walks through every tier, policy and rule that has a say in a flow, from files and folders of
Kubernetes and Calico manifests. Pods need an address: a manifest as "kubectl get pods -o yaml"
prints it. Examples:

  explain why manifests --from shop/web --to shop/db --port tcp/5432
  explain why manifests --from 198.51.100.7 --to shop/web --port http
  explain why cluster.yaml policies --from shop/web --to shop/api --port icmp --json
` + partiesHelp + `
Between two pods there is a flow for each family that both have, and more if a pattern or a name
means several. Exit status: 0 if all are allowed, 1 if one is denied, 2 for an error, 3 if none is
denied but no policy has a say in one: neither of the two is a pod that policy applies to, as with
the network of a node.` + exitStatuses,
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var q whyQuestion
			q.reading.flags(flags)
			flags.StringVar(&q.from, "from", "", "`PARTY` that sends (required)")
			flags.StringVar(&q.to, "to", "", "`PARTY` that is to be reached (required)")
			flags.StringVar(&q.port, "port", "", "`PORT` to reach (required)")
			flags.UintVar(&q.sourcePort, "source-port", probe.DefaultSourcePort,
				"port `NUMBER` that the sender uses")
			flags.BoolVar(&q.json, "json", false, "write JSON")
			return func(_ context.Context, c cli.Console, args []string) error {
				q.paths = args
				return q.ask(c)
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

func (q *whyQuestion) ask(c cli.Console) error {
	switch {
	case len(q.paths) == 0:
		return cli.Usagef("why: want files or folders of manifests")
	case q.from == "" || q.to == "" || q.port == "":
		return cli.Usagef("why: --from, --to and --port are required")
	case q.sourcePort == 0 || q.sourcePort > 65535:
		return cli.Usagef("why: --source-port: %d is no port", q.sourcePort)
	}
	port, err := probe.ParsePort(q.port)
	if err != nil {
		return cli.Usagef("why: --port: %w", err)
	}
	f, err := q.read(c, "", q.paths...)
	if err != nil {
		return err
	}
	queries, err := f.Book.Queries([]string{q.from}, []string{q.to}, []probe.Port{port})
	if err != nil {
		return err
	}
	status := 0
	answers := make([]probe.Answer, 0, len(queries))
	for _, p := range queries {
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
