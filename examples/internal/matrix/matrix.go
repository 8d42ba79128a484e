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

// Mixed is the outcome where some flows of a cell are allowed and some are not, as between pods
// with several addresses of a family, or for a name that stands for several ports.
const Mixed verdict.Outcome = "Mixed"

// Config says what to compute.
type Config struct {
	// Evaluator of the world. Required.
	Evaluator *verdict.Evaluator
	// Partition of the same world, which tells what pods are alike. Nil judges each pod by itself.
	Partition *probe.Partition
	// Pods that send and are reached.
	Pods []probe.Party
	// Others that send and are reached, as addresses outside. Between two of these there is no
	// policy, and no cell.
	Others []probe.Party
	// Port to reach.
	Port probe.Port
	// Progress is called now and then with the number of cells that are done and of all, from
	// several goroutines at once. Optional.
	Progress func(done, all int)
}

// Cell is what two parties come to, for each family that both have: Allow, Deny, NotApplicable or
// Mixed. Empty means that there is nothing to ask.
type Cell struct{ IPv4, IPv6 verdict.Outcome }

// Matrix is who may talk to whom. It is not changed after Compute, and so safe for concurrent use.
type Matrix struct {
	// Port that was asked for.
	Port probe.Port
	// Groups are the rows and columns: pods that are alike, and each of the others by itself.
	Groups []probe.Group

	cells []Cell // by row, then column
}

// Compute judges everyone against everyone.
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

// judge fills one cell. Within a group it is the first two that stand for all pairs.
func (m *Matrix) judge(e *verdict.Evaluator, row, column int) Cell {
	from, to := m.Groups[row][0], m.Groups[column][0]
	if row == column {
		if len(m.Groups[row]) < 2 {
			return Cell{} // what one says to itself no policy sees
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

// outside reports whether a party is none of the pods.
func outside(p probe.Party) bool { return p.Endpoint == (policy.Key{}) }

func merge(a, b verdict.Outcome) verdict.Outcome {
	if a == "" || a == b {
		return b
	}
	return Mixed
}

// Cell returns what a row's party may say to a column's, given by the indexes of their groups. Of a
// group and itself it is what two of its members may say to one another.
func (m *Matrix) Cell(row, column int) Cell { return m.cells[row*len(m.Groups)+column] }

// Each calls do for every two different parties whose cell has a verdict, in order, until do returns an error. They may
// be in one group.
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
