// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Mixed is the outcome of a cell of which some flows are allowed and others are not. A cell has
// several flows if pods have several addresses of a family, or if the name of a port stands for
// several port numbers.
const Mixed verdict.Outcome = "Mixed"

// Config configures Compute.
type Config struct {
	// Evaluator evaluates flows. Required.
	Evaluator *verdict.Evaluator
	// Partition has the groups of pods that are alike for policy. It must have been made from the
	// same resources as Evaluator. Nil means that each pod is evaluated by itself.
	Partition *probe.Partition
	// Pods are senders and destinations.
	Pods []probe.Party
	// Others are further senders and destinations: addresses outside. Policy does not apply between
	// two outside addresses, so there is no cell for such a pair.
	Others []probe.Party
	// Port is the destination port.
	Port probe.Port
	// Progress is called from time to time with the number of cells that are done, and the number
	// of all cells. It is called from several goroutines at once. Optional.
	Progress func(done, all int)
}

// Cell has the outcome of the flows from one party to another: Allow, Deny, NotApplicable or Mixed.
// A party is a pod or an outside address. An outcome is empty if there is no flow of the family,
// for example because one party has no address of this family.
type Cell struct{ IPv4, IPv6 verdict.Outcome }

// Matrix has the outcomes of all flows. It does not change after Compute, and is then safe for
// concurrent use.
type Matrix struct {
	// Port is Config.Port.
	Port probe.Port
	// Groups are the rows and columns: groups of pods that policy does not distinguish, and each of
	// Config.Others by itself.
	Groups []probe.Group

	cells []Cell // by row, then column
}

// Compute evaluates the flows from each party to each other party.
func Compute(ctx context.Context, cfg Config) (*Matrix, error) {
	m := &Matrix{Port: cfg.Port}
	if cfg.Partition != nil {
		m.Groups = cfg.Partition.Groups(cfg.Pods)
	} else {
		for _, pod := range cfg.Pods {
			m.Groups = append(m.Groups, probe.Group{pod})
		}
	}
	for _, other := range cfg.Others {
		m.Groups = append(m.Groups, probe.Group{other})
	}
	n := len(m.Groups)
	m.cells = make([]Cell, n*n)
	var next, done atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for ctx.Err() == nil {
				row := int(next.Add(1)) - 1
				if row >= n {
					return
				}
				for column := range m.Groups {
					m.cells[row*n+column] = m.judge(cfg.Evaluator, row, column)
				}
				if cells := done.Add(int64(n)); cfg.Progress != nil {
					cfg.Progress(int(cells), n*n)
				}
			}
		})
	}
	workers.Wait()
	return m, ctx.Err()
}

// judge computes one cell. If row and column are the same group, the first two pods of the group
// stand for all pairs.
func (m *Matrix) judge(e *verdict.Evaluator, row, column int) Cell {
	from, to := m.Groups[row][0], m.Groups[column][0]
	if row == column {
		if len(m.Groups[row]) < 2 {
			return Cell{} // policy does not apply to packets of a party to itself
		}
		to = m.Groups[column][1]
	}
	if outside(from) && outside(to) || probe.Same(from, to) {
		return Cell{}
	}
	var c Cell
	for _, flow := range m.Port.Flows(from, to) {
		family := &c.IPv4
		if flow.Src.Is6() {
			family = &c.IPv6
		}
		*family = merge(*family, e.Evaluate(flow).Combined)
	}
	return c
}

// outside reports whether a party is not a pod.
func outside(p probe.Party) bool { return p.Endpoint == (policy.Key{}) }

func merge(a, b verdict.Outcome) verdict.Outcome {
	if a == "" || a == b {
		return b
	}
	return Mixed
}

// Cell returns the outcome of the flows from the pods in a row to the pods in a column. row and
// column are indexes of Groups. If row and column are equal, Cell returns the outcome of the flows
// between two members of the group.
func (m *Matrix) Cell(row, column int) Cell { return m.cells[row*len(m.Groups)+column] }

// Each calls the function do for each pair of different parties, with the cell of the pair. Both
// parties of a pair may be in the same group of Groups. Pairs with an empty cell are left out. The
// order is by rows, then by columns. If the function do returns an error, the method Each ends and
// returns this error.
func (m *Matrix) Each(do func(from, to probe.Party, c Cell) error) error {
	for row, senders := range m.Groups {
		for _, from := range senders {
			for column, receivers := range m.Groups {
				c := m.Cell(row, column)
				if c == (Cell{}) {
					continue
				}
				for _, to := range receivers {
					if probe.Same(from, to) {
						continue
					}
					if err := do(from, to, c); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}
