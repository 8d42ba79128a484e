// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
)

// SimPacket is a packet of a test, with what rules see of it and of its connection.
type SimPacket struct {
	IIF, OIF  string
	Src, Dst  netip.Addr
	Proto     uint8
	Transport []byte // header and payload behind the IP header
	Header    policy.Header
	CT        uint32 // state of the connection
	Fragment  bool   // it is the first fragment, and Transport may be cut short
	// OrigDst and OrigPort are the destination before destination NAT, if there was any.
	OrigDst  netip.Addr
	OrigPort uint16
	Local    []netip.Addr // the host's own
	// connSrc and connDst are the addresses of the connection that the packet is related to.
	connSrc, connDst netip.Addr
	Priority         uint32
}

// SimHeader returns the header in the form of the simulator.
func SimHeader(h policy.Header) [ruleset.HeaderFields]uint16 {
	return [ruleset.HeaderFields]uint16{ruleset.DSCP: uint16(h.DSCP)}
}

// Ports returns a transport header that begins with two ports.
func Ports(src, dst uint16) []byte {
	h := binary.BigEndian.AppendUint16(nil, src)
	return append(binary.BigEndian.AppendUint16(h, dst), make([]byte, 16)...)
}

// ICMPHeader returns a transport header that begins with type and code.
func ICMPHeader(typ, code uint8) []byte { return append([]byte{typ, code}, make([]byte, 6)...) }

// SimTable has two simulators of a table: of the base chains before the translation of destinations,
// and of those after it.
type SimTable struct{ before, After *simulate.Simulator }

// NewSimTable returns the simulators of a table.
func NewSimTable(t testing.TB, table *ruleset.Table) *SimTable {
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
	return &SimTable{part(true), part(false)}
}

// SimResult is the result of a packet in a hook.
type SimResult struct {
	Allowed, Notrack bool
	Priority         uint32
	Logs             []string
}

// Run runs a packet through the base chains of a hook.
func (p SimPacket) Run(t testing.TB, s *simulate.Simulator, hook ruleset.HookPoint) SimResult {
	t.Helper()
	packet := simulate.Packet{
		IIFName: p.IIF, OIFName: p.OIF, Src: p.Src, Dst: p.Dst, Protocol: p.Proto, Transport: p.Transport,
		Header:        SimHeader(p.Header),
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
	out := SimResult{
		Allowed: r.Verdict == ruleset.Accept, Notrack: r.Conn.State == ruleset.CtUntracked,
		Priority: r.Packet.Priority,
	}
	for _, l := range r.Logs {
		out.Logs = append(out.Logs, l.Prefix)
	}
	return out
}

// addrType returns the type that a routing lookup has for an address.
func (p SimPacket) addrType(a netip.Addr) ruleset.Value {
	if slices.Contains(p.Local, a) || a.IsLoopback() {
		return ruleset.Uint32(ruleset.FibTypeLocal)
	}
	return ruleset.Uint32(ruleset.FibTypeUnicast)
}

// Judge returns whether the table lets the packet through the hook, and the log lines it writes.
func Judge(t testing.TB, table *ruleset.Table, hook ruleset.HookPoint, p SimPacket) (allowed bool, logs []string) {
	t.Helper()
	ready := NewSimTable(t, table)
	before := p.Run(t, ready.before, hook)
	if !before.Allowed {
		return false, before.Logs
	}
	after := p.Run(t, ready.After, hook)
	return after.Allowed, append(before.Logs, after.Logs...)
}
