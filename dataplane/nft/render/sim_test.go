// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// simPacket is a packet of a test, with the fields of the packet and its connection that rules
// match.
type simPacket struct {
	IIF, OIF  string
	Src, Dst  netip.Addr
	Proto     uint8
	Transport []byte // transport header and payload
	Header    policy.Header
	CT        uint32 // state of the connection
	Fragment  bool   // it is the first fragment, and Transport may be incomplete
	// OrigDst and OrigPort are the destination before destination NAT, if there was any.
	OrigDst  netip.Addr
	OrigPort uint16
	Local    []netip.Addr // addresses of the host
	// connSrc and connDst are the addresses of the connection that the packet is related to.
	connSrc, connDst netip.Addr
	Priority         uint32
}

// simHeader returns the header in the form of the simulator.
func simHeader(h policy.Header) [ruleset.HeaderFields]uint16 {
	return [ruleset.HeaderFields]uint16{ruleset.HeaderDSCP: uint16(h.DSCP)}
}

// simTable has two simulators of a table: of the base chains before the translation of
// destinations, and of those after it.
type simTable struct{ before, after *simulate.Simulator }

// newSimTable returns the simulators of a table.
func newSimTable(t testing.TB, table *ruleset.Table) *simTable {
	t.Helper()
	part := func(before bool) *simulate.Simulator {
		some := *table
		some.Chains = slices.DeleteFunc(slices.Clone(table.Chains), func(c *ruleset.Chain) bool {
			if c.Hook == nil {
				return false
			}
			early := c.Hook.Priority <= -100 && c.Hook.Point != ruleset.Postrouting
			return c.Hook.Type == ruleset.HookNAT || early != before
		})
		s, err := simulate.New(simulate.Config{Table: &some})
		require.NoError(t, err)
		return s
	}
	return &simTable{part(true), part(false)}
}

// simResult is the result of a packet in a hook.
type simResult struct {
	Allowed, Notrack bool
	Priority         uint32
	Logs             []string
}

// Run runs a packet through the base chains of a hook.
func (p simPacket) Run(t testing.TB, s *simulate.Simulator, hook ruleset.HookPoint) simResult {
	t.Helper()
	packet := simulate.Packet{
		IIFName: p.IIF, OIFName: p.OIF, Src: p.Src, Dst: p.Dst, Protocol: p.Proto, Transport: p.Transport,
		Header:        simHeader(p.Header),
		MoreFragments: p.Fragment,
		Priority:      p.Priority,
		Facts: map[ruleset.Field]ruleset.Value{
			ruleset.FibSaddrType: p.addrType(p.Src), ruleset.FibDaddrType: p.addrType(p.Dst),
		},
	}
	conn := simulate.Conn{State: p.CT}
	if p.OrigDst.IsValid() {
		conn.Status = ruleset.CtDNAT
		conn.Original = simulate.Tuple{Src: p.Src, Dst: p.OrigDst, DstPort: p.OrigPort}
	}
	if p.connSrc.IsValid() {
		conn.Original = simulate.Tuple{Src: p.connSrc, Dst: p.connDst}
	}
	r, err := s.Run(hook, packet, conn)
	require.NoError(t, err)
	out := simResult{
		Allowed: r.Verdict == ruleset.Accept, Notrack: r.Conn.State == ruleset.CtUntracked,
		Priority: r.Packet.Priority,
	}
	for _, l := range r.Logs {
		out.Logs = append(out.Logs, l.Prefix)
	}
	return out
}

// addrType returns the type that a routing lookup has for an address.
func (p simPacket) addrType(a netip.Addr) ruleset.Value {
	if slices.Contains(p.Local, a) || a.IsLoopback() {
		return ruleset.Uint32(ruleset.FibTypeLocal)
	}
	if a.IsMulticast() {
		return ruleset.Uint32(ruleset.FibTypeMulticast)
	}
	if a.Is4() && a.As4()[3] == 255 {
		return ruleset.Uint32(ruleset.FibTypeBroadcast)
	}
	return ruleset.Uint32(ruleset.FibTypeUnicast)
}

// judgePacket returns whether the packet passes the hook, and the log lines.
func judgePacket(
	t testing.TB, table *ruleset.Table, hook ruleset.HookPoint, p simPacket,
) (allowed bool, logs []string) {
	t.Helper()
	ready := newSimTable(t, table)
	before := p.Run(t, ready.before, hook)
	if !before.Allowed {
		return false, before.Logs
	}
	after := p.Run(t, ready.after, hook)
	return after.Allowed, append(before.Logs, after.Logs...)
}

// packetsOf returns the packet of a flow before and after the translation of destinations.
func packetsOf(f verdict.Flow, from, to nfttest.FlowEnd) (before, after simPacket) {
	after = simPacket{
		IIF: from.Iface, OIF: to.Iface, Src: f.Src, Dst: f.Dst, Proto: uint8(f.Protocol),
		Transport: nfttest.ICMPHeader(f.ICMPType, f.ICMPCode), Local: nfttest.NodeAddrs(), CT: ruleset.CtNew,
		Header: f.Header,
	}
	switch f.State {
	case verdict.StateEstablished:
		after.CT = ruleset.CtEstablished
	case verdict.StateRelated:
		after.CT, after.connSrc, after.connDst = ruleset.CtRelated, f.ConnSrc, f.ConnDst
	case verdict.StateInvalid:
		after.CT = ruleset.CtInvalid
	}
	port := f.DstPort
	if f.Protocol.HasPorts() {
		after.Transport = nfttest.Ports(f.SrcPort, f.DstPort)
	}
	before = after
	if f.OrigDst.IsValid() {
		before.Dst, after.OrigDst, after.OrigPort = f.OrigDst, f.OrigDst, port
		if f.OrigDstPort != 0 {
			after.OrigPort = f.OrigDstPort
			before.Transport = nfttest.Ports(f.SrcPort, f.OrigDstPort)
		}
	}
	switch {
	case !from.Own:
		before.OIF = ""
	case f.OrigDst.IsValid():
		before.OIF = "lo" // the original destination is an address of the host
	}
	return before, after
}

// simulateFlow runs a flow through all hooks on its way. untracked is set if a rule excluded it
// from connection tracking.
func simulateFlow(t *testing.T, table *simTable, f verdict.Flow, from, to nfttest.FlowEnd) (allowed, untracked bool) {
	before, after := packetsOf(f, from, to)
	hook := ruleset.Prerouting
	if from.Own {
		hook = ruleset.Output
	}
	result := before.Run(t, table.before, hook)
	if untracked = result.Notrack; !result.Allowed {
		return false, untracked
	}
	if untracked {
		after.CT = ruleset.CtUntracked
	}
	passes := func(hook ruleset.HookPoint) bool { return after.Run(t, table.after, hook).Allowed }
	if from.Own {
		first := after
		if f.OrigDst.IsValid() {
			first.OIF = "lo" // this hook still has the interface of the original destination
		}
		if !first.Run(t, table.after, ruleset.Output).Allowed {
			return false, untracked
		}
	}
	if to.Own {
		after.OIF = ""
		return passes(ruleset.Input), untracked
	}
	return (from.Own || passes(ruleset.Forward)) && passes(ruleset.Postrouting), untracked
}

// randomPacket returns one packet in the form of each of the two judges.
func randomPacket(w nfttest.World) (dptest.Packet, simPacket) {
	p, transport := w.Packet()
	sp := simPacket{
		IIF: "eth0", OIF: "eth1", Src: p.Src, Dst: p.Dst, Proto: uint8(p.Protocol), Transport: transport,
		Header: p.Header, CT: ruleset.CtNew,
	}
	if p.From != (policy.Key{}) {
		sp.IIF = p.From.Name
	}
	if p.To != (policy.Key{}) {
		sp.OIF = p.To.Name
	}
	return p, sp
}

// messages returns the texts of errors.
func messages(errs []error) (out []string) {
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}
