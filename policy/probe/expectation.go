// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/policy/verdict"
)

// Expectation is an expected verdict: policy allows all flows from some parties to others on some
// ports, or it denies all of them. In JSON, each of "from", "to" and "port" is a string or a list
// of strings. All members but the name are required:
//
//	{"name": "", "from": "shop/web", "to": ["shop/db", "shop/cache"], "port": "tcp/80", "allow": true}
type Expectation struct {
	// Name for reports. Optional.
	Name string `json:"name,omitempty"`
	// From and To are texts for Index.Find. At least one each.
	From []string `json:"from"`
	To   []string `json:"to"`
	// Ports, at least one.
	Ports []Port `json:"port"`
	// Allow means that all flows must be allowed. Otherwise, all must be denied. A flow to which no
	// policy applies counts as neither. So an expectation with such a flow is never met.
	Allow bool `json:"allow"`
}

// Result is the result of checking an expectation.
type Result struct {
	// Expectation that was checked.
	Expectation Expectation `json:"expectation"`
	// Holds reports whether each flow has the expected verdict.
	Holds bool `json:"holds"`
	// Flows is the number of flows that were evaluated.
	Flows int `json:"flows"`
	// Failed has an Answer for each Query that has a flow with an unexpected verdict. A Query has
	// the flows of one sender, one receiver and one port. The Answer explains all of these flows.
	Failed []Answer `json:"failed,omitempty"`
}

// Check evaluates the expectation. The evaluator and the index must be of the same world. Check
// returns the errors of Index.Queries.
func (x Expectation) Check(index *Index, e *verdict.Evaluator) (Result, error) {
	r := Result{Expectation: x, Holds: true}
	queries, err := index.Queries(x.From, x.To, x.Ports)
	if err != nil {
		return Result{Expectation: x}, err
	}
	want := verdict.Deny
	if x.Allow {
		want = verdict.Allow
	}
	for _, q := range queries {
		r.Flows += len(q.Flows)
		met := true
		for _, flow := range q.Flows {
			met = met && e.Evaluate(flow).Combined == want
		}
		if !met {
			r.Holds = false
			r.Failed = append(r.Failed, q.Explain(e))
		}
	}
	return r, nil
}

// String returns the expectation in one line.
func (x Expectation) String() string {
	verb := "denied"
	if x.Allow {
		verb = "allowed"
	}
	ports := make([]string, 0, len(x.Ports))
	for _, p := range x.Ports {
		ports = append(ports, p.String())
	}
	text := fmt.Sprintf("%s -> %s %s: %s", strings.Join(x.From, ", "), strings.Join(x.To, ", "),
		strings.Join(ports, ", "), verb)
	if x.Name != "" {
		text = x.Name + ": " + text
	}
	return text
}

// String returns the expectation. If the expectation is not met, the answers in the field Failed
// follow: the first with its explanations, the others in one line each. The text is for people, and
// its form may change.
func (r Result) String() string {
	mark := "ok  "
	if !r.Holds {
		mark = "FAIL"
	}
	return fmt.Sprintf("%s %s (%s)\n%s", mark, r.Expectation, count(r.Flows, "flow"), r.Failures())
}

// Failures returns the text of String without its first line: only the answers in the field Failed.
// It is empty if the expectation is met.
func (r Result) Failures() string {
	var text strings.Builder
	for i, a := range r.Failed {
		if i > 0 { // the others are often replicas of the first
			a.Notes, a.Flows = nil, nil
		}
		for line := range strings.Lines(a.String()) {
			if strings.TrimSpace(line) != "" {
				line = "     " + line
			}
			text.WriteString(line)
		}
	}
	return text.String()
}

// UnmarshalJSON decodes the JSON form. It returns an error for an unknown or missing field, an
// empty list, and a port that ParsePort refuses.
func (x *Expectation) UnmarshalJSON(data []byte) error {
	var fields struct {
		Name  string `json:"name"`
		From  list   `json:"from"`
		To    list   `json:"to"`
		Ports list   `json:"port"`
		Allow *bool  `json:"allow"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&fields); err != nil {
		return fmt.Errorf("expectation: %w", err)
	}
	var errs []error
	out := Expectation{Name: fields.Name, From: fields.From, To: fields.To}
	for _, field := range []struct {
		name   string
		absent bool
	}{
		{"from", fields.From == nil},
		{"to", fields.To == nil},
		{"port", fields.Ports == nil},
		{"allow", fields.Allow == nil},
	} {
		if field.absent {
			errs = append(errs, fmt.Errorf("%s is missing", field.name))
		}
	}
	for _, text := range fields.Ports {
		port, err := ParsePort(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("port: %w", err))
		}
		out.Ports = append(out.Ports, port)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("expectation %q: %w", fields.Name, err)
	}
	out.Allow = *fields.Allow
	*x = out
	return nil
}

// list is a string or a list of strings, at least one, none empty.
type list []string

// UnmarshalJSON decodes a string, or a list of strings.
func (l *list) UnmarshalJSON(data []byte) error {
	var one string
	var texts []string
	if json.Unmarshal(data, &one) == nil {
		texts = []string{one}
	} else if json.Unmarshal(data, &texts) != nil {
		return errors.New("want a text, or a list of texts")
	}
	if len(texts) == 0 {
		return errors.New("the list is empty")
	}
	for _, text := range texts {
		if text == "" {
			return errors.New("a text is empty")
		}
	}
	*l = texts
	return nil
}

// count returns a number with its noun, in the plural if needed.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
