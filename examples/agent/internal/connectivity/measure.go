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

// atOnce is how many tests run at a time. Each test takes a thread.
const atOnce = 256

// Config configures Measure.
type Config struct {
	// Parties are the senders and receivers of packets. Required.
	Parties []node.Party
	// Evaluator has the policy that is enforced. Required.
	Evaluator *verdict.Evaluator
	// Probe sends the first packet of a flow from one party to another, and waits for an answer for
	// up to the given time. The parameters from and to are the indexes of the two parties. Probe is
	// called from many goroutines. Required.
	Probe func(ctx context.Context, from, to int, flow verdict.Flow, wait time.Duration) probe.Answer
	// Ports gives each attempt its own source port or ICMP identifier. Required.
	Ports *Ports
}

// Ports generates source ports. The zero value is ready to use. It is safe for concurrent use.
type Ports struct{ last atomic.Uint32 }

// The range of port numbers that Ports generates. Servers usually listen on smaller numbers.
const firstPort, lastPort = 20_000, 65_000

// Next returns a number that it has not returned before. After the end of the range, numbers
// repeat.
func (p *Ports) Next() uint16 {
	const count = lastPort - firstPort + 1
	return uint16(firstPort + (p.last.Add(1)-1)%count)
}

// Measure tests flows from each party to each Column (a port, or ICMP echo) of every other party.
// There is one flow for each address family that both parties have.
func Measure(ctx context.Context, cfg Config) (*Matrix, error) {
	if cfg.Evaluator == nil || cfg.Probe == nil || cfg.Ports == nil {
		return nil, errors.New("connectivity: Config.Evaluator, Probe and Ports: required")
	}
	m := &Matrix{Parties: cfg.Parties, Columns: columns(cfg.Parties)}
	for from := range m.Parties {
		for i, column := range m.Columns {
			m.Cells = append(m.Cells, m.cells(from, i, column)...)
		}
	}
	var (
		probes sync.WaitGroup
		room   = make(chan struct{}, atOnce)
	)
	for i := range m.Cells {
		room <- struct{}{}
		probes.Go(func() {
			m.measure(ctx, cfg, &m.Cells[i])
			<-room
		})
	}
	probes.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connectivity: %w", err)
	}
	return m, nil
}

// columns returns the destinations: for each party its ports, and then ICMP echo.
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

// cells returns the cells of one sender and column: one for each family, or none if the sender is
// the destination.
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

// address returns the first address of a family, or the zero Addr.
func address(p node.Party, is6 bool) netip.Addr {
	for _, a := range p.Addresses {
		if a.Is6() == is6 {
			return a
		}
	}
	return netip.Addr{}
}

// measure tests the flow of one cell. If policy allows the flow and there is no answer, it tries
// again with longer waits. The last wait is for machines without hardware virtualization.
func (m *Matrix) measure(ctx context.Context, cfg Config, c *Cell) {
	for _, wait := range []time.Duration{500 * time.Millisecond, time.Second, 3 * time.Second, 15 * time.Second} {
		c.Flow.SrcPort = cfg.Ports.Next()
		c.Allowed = cfg.Evaluator.Evaluate(c.Flow).Combined == verdict.Allow
		c.Answer = cfg.Probe(ctx, c.From, m.Columns[c.Column].To, c.Flow, wait)
		if !c.Allowed || !c.Differs() || ctx.Err() != nil {
			return
		}
	}
}
