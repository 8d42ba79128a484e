// SPDX-License-Identifier: Apache-2.0

package connectivity

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wayleave/wayleave/examples/agent/internal/node"
	"github.com/wayleave/wayleave/examples/agent/internal/probe"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// atOnce is how many questions are asked at a time; each takes a thread.
const atOnce = 256

// Config says what to measure.
type Config struct {
	// Parties who send and answer. Required.
	Parties []node.Party
	// Evaluator of the policy that is in force. Required.
	Evaluator *verdict.Evaluator
	// Ask sends a flow from one party to another, given by their indexes, and waits for an answer
	// for that long. It is called from many goroutines. Required.
	Ask func(ctx context.Context, from, to int, flow verdict.Flow, wait time.Duration) probe.Answer
	// Ports gives every flow a source port, or ICMP identifier, of its own. Required.
	Ports *Ports
}

// Ports hands out numbers, each once. The zero value is ready to use. It is safe for concurrent
// use.
type Ports struct{ last atomic.Uint32 }

// The range of port numbers that Ports hands out: above what listens, usually.
const firstPort, lastPort = 20_000, 65_000

// Next returns a number that it has not returned before, until there are none left and they come
// again.
func (p *Ports) Next() uint16 {
	const count = lastPort - firstPort + 1
	return uint16(firstPort + (p.last.Add(1)-1)%count)
}

// Measure probes every column from every party, in each family that both have.
func Measure(ctx context.Context, cfg Config) (*Matrix, error) {
	if cfg.Evaluator == nil || cfg.Ask == nil || cfg.Ports == nil {
		return nil, errors.New("matrix: Config: Evaluator, Ask and Ports are required")
	}
	m := &Matrix{Parties: cfg.Parties, Columns: columns(cfg.Parties)}
	for from := range m.Parties {
		for i, column := range m.Columns {
			m.Cells = append(m.Cells, m.cells(from, i, column)...)
		}
	}
	var (
		asking sync.WaitGroup
		room   = make(chan struct{}, atOnce)
	)
	for i := range m.Cells {
		room <- struct{}{}
		asking.Go(func() {
			m.measure(ctx, cfg, &m.Cells[i])
			<-room
		})
	}
	asking.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("matrix: %w", err)
	}
	return m, nil
}

// columns returns what can be reached: of each party its ports, then its echo.
func columns(parties []node.Party) []Column {
	var out []Column
	for i, p := range parties {
		for _, port := range p.Ports {
			if port.Protocol == policy.ProtocolTCP || port.Protocol == policy.ProtocolUDP {
				out = append(out, Column{To: i, Protocol: port.Protocol, Port: port.Port})
			}
		}
		out = append(out, Column{To: i, Protocol: policy.ProtocolICMP})
	}
	return out
}

// cells returns the cells of one sender and column: one a family, or none for a party and itself.
func (m *Matrix) cells(from, index int, column Column) []Cell {
	if from == column.To {
		return nil
	}
	var out []Cell
	for _, is6 := range []bool{false, true} {
		src, dst := address(m.Parties[from], is6), address(m.Parties[column.To], is6)
		if !src.IsValid() || !dst.IsValid() {
			continue
		}
		flow := verdict.Flow{Src: src, Dst: dst, Protocol: column.Protocol, DstPort: column.Port}
		if column.Protocol == policy.ProtocolICMP {
			flow.ICMPType = probe.EchoRequest
			if is6 {
				flow.Protocol, flow.ICMPType = policy.ProtocolICMPv6, probe.EchoRequestV6
			}
		}
		out = append(out, Cell{From: from, Column: index, Flow: flow})
	}
	return out
}

// address returns the first address of a family, or none.
func address(p node.Party, is6 bool) netip.Addr {
	for _, a := range p.Addresses {
		if a.Is6() == is6 {
			return a
		}
	}
	return netip.Addr{}
}

// measure fills in one cell. What policy allows and gets no answer is tried again with longer waits. The
// last one is for machines without hardware virtualization.
func (m *Matrix) measure(ctx context.Context, cfg Config, c *Cell) {
	for _, wait := range []time.Duration{500 * time.Millisecond, time.Second, 3 * time.Second, 15 * time.Second} {
		c.Flow.SrcPort = cfg.Ports.Next()
		c.Allowed = cfg.Evaluator.Evaluate(c.Flow).Combined == verdict.Allow
		c.Answer = cfg.Ask(ctx, c.From, m.Columns[c.Column].To, c.Flow, wait)
		if !c.Allowed || !c.Differs() || ctx.Err() != nil {
			return
		}
	}
}
