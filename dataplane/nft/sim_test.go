// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// simPacket is a packet as the kernel's rules see it.
type simPacket struct {
	iif, oif  string
	src, dst  netip.Addr
	proto     uint8
	transport []byte // header and payload behind the IP header
	header    policy.Header
	ct        uint32 // state of the connection
	fragment  bool   // the first of several, with as much of the transport header as transport has
	// origDst and origPort are the destination before destination NAT, if there was any.
	origDst  netip.Addr
	origPort uint16
	local    []netip.Addr // the host's own
	// connSrc and connDst are the addresses of the connection that the packet is related to.
	connSrc, connDst netip.Addr
	priority         uint32
}

// simHeader returns the header in the form of the simulator.
func simHeader(h policy.Header) [ruleset.HeaderFields]uint16 {
	return [ruleset.HeaderFields]uint16{ruleset.DSCP: uint16(h.DSCP)}
}

// ports returns a transport header that begins with two ports.
func ports(src, dst uint16) []byte {
	h := binary.BigEndian.AppendUint16(nil, src)
	return append(binary.BigEndian.AppendUint16(h, dst), make([]byte, 16)...)
}

// icmpHeader returns a transport header that begins with type and code.
func icmpHeader(typ, code uint8) []byte { return append([]byte{typ, code}, make([]byte, 6)...) }

// simTable is a table made ready for many packets, in two parts: the base chains up to where
// destinations are translated, and those behind.
type simTable struct{ before, after *ruleset.Simulator }

func newSimTable(t testing.TB, table *ruleset.Table) *simTable {
	t.Helper()
	part := func(before bool) *ruleset.Simulator {
		some := *table
		some.Chains = slices.DeleteFunc(slices.Clone(table.Chains), func(c *ruleset.Chain) bool {
			if c.Hook == nil {
				return false
			}
			early := c.Hook.Priority <= -100 && c.Hook.Point != ruleset.Postrouting
			return c.Hook.Type == ruleset.HookNAT || early != before
		})
		s, err := ruleset.NewSimulator(ruleset.SimulatorConfig{Table: &some})
		require.NoError(t, err)
		return s
	}
	return &simTable{part(true), part(false)}
}

// simResult is what became of a packet in a hook.
type simResult struct {
	allowed, notrack bool
	priority         uint32
	logs             []string
}

// run leads a packet through the base chains of a hook.
func (p simPacket) run(t testing.TB, s *ruleset.Simulator, hook ruleset.HookPoint) simResult {
	t.Helper()
	packet := ruleset.Packet{
		IIFName: p.iif, OIFName: p.oif, Src: p.src, Dst: p.dst, Protocol: p.proto, Transport: p.transport,
		Header:        simHeader(p.header),
		MoreFragments: p.fragment,
		Priority:      p.priority,
		Facts: map[ruleset.Field]ruleset.Value{
			ruleset.FibSaddrType: p.addrType(p.src), ruleset.FibDaddrType: p.addrType(p.dst),
		},
	}
	conn := ruleset.Conn{State: p.ct}
	if p.origDst.IsValid() {
		conn.Status = ruleset.CtDNAT
		conn.Original = ruleset.Tuple{Src: p.src, Dst: p.origDst, DstPort: p.origPort}
	}
	if p.connSrc.IsValid() {
		conn.Original = ruleset.Tuple{Src: p.connSrc, Dst: p.connDst}
	}
	r, err := s.Run(hook, packet, conn)
	require.NoError(t, err)
	out := simResult{
		allowed: r.Verdict == ruleset.Accept, notrack: r.Conn.State == ruleset.CtUntracked,
		priority: r.Packet.Priority,
	}
	for _, l := range r.Logs {
		out.logs = append(out.logs, l.Prefix)
	}
	return out
}

// addrType is what routing says of an address.
func (p simPacket) addrType(a netip.Addr) ruleset.Value {
	if slices.Contains(p.local, a) || a.IsLoopback() {
		return ruleset.Uint32(ruleset.FibTypeLocal)
	}
	return ruleset.Uint32(ruleset.FibTypeUnicast)
}

// judge returns whether the table lets the packet through the hook, and the log lines it writes.
func judge(t testing.TB, table *ruleset.Table, hook ruleset.HookPoint, p simPacket) (allowed bool, logs []string) {
	t.Helper()
	ready := newSimTable(t, table)
	before := p.run(t, ready.before, hook)
	if !before.allowed {
		return false, before.logs
	}
	after := p.run(t, ready.after, hook)
	return after.allowed, append(before.logs, after.logs...)
}
