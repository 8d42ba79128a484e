// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/examples/internal/question"
	"github.com/wayleave/wayleave/policy/verdict"
)

// partiesHelp is how parties and ports are written, for the help texts.
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
			flags.UintVar(&q.sourcePort, "source-port", question.DefaultSourcePort,
				"port `NUMBER` that the sender uses")
			flags.BoolVar(&q.json, "json", false, "write JSON")
			return func(_ context.Context, c cli.Console, args []string) error {
				q.paths = args
				return q.ask(c)
			}
		},
	}
}

// whyQuestion is the question of one command line.
type whyQuestion struct {
	reading
	paths          []string
	from, to, port string
	sourcePort     uint
	json           bool
}

// answer is what one pair of parties comes to on one port.
type answer struct {
	From string `json:"from"`
	To   string `json:"to"`
	Port string `json:"port"`
	// Outcome is the worst of the flows'.
	Outcome verdict.Outcome `json:"outcome"`
	// Notes tell why a party is no pod to policy.
	Notes []string               `json:"notes,omitempty"`
	Flows []*verdict.Explanation `json:"flows"`
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
	port, err := question.ParsePort(q.port)
	if err != nil {
		return cli.Usagef("why: --port: %w", err)
	}
	f, err := q.read(c, "", q.paths...)
	if err != nil {
		return err
	}
	pairs, err := findPairs(f.Book, []string{q.from}, []string{q.to}, []question.Port{port})
	if err != nil {
		return err
	}
	status := 0
	answers := make([]answer, 0, len(pairs))
	for _, p := range pairs {
		for i := range p.flows {
			if p.flows[i].SrcPort != 0 {
				p.flows[i].SrcPort = uint16(q.sourcePort)
			}
		}
		a := p.explain(f.Evaluator)
		answers = append(answers, a)
		if s := statusOf(a.Outcome); s == isDenied || status == 0 {
			status = s
		}
	}
	if q.json {
		err := printJSON(c, struct {
			Answers  []answer `json:"answers"`
			Rejected []string `json:"rejected"`
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

// String writes the answer for people.
func (a answer) String() string {
	text := fmt.Sprintf("%s -> %s %s: %s\n", a.From, a.To, a.Port, a.Outcome)
	for _, note := range a.Notes {
		text += "note: " + note + "\n"
	}
	for _, x := range a.Flows {
		text += "\n" + x.String()
	}
	return text
}

// pair is what one party asks of another.
type pair struct {
	from, to question.Party
	port     question.Port
	flows    []verdict.Flow // at least one
}

// findPairs returns all pairs of parties with each port. A pattern that means a party twice, as
// sender and as receiver, leaves it out; there is an error if nothing is left, or if a pair cannot
// talk at all.
func findPairs(book *question.Book, from, to []string, ports []question.Port) ([]pair, error) {
	senders, err := findAll(book, from)
	if err != nil {
		return nil, err
	}
	receivers, err := findAll(book, to)
	if err != nil {
		return nil, err
	}
	var pairs []pair
	for _, src := range senders {
		for _, dst := range receivers {
			if question.Same(src, dst) {
				continue
			}
			for _, port := range ports {
				flows := port.Flows(src, dst)
				if len(flows) == 0 {
					return nil, fmt.Errorf("%s cannot ask %s for %s: no addresses of one family that have it, or no "+
						"port of the name",
						src.Name, dst.Name, port)
				}
				pairs = append(pairs, pair{src, dst, port, flows})
			}
		}
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%s and %s are one: what it says to itself does not leave it, and no policy sees it",
			from[0], to[0])
	}
	return pairs, nil
}

// findAll returns the parties that the texts mean, each once.
func findAll(book *question.Book, texts []string) ([]question.Party, error) {
	var parties []question.Party
	for _, text := range texts {
		found, err := book.Find(text)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if !slices.ContainsFunc(parties, func(q question.Party) bool { return q.Name == p.Name }) {
				parties = append(parties, p)
			}
		}
	}
	return parties, nil
}

// explain answers for all flows of the pair.
func (p pair) explain(e *verdict.Evaluator) answer {
	a := answer{From: p.from.Name, To: p.to.Name, Port: p.port.String(), Outcome: verdict.Allow}
	for _, party := range []question.Party{p.from, p.to} {
		if party.Note != "" {
			a.Notes = append(a.Notes, party.Note)
		}
	}
	for _, flow := range p.flows {
		x := e.Explain(flow)
		a.Flows = append(a.Flows, x)
		if a.Outcome != verdict.Deny && x.Result.Combined != verdict.Allow {
			a.Outcome = x.Result.Combined
		}
	}
	return a
}
