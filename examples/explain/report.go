// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

// report is the output of a diff without the changes, which are written when they are found. Its
// fields are the fields of the JSON form.
type report struct {
	question *diffQuestion
	console  cli.Console
	pairs    int

	// Ports are the ports of the flows that were evaluated. Parties are the parties between which
	// they were evaluated, each with the pods that it stands for. Flows is the number of these
	// flows.
	Ports   []string   `json:"ports"`
	Parties [][]string `json:"parties"`
	Flows   int        `json:"flows"`
	// SourcePorts means that a rule matches source ports. Only one source port was evaluated.
	SourcePorts bool `json:"sourcePortsMatter"`
	// Pods that were not compared, or only in part. OnlyOld and OnlyNew are in one folder only.
	// Moved have different addresses in the two folders, and were compared by the addresses that
	// are in both, if there are any.
	OnlyOld []string `json:"onlyOld,omitempty"`
	OnlyNew []string `json:"onlyNew,omitempty"`
	Moved   []string `json:"otherAddresses,omitempty"`
}

// changeJSON is a change in the JSON form.
type changeJSON struct {
	From   []string            `json:"from"`
	To     []string            `json:"to"`
	Ports  []probe.ChangedPort `json:"ports"`
	Before verdict.Outcome     `json:"before"`
	After  verdict.Outcome     `json:"after"`
	// Example is one of the flows, with both explanations.
	Example verdict.Change `json:"example"`
}

// write writes the changes when they are found, and then the rest of the report. It calls found
// before it writes anything.
func (r *report) write(run probe.Comparison, rejected []string, found func()) error {
	out := bufio.NewWriter(r.console.Out)
	write := r.text
	if r.question.json {
		write = r.json
		if err := r.head(out, rejected); err != nil {
			return err
		}
	}
	err := run.Each(func(p probe.PairChange) error {
		found()
		err := write(out, p)
		r.pairs++
		return err
	})
	found()
	if err != nil {
		return err
	}
	if r.question.json {
		_, _ = out.WriteString("\n]}\n")
	} else {
		r.summary(out)
	}
	return out.Flush()
}

// head writes the beginning of the JSON form.
func (r *report) head(out io.Writer, rejected []string) error {
	text, err := json.Marshal(struct {
		*report
		Rejected []string `json:"rejected"`
	}{r, rejected})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s,\"changes\":[", text[:len(text)-1])
	return err
}

func (r *report) json(out io.Writer, p probe.PairChange) error {
	for i, c := range p.Changes {
		j := changeJSON{
			From: p.From, To: p.To, Ports: c.Ports, Before: c.Before, After: c.After, Example: c.Example,
		}
		text, err := json.Marshal(j)
		if err != nil {
			return err
		}
		separator := ",\n"
		if i == 0 && r.pairs == 0 {
			separator = "\n"
		}
		if _, err := fmt.Fprintf(out, "%s%s", separator, text); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) text(out io.Writer, p probe.PairChange) error {
	if !r.question.explain {
		_, err := io.WriteString(out, p.String())
		return err
	}
	_, err := fmt.Fprintf(out, "%s -> %s\n", strings.Join(p.From, ", "), strings.Join(p.To, ", "))
	for _, c := range p.Changes {
		_, err = fmt.Fprintf(out, "%s    before:\n%s    after:\n%s", p.Describe(c), indent(c.Example.Before.String()),
			indent(c.Example.After.String()))
	}
	return err
}

func indent(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("      " + line)
	}
	return out.String()
}

// summary writes the end of the text.
func (r *report) summary(out io.Writer) {
	if r.pairs > 0 {
		_, _ = fmt.Fprintln(out)
	}
	for _, list := range []struct {
		pods []string
		what string
	}{
		{r.OnlyOld, "in OLD only, not compared"},
		{r.OnlyNew, "in NEW only, not compared"},
		{r.Moved, "with other addresses, compared only by the addresses in both"},
	} {
		if len(list.pods) > 0 {
			_, _ = fmt.Fprintf(out, "%s: %s\n", list.what, strings.Join(list.pods, " "))
		}
	}
	if r.SourcePorts {
		_, _ = fmt.Fprintf(out, "some rules match source ports: only %d was tried\n", probe.DefaultSourcePort)
	}
	_, _ = fmt.Fprintf(out, "tried %s between %s on: %s\n", count(r.Flows, "flow"),
		plural(len(r.Parties), "party", "parties"), strings.Join(r.Ports, " "))
	switch r.pairs {
	case 0:
		_, _ = fmt.Fprintln(out, "no verdict changes")
	default:
		_, _ = fmt.Fprintf(out, "verdicts change between %s\n", count(r.pairs, "pair"))
	}
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
