// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/internal/netns"
)

// path is the path of a packet through the node: its interfaces and hooks.
type path struct {
	name                  string
	vias                  []string
	points                []ruleset.HookPoint
	tracking, translating bool
}

func paths() []path {
	through := []ruleset.HookPoint{ruleset.Prerouting, ruleset.Input, ruleset.Forward, ruleset.Postrouting}
	return []path{
		{name: "forward", vias: witnessLinks(), points: through, tracking: true},
		{name: "fragments", vias: witnessLinks(), points: through},
		{name: "translated", vias: witnessLinks(), points: through, tracking: true, translating: true},
		{
			name: "output", vias: []string{""}, points: []ruleset.HookPoint{ruleset.Output, ruleset.Postrouting},
			tracking: true,
		},
	}
}

// TestAgainstKernel sends random packets through random tables, in the kernel and in the simulator.
// Each packet must traverse the same rules, in the same order, with the same verdicts, and end with
// the same mark.
//
// The rules do not use connection marks: on some machines, the kernel's sometimes differ, for an
// unknown reason. No rule of the dataplane uses them.
func TestAgainstKernel(t *testing.T) {
	const tables, packets = 40, 60
	w := newWitness(t)
	steps, refused := 0, refusesConversion(w.node)
	for _, p := range paths() {
		for seed, tested := uint64(0), 0; tested < tables; seed++ {
			rng := rand.New(rand.NewPCG(seed, 8))
			table := randomTable(rng, p)
			if refused && needsConversion(table) {
				continue
			}
			tested++
			require.NoError(t, table.Validate(), "%s %d", p.name, seed)
			w.load(t, unix.NFPROTO_INET, table.Name, "flush ruleset inet\n"+tracer+table.String())
			simulator, err := simulate.New(simulate.Config{Table: table})
			require.NoError(t, err)
			pinned(func() {
				seen := map[string]bool{}
				for len(seen) < packets && err == nil {
					f := randomFlow(rng, p)
					if !seen[f.tuple()] {
						seen[f.tuple()] = true
						var n int
						n, err = w.compare(simulator, f, table.Name)
						steps += n
					}
				}
				if err == nil && p.tracking {
					err = w.forget()
				}
			})
			require.NoError(t, err, "%s, seed %d\n%s", p.name, seed, where(table, err))
		}
	}
	require.Greater(t, steps, len(paths())*tables*packets*3, "rules that packets traversed")
}

// where returns the table's text if there is an error.
func where(table *ruleset.Table, err error) string {
	if err == nil {
		return ""
	}
	return table.String()
}

// compare sends the packet, and returns the number of steps, in which kernel and simulator must
// agree.
func (w *witness) compare(s *simulate.Simulator, f *flow, table string) (int, error) {
	if f.known != nil {
		if err := w.track(f); err != nil {
			return 0, fmt.Errorf("%s: track: %w", f, err)
		}
	}
	kernel, err := w.send(f.sent(), table)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", f, err)
	}
	simulated, mark, err := f.simulate(s)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", f, err)
	}
	for i := range max(len(kernel), len(simulated)) {
		var k, s witnessStep
		if i < len(kernel) {
			k = kernel[i]
		}
		if i < len(simulated) {
			s = simulated[i]
		}
		if k.mark = 0; k != s {
			return 0, fmt.Errorf(
				"%s\nstep %d: kernel %+v, simulator %+v\nkernel %+v\nsimulator %+v", f, i, k, s, kernel, simulated,
			)
		}
	}
	if n := len(kernel); n > 0 && kernel[n-1].mark != mark {
		return 0, fmt.Errorf("%s\nmark %#x, in the kernel %#x\n%+v", f, mark, kernel[n-1].mark, kernel)
	}
	return len(kernel), nil
}

// simulate runs the packet through the hooks of its path.
func (f *flow) simulate(s *simulate.Simulator) (steps []witnessStep, mark uint32, err error) {
	p, c := f.packet(), f.conn()
	points := []ruleset.HookPoint{ruleset.Prerouting, ruleset.Forward, ruleset.Postrouting}
	if f.via == "" {
		points = []ruleset.HookPoint{ruleset.Output, ruleset.Postrouting}
	}
	for _, point := range points {
		local := p.Dst == local4 || p.Dst == local6
		if local && point == ruleset.Forward {
			point = ruleset.Input
		} else if local && point == ruleset.Postrouting {
			break
		}
		if point == ruleset.Forward && p.Src.Is4() { // forwarding changes a packet before the hook
			p.Priority = map[uint16]uint32{0: 0, 23: 4, 46: 4}[p.Header[ruleset.HeaderDSCP]]
		}
		f.setInterfaces(&p, point)
		r, err := s.Trace(point, p, c)
		if err != nil {
			return nil, 0, err
		}
		for _, step := range r.Trace {
			v := step.Verdict.String()
			if step.Verdict.Kind == 0 {
				v = ""
			}
			steps = append(steps, witnessStep{chain: step.Chain, rule: step.Rule, verdict: v})
		}
		if p, c = r.Packet, r.Conn; r.Verdict == ruleset.Drop {
			break
		}
	}
	return steps, p.Mark, nil
}

// setInterfaces sets the interfaces and the result of the routing lookup at the hook, according to
// witness.routes.
func (f *flow) setInterfaces(p *simulate.Packet, point ruleset.HookPoint) {
	p.IIFName, p.OIFName = f.via, "wan0"
	if b := p.Dst.AsSlice(); b[1] == 1 {
		p.OIFName = "wan1"
	}
	if point == ruleset.Prerouting || point == ruleset.Input {
		p.OIFName = ""
	}
	to := ruleset.FibTypeUnicast
	if p.Dst == local4 || p.Dst == local6 {
		to = ruleset.FibTypeLocal
	}
	p.Facts = map[ruleset.Field]ruleset.Value{ruleset.FibDaddrType: ruleset.Uint32(to)}
}

// packet returns the packet for the simulator.
func (f *flow) packet() simulate.Packet {
	p := simulate.Packet{
		Src: f.src, Dst: f.dst, Protocol: f.protocol, SrcPort: f.sport, DstPort: f.dport,
		Header: [ruleset.HeaderFields]uint16{
			ruleset.HeaderDSCP:     uint16(f.dscp),
			ruleset.HeaderICMPType: uint16(f.icmpType), ruleset.HeaderICMPCode: uint16(f.icmpCode),
			ruleset.HeaderTCPFlags: uint16(f.tcpFlags),
		},
		Mark: f.mark, Priority: f.priority,
	}
	if f.fragment {
		p.Fragment = 100
	}
	if f.fragment || f.protocol == icmp4 || f.protocol == icmp6 || f.protocol == portless || f.protocol == sctp {
		p.Transport = f.transport()
	}
	return p
}

// conn returns the kernel's view of the packet's connection.
func (f *flow) conn() simulate.Conn {
	if k := f.known; k != nil {
		c := simulate.Conn{State: ruleset.CtNew, Status: k.status(), Reply: k.reply}
		if k.reply || k.seen {
			c.State = ruleset.CtEstablished
			c.Status |= ruleset.CtSeenReply // this packet sets it, if no earlier one did
		}
		return c
	}
	begins, untracked := f.trackable()
	switch {
	case untracked:
		return simulate.Conn{State: ruleset.CtUntracked}
	case !begins:
		return simulate.Conn{State: ruleset.CtInvalid}
	}
	return simulate.Conn{}
}

// refusesConversion reports whether the kernel refuses nft's conversion of byte order for fields of
// one byte in a concatenation with ranges, as Linux 6.12.117 does. The dataplane programs its rules
// without it.
func refusesConversion(ns *netns.NS) bool {
	return ns.Do(func() error {
		command := exec.Command("nft", "-f", "-")
		command.Stdin = strings.NewReader("table inet probe {\n\tchain c {\n" +
			"\t\tudp dport . udp sport . meta nfproto { 1-2 . 3-4 . ipv6 }\n\t}\n}\ndelete table inet probe\n")
		return command.Run()
	}) != nil
}

// needsConversion reports whether a table has such a concatenation.
func needsConversion(t *ruleset.Table) bool {
	ranges := map[string]bool{}
	for _, s := range t.Sets {
		ranges[s.Name] = s.Interval
	}
	converted := func(fields []ruleset.Field, set string, elements []ruleset.Element) bool {
		return len(fields) > 1 && slices.ContainsFunc(fields, func(f ruleset.Field) bool {
			return f.Type().Size() == 1 && f.Load().Origin != ruleset.FromPayload
		}) && (ranges[set] || slices.ContainsFunc(elements, func(e ruleset.Element) bool { return e.Ends != nil }))
	}
	inRule := func(r ruleset.Rule) bool {
		return slices.ContainsFunc(r.Matches, func(m ruleset.Match) bool {
			switch m := m.(type) {
			case ruleset.In:
				return converted(m.Fields, "", m.Elements)
			case ruleset.Lookup:
				return converted(m.Fields, m.Set, nil)
			}
			return false
		}) || slices.ContainsFunc(r.Statements, func(s ruleset.Statement) bool {
			switch s := s.(type) {
			case ruleset.VMap:
				return converted(s.Fields, s.Map, s.Elements)
			case ruleset.Assign:
				return converted(s.Fields, s.Map, nil)
			case ruleset.NAT:
				return converted(s.Fields, s.Map, nil)
			}
			return false
		})
	}
	return slices.ContainsFunc(t.Chains, func(c *ruleset.Chain) bool { return slices.ContainsFunc(c.Rules, inRule) })
}
