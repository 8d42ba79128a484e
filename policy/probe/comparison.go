// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Comparison evaluates flows in two worlds and reports the flows whose verdicts differ. A world has
// all resources of a cluster at one moment. Diff does the same, and is easier to use. Use a
// Comparison if you want to choose the parties (senders and receivers) and ports yourself. Use it
// also if the list of all changes would not fit into memory.
type Comparison struct {
	// Before and After are the evaluators of the two worlds. Required.
	Before, After *verdict.Evaluator
	// Parties send and receive. A Group has parties that policy does not distinguish, so only its
	// first party is evaluated. If neither party of a flow is a workload endpoint, the flow is not
	// evaluated, because no policy applies to it.
	Parties []Group
	// Ports to evaluate.
	Ports []PortGroup
	// Progress is called repeatedly with the number of senders that are done, and with the number
	// of all senders. If it returns an error, the comparison ends. Optional.
	Progress func(done, all int) error
}

// PairChange has the changes of flows from one group of parties to another. Policy does not
// distinguish the parties of a group. String returns a text for people.
type PairChange struct {
	// From and To are the names of the parties.
	From []string `json:"from"`
	To   []string `json:"to"`
	// Families that both groups have: "IPv4", "IPv6".
	Families []string `json:"families"`
	// Changes in the order of their first ports.
	Changes []Change `json:"changes"`
}

// Change has those flows of a PairChange whose verdicts change in the same way. In each of the two
// worlds, all of these flows have the same verdict, for the same reasons.
type Change struct {
	// Ports of the flows, in order.
	Ports []ChangedPort `json:"ports"`
	// Before and After are the outcomes in the two worlds. Both may be Deny: for example, if only
	// egress policy denied the flow before, and only ingress policy denies it after.
	Before verdict.Outcome `json:"before"`
	After  verdict.Outcome `json:"after"`
	// Example is one of the flows, with both explanations.
	Example verdict.Change `json:"example"`
}

// ChangedPort is a port, and the families in which a verdict changes on it.
type ChangedPort struct {
	// Port is the text of PortGroup.String.
	Port string `json:"port"`
	// Families are "IPv4", "IPv6", or both in this order.
	Families []string `json:"families"`
}

// The names of the families.
const (
	ipv4 = "IPv4"
	ipv6 = "IPv6"
)

// Flows returns the maximum number of flows that a call of Each evaluates.
func (c Comparison) Flows() int {
	total := 0
	for row := range c.Parties {
		for column := range c.Parties {
			from, to, ok := c.pair(row, column)
			if !ok {
				continue
			}
			four, six := pairsOf(from, to)
			total += (four + six) * len(c.Ports)
		}
	}
	return total
}

// pairsOf returns the number of pairs of a source and a destination address, for each family.
func pairsOf(from, to Party) (four, six int) {
	for _, src := range from.Addresses {
		for _, dst := range to.Addresses {
			switch {
			case src.Is4() && dst.Is4():
				four++
			case src.Is6() && dst.Is6():
				six++
			}
		}
	}
	return four, six
}

// pair returns the representatives of two groups. Within one group, these are the first two
// parties.
func (c Comparison) pair(row, column int) (from, to Party, ok bool) {
	from, to = c.Parties[row][0], c.Parties[column][0]
	if row == column {
		if len(c.Parties[row]) < 2 {
			return from, to, false
		}
		to = c.Parties[row][1]
	}
	outside := from.Endpoint == policy.Key{} && to.Endpoint == policy.Key{}
	return from, to, !outside && !Same(from, to)
}

// batch is the number of pairs that each processor compares between two calls of Progress.
const batch = 16

// Each calls its argument once for each pair of groups between which a verdict changes. The pairs
// are in the order of Parties: first by sender, then by receiver. If the argument or Progress
// returns an error, Each ends and returns this error.
func (c Comparison) Each(do func(PairChange) error) error {
	parties := len(c.Parties)
	all, step := parties*parties, batch*runtime.GOMAXPROCS(0)
	for first := 0; first < all; first += step {
		found := make([]PairChange, min(step, all-first))
		var workers sync.WaitGroup
		for start := 0; start < len(found); start += batch {
			workers.Go(func() {
				for i := start; i < min(start+batch, len(found)); i++ {
					found[i] = c.compare((first+i)/parties, (first+i)%parties)
				}
			})
		}
		workers.Wait()
		for _, pair := range found {
			if len(pair.Changes) > 0 {
				if err := do(pair); err != nil {
					return err
				}
			}
		}
		if c.Progress != nil {
			if err := c.Progress((first+len(found))/parties, parties); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare evaluates the flows from one group to another.
func (c Comparison) compare(row, column int) PairChange {
	from, to, ok := c.pair(row, column)
	if !ok {
		return PairChange{}
	}
	var changes []Change
	index := map[reasons]int{}
	for _, port := range c.Ports {
		for _, change := range verdict.DiffEvaluators(c.Before, c.After, port.Flows(from, to)) {
			changes = addChange(changes, index, port, change)
		}
	}
	if len(changes) == 0 {
		return PairChange{}
	}
	pair := PairChange{
		From: c.Parties[row].Names(), To: c.Parties[column].Names(), Families: []string{}, Changes: changes,
	}
	four, six := pairsOf(from, to)
	if four > 0 {
		pair.Families = append(pair.Families, ipv4)
	}
	if six > 0 {
		pair.Families = append(pair.Families, ipv6)
	}
	return pair
}

// reasons has the verdicts of a changed flow, and what decided them. Flows with equal reasons are
// merged into one Change.
type reasons struct {
	before, after verdict.Result
	decisions     [4]string
}

// addChange adds a changed flow to the change with the same reasons. index has the index of each
// change in the list.
func addChange(changes []Change, index map[reasons]int, port PortGroup, flow verdict.Change) []Change {
	kind := reasons{before: flow.Before.Result, after: flow.After.Result}
	for i, d := range []*verdict.Direction{
		flow.Before.Egress, flow.Before.Ingress, flow.After.Egress, flow.After.Ingress,
	} {
		kind.decisions[i] = d.Decision.String()
	}
	i, ok := index[kind]
	if !ok {
		i = len(changes)
		index[kind] = i
		changes = append(changes, Change{
			Before: flow.Before.Result.Combined, After: flow.After.Result.Combined, Example: flow,
		})
	}
	ports := &changes[i].Ports
	if n := len(*ports); n == 0 || (*ports)[n-1].Port != port.String() {
		*ports = append(*ports, ChangedPort{Port: port.String()})
	}
	last, family := &(*ports)[len(*ports)-1], ipv4
	if flow.Flow.Src.Is6() {
		family = ipv6
	}
	if !slices.Contains(last.Families, family) {
		last.Families = append(last.Families, family)
		slices.Sort(last.Families)
	}
	return changes
}

// String returns the changes in several lines: each verdict before and after, and the decisions
// that led to it. The text is for people, and its form may change.
func (p PairChange) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s -> %s\n", strings.Join(p.From, ", "), strings.Join(p.To, ", "))
	for _, c := range p.Changes {
		text.WriteString(p.Describe(c))
	}
	return text.String()
}

// Describe returns the text of one change, as in String.
func (p PairChange) Describe(c Change) string {
	verdicts := fmt.Sprintf("%s, was %s", c.After, c.Before)
	if c.After == c.Before {
		verdicts = fmt.Sprintf("still %s", c.After)
	}
	var ports []string
	for _, port := range c.Ports {
		text := port.Port
		if len(port.Families) == 1 && len(p.Families) == 2 {
			text += " (" + port.Families[0] + ")"
		}
		ports = append(ports, text)
	}
	return fmt.Sprintf("  %s: %s\n    was: %s\n    now: %s\n", verdicts, strings.Join(ports, " "),
		Decisions(c.Example.Before), Decisions(c.Example.After))
}

// Decisions returns one line with the outcome of each direction and the cause of this outcome.
func Decisions(x *verdict.Explanation) string {
	return fmt.Sprintf("egress %s (%s), ingress %s (%s)", x.Egress.Outcome, x.Egress.Decision, x.Ingress.Outcome,
		x.Ingress.Decision)
}
