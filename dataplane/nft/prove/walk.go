// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"cmp"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// end is the place where a packet enters or leaves the node: the interface of a workload, or an
// interface of the host. If neither is set, it is a process of the node.
type end struct {
	workload *policy.WorkloadEndpoint
	iface    string
}

func (e end) name() string {
	if e.workload != nil {
		return e.workload.Interface
	}
	return e.iface
}

// seen returns the interface that rules see at an end. For a port of a bridge, it is the bridge.
func (p *prover) seen(e end) string {
	name := e.name()
	return cmp.Or(p.cfg.Bridges[name], name)
}

// comparison has one packet, and the verdict of policy on it.
type comparison struct {
	from, to end
	src, dst netip.Addr
	transport
	want bool
}

// flow returns the packet as package verdict needs it.
func (p *prover) flow(c *comparison) verdict.Flow {
	f := verdict.Flow{
		Src: c.src, Dst: c.dst, Protocol: c.protocol, SrcPort: c.sport, DstPort: c.dport,
		Node: p.cfg.Node, InInterface: c.from.name(), OutInterface: c.to.name(),
	}
	p.headers.set(&f, c.header)
	if c.from.workload != nil {
		f.SrcEndpoint = c.from.workload.Key()
	}
	if c.to.workload != nil {
		f.DstEndpoint = c.to.workload.Key()
	}
	return f
}

// evaluate reports whether policy allows the packet.
func (p *prover) evaluate(e *verdict.Evaluator, c *comparison) bool {
	p.evaluations.Add(1)
	return e.Evaluate(p.flow(c)).Combined != verdict.Deny
}

// packet returns the packet as package simulate needs it: the first packet of a connection.
func (p *prover) packet(c *comparison) simulate.Packet {
	return simulate.Packet{
		Src: c.src, Dst: c.dst, Protocol: uint8(c.protocol), SrcPort: c.sport, DstPort: c.dport,
		Header: c.header, Facts: p.facts[p.isLocal(c.src)][p.isLocal(c.dst)],
	}
}

func (p *prover) isLocal(a netip.Addr) int {
	if a.IsLoopback() || p.local[a] {
		return 1
	}
	return 0
}

// way returns the hooks that the packet passes, in order.
func (c *comparison) way() []ruleset.HookPoint {
	switch own := (end{}); {
	case c.from == own:
		return []ruleset.HookPoint{ruleset.Output, ruleset.Postrouting}
	case c.to == own:
		return []ruleset.HookPoint{ruleset.Prerouting, ruleset.Input}
	}
	return []ruleset.HookPoint{ruleset.Prerouting, ruleset.Forward, ruleset.Postrouting}
}

// simulate runs the packet through the table. With trace, it also returns the rules that the packet
// matched.
func (p *prover) simulate(c *comparison, trace bool) (allowed bool, steps []Step, err error) {
	packet, conn := p.packet(c), simulate.Conn{}
	in, out := p.seen(c.from), p.seen(c.to)
	run := p.sim.Run
	if trace {
		run = p.sim.Trace
	}
	for _, hook := range c.way() {
		if !p.hooks[hook] {
			continue
		}
		packet.IIFName, packet.OIFName = in, out
		switch hook {
		case ruleset.Prerouting:
			packet.OIFName = ""
		case ruleset.Postrouting:
			packet.IIFName = ""
		}
		r, err := run(hook, packet, conn)
		if err != nil {
			return false, nil, err
		}
		for _, s := range r.Trace {
			step := Step{Hook: hook.String(), Chain: s.Chain, Rule: s.Rule, Comment: s.Comment}
			if s.Verdict.Kind != 0 {
				step.Verdict = s.Verdict.String()
			}
			steps = append(steps, step)
		}
		if r.Verdict != ruleset.Accept {
			return false, steps, nil
		}
		packet, conn = r.Packet, r.Conn
	}
	return true, steps, nil
}
