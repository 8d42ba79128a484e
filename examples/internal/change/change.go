// SPDX-License-Identifier: Apache-2.0

package change

import (
	"context"
	"runtime"
	"sync"

	"github.com/wayleave/wayleave/examples/internal/alike"
	"github.com/wayleave/wayleave/examples/internal/question"
	"github.com/wayleave/wayleave/examples/internal/sample"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Run says what to compare.
type Run struct {
	// Before and After judge. Required.
	Before, After *verdict.Evaluator
	// Parties that send and are reached: of each group the first stands for all. Between two that
	// are no pods there is no policy, and nothing is tried.
	Parties []alike.Group
	// Ports to try.
	Ports []sample.Port
	// Progress is called with the number of senders that are done and of all. Optional.
	Progress func(done, all int)
}

// Pair is two parties between which something changes.
type Pair struct {
	From, To alike.Group
	// Changes in order of the first port that each was found on.
	Changes []Change
}

// Change is flows between two parties that change in the same way: the same outcomes, for the same
// reasons.
type Change struct {
	// Ports that it was found on, in order.
	Ports []Port
	// Example is one of the flows, with both explanations.
	Example verdict.Change
}

// Port is a port and the families that a change was found for.
type Port struct {
	sample.Port
	IPv4, IPv6 bool
}

// Flows returns how many flows there are to try.
func (r Run) Flows() int {
	total := 0
	for row := range r.Parties {
		for column := range r.Parties {
			from, to, ok := r.pair(row, column)
			if !ok {
				continue
			}
			four, six := 0, 0
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
			total += (four + six) * len(r.Ports)
		}
	}
	return total
}

// pair returns who stands for two groups. Within one group it is the first two.
func (r Run) pair(row, column int) (from, to question.Party, ok bool) {
	from, to = r.Parties[row][0], r.Parties[column][0]
	if row == column {
		if len(r.Parties[row]) < 2 {
			return from, to, false
		}
		to = r.Parties[row][1]
	}
	outside := from.Endpoint == policy.Key{} && to.Endpoint == policy.Key{}
	return from, to, !outside && !question.Same(from, to)
}

// Each calls do for every pair of parties between which something changes.
func (r Run) Each(ctx context.Context, do func(Pair) error) error {
	step := runtime.GOMAXPROCS(0)
	for first := 0; first < len(r.Parties); first += step {
		rows := min(step, len(r.Parties)-first)
		found := make([][]Pair, rows)
		var workers sync.WaitGroup
		for i := range rows {
			workers.Go(func() { found[i] = r.row(ctx, first+i) })
		}
		workers.Wait()
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, pairs := range found {
			for _, p := range pairs {
				if err := do(p); err != nil {
					return err
				}
			}
		}
		if r.Progress != nil {
			r.Progress(first+rows, len(r.Parties))
		}
	}
	return nil
}

// row compares all that one sender may say.
func (r Run) row(ctx context.Context, row int) []Pair {
	var pairs []Pair
	for column := range r.Parties {
		from, to, ok := r.pair(row, column)
		if !ok || ctx.Err() != nil {
			continue
		}
		p := Pair{From: r.Parties[row], To: r.Parties[column]}
		index := map[way]int{}
		for _, port := range r.Ports {
			for _, c := range verdict.DiffEvaluators(r.Before, r.After, port.Flows(from, to)) {
				p.add(index, port, c)
			}
		}
		if len(p.Changes) > 0 {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// way is how a flow changes: what its verdict was and is, and what decided it.
type way struct {
	before, after verdict.Result
	reasons       [4]string
}

func (p *Pair) add(index map[way]int, port sample.Port, c verdict.Change) {
	w := way{before: c.Before.Result, after: c.After.Result}
	for i, d := range []*verdict.Direction{c.Before.Egress, c.Before.Ingress, c.After.Egress, c.After.Ingress} {
		w.reasons[i] = d.Decision.String()
	}
	i, ok := index[w]
	if !ok {
		i = len(p.Changes)
		index[w] = i
		p.Changes = append(p.Changes, Change{Example: c})
	}
	ports := &p.Changes[i].Ports
	if n := len(*ports); n == 0 || (*ports)[n-1].Port != port {
		*ports = append(*ports, Port{Port: port})
	}
	last := &(*ports)[len(*ports)-1]
	last.IPv4 = last.IPv4 || c.Flow.Src.Is4()
	last.IPv6 = last.IPv6 || c.Flow.Src.Is6()
}
