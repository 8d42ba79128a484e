// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy/verdict"
)

// Query has the flows from one party to another on one port.
type Query struct {
	// From sends, and To receives.
	From, To Party
	// Port of the receiver.
	Port Port
	// Flows has at least one flow. Before a call of Explain, the caller may change fields of the
	// flows, for example SrcPort.
	Flows []verdict.Flow
}

// Answer is the verdict of a query, with explanations.
type Answer struct {
	// From and To are the names of the parties.
	From string `json:"from"`
	To   string `json:"to"`
	// Port as text.
	Port string `json:"port"`
	// Outcome is Deny if a flow is denied, Allow if all are allowed, and otherwise NotApplicable.
	Outcome verdict.Outcome `json:"outcome"`
	// Notes of the parties.
	Notes []string `json:"notes,omitempty"`
	// Flows has an explanation for each flow of the query.
	Flows []*verdict.Explanation `json:"flows"`
}

// String returns several lines: the outcome, the notes, and all explanations. The text is for
// people and may change.
func (a Answer) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s -> %s %s: %s\n", a.From, a.To, a.Port, a.Outcome)
	for _, note := range a.Notes {
		text.WriteString("note: " + note + "\n")
	}
	for _, x := range a.Flows {
		text.WriteString("\n" + x.String())
	}
	return text.String()
}

// Queries returns the queries from each sender to each receiver on each port, in the order of the
// arguments. Senders and receivers are given as texts for Find. Queries makes no query from a party
// to itself.
//
// Queries returns an error in these cases:
//
//   - Find returns an error for one of the texts.
//   - For a sender, a receiver and a port, Port.Flows returns no flow, for example because the two
//     have no addresses of the same family.
//   - There is no query, for example because the only sender is also the only receiver.
func (x *Index) Queries(from, to []string, ports []Port) ([]Query, error) {
	senders, err := x.FindAll(from...)
	if err != nil {
		return nil, err
	}
	receivers, err := x.FindAll(to...)
	if err != nil {
		return nil, err
	}
	var queries []Query
	for _, src := range senders {
		for _, dst := range receivers {
			if Same(src, dst) {
				continue
			}
			for _, port := range ports {
				flows := port.Flows(src, dst)
				if len(flows) == 0 {
					return nil, fmt.Errorf(
						"%s has no flow to %s on %s: no addresses of one family with it, or no port of this name",
						src.Name, dst.Name, port)
				}
				queries = append(queries, Query{src, dst, port, flows})
			}
		}
	}
	switch {
	case len(queries) > 0:
		return queries, nil
	case len(from) == 0 || len(to) == 0 || len(ports) == 0:
		return nil, fmt.Errorf("%s -> %s: want a sender, a receiver and a port", strings.Join(from, ", "),
			strings.Join(to, ", "))
	}
	return nil, fmt.Errorf("%s and %s are the same party: policy does not apply between them",
		from[0], to[0])
}

// FindAll returns the distinct parties of several texts.
func (x *Index) FindAll(texts ...string) ([]Party, error) {
	var parties []Party
	for _, text := range texts {
		found, err := x.Find(text)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if !slices.ContainsFunc(parties, func(q Party) bool { return q.Name == p.Name }) {
				parties = append(parties, p)
			}
		}
	}
	return parties, nil
}

// Explain evaluates all flows of the query.
func (q Query) Explain(e *verdict.Evaluator) Answer {
	a := Answer{From: q.From.Name, To: q.To.Name, Port: q.Port.String(), Outcome: verdict.Allow}
	for _, party := range []Party{q.From, q.To} {
		if party.Note != "" {
			a.Notes = append(a.Notes, party.Note)
		}
	}
	for _, flow := range q.Flows {
		x := e.Explain(flow)
		a.Flows = append(a.Flows, x)
		if a.Outcome != verdict.Deny && x.Result.Combined != verdict.Allow {
			a.Outcome = x.Result.Combined
		}
	}
	return a
}
