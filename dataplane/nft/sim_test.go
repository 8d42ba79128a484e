// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// simPacket is a packet as the kernel's rules see it.
type simPacket struct {
	iif, oif  string
	src, dst  netip.Addr
	proto     uint8
	transport []byte // header and payload behind the IP header
	ct        uint32 // state of the connection
}

// ports returns a transport header that begins with two ports.
func ports(src, dst uint16) []byte {
	h := binary.BigEndian.AppendUint16(nil, src)
	return append(binary.BigEndian.AppendUint16(h, dst), make([]byte, 16)...)
}

// icmpHeader returns a transport header that begins with type and code.
func icmpHeader(typ, code uint8) []byte { return append([]byte{typ, code}, make([]byte, 6)...) }

// sim walks a packet through the base chains of a hook, the way the kernel does. It takes
// bytes where the kernel takes them, whatever the protocol, so that a rule which reads a field without
// having made sure of family and protocol sees nonsense, or fails.
type sim struct {
	t      testing.TB
	table  *ruleset.Table
	packet simPacket
	logs   []string
}

// judge returns whether the table lets the packet through the hook, and the log lines it writes.
func judge(t testing.TB, table *ruleset.Table, hook ruleset.HookPoint, p simPacket) (allowed bool, logs []string) {
	s := &sim{t: t, table: table, packet: p}
	var bases []*ruleset.Chain
	for _, c := range table.Chains {
		if c.Hook != nil && c.Hook.Point == hook {
			bases = append(bases, c)
		}
	}
	slices.SortFunc(bases, func(a, b *ruleset.Chain) int { return cmp.Compare(a.Hook.Priority, b.Hook.Priority) })
	for _, c := range bases {
		kind := s.walk(c, 0)
		if kind == 0 {
			kind = c.Hook.Policy.Kind
		}
		if kind == ruleset.Drop {
			return false, s.logs
		}
		require.Equal(t, ruleset.Accept, kind, "end of %s", c.Name)
	}
	return true, s.logs
}

// walk returns Accept, Drop, or 0 for none (the end of the chain, or a return).
func (s *sim) walk(c *ruleset.Chain, depth int) ruleset.VerdictKind {
	require.LessOrEqual(s.t, depth, ruleset.MaxDepth)
	for _, r := range c.Rules {
		if !s.matches(r) {
			continue
		}
		for _, st := range r.Statements {
			v, ok := s.statement(st)
			if !ok {
				continue
			}
			switch v.Kind {
			case ruleset.Accept, ruleset.Drop:
				return v.Kind
			case ruleset.Return:
				return 0
			case ruleset.Jump:
				if kind := s.walk(s.chain(v.Chain), depth+1); kind != 0 {
					return kind
				}
			case ruleset.Goto:
				return s.walk(s.chain(v.Chain), depth+1)
			}
		}
	}
	return 0
}

func (s *sim) matches(r ruleset.Rule) bool {
	for _, m := range r.Matches {
		if !s.match(m) {
			return false
		}
	}
	return true
}

// statement returns the verdict of a statement, if it has one.
func (s *sim) statement(st ruleset.Statement) (ruleset.Verdict, bool) {
	switch st := st.(type) {
	case ruleset.Verdict:
		return st, true
	case ruleset.Log:
		s.logs = append(s.logs, st.Prefix)
	case ruleset.VMap:
		elements := st.Elements
		if st.Map != "" {
			elements = s.set(st.Map).Elements
		}
		if key, ok := s.key(st.Fields); ok {
			if e := find(elements, key); e != nil {
				return *e.Verdict, true
			}
		}
	}
	return ruleset.Verdict{}, false
}

func (s *sim) match(m ruleset.Match) bool {
	key, ok := s.key(ruleset.MatchFields(m))
	if !ok {
		return false // the rule breaks off, negated or not
	}
	switch m := m.(type) {
	case ruleset.Compare:
		v := key[0]
		switch {
		case m.Field == ruleset.CtState:
			return (binary.NativeEndian.Uint32(v)&binary.NativeEndian.Uint32(m.Value) != 0) != m.Not
		case m.Field.Type() == ruleset.TypeIfname && len(m.Value) < ruleset.IfnameSize:
			return bytes.HasPrefix(v, m.Value) != m.Not
		}
		return find([]ruleset.Element{{Key: []ruleset.Value{m.Value}, Last: m.Last}}, key) != nil != m.Not
	case ruleset.Lookup:
		return find(s.set(m.Set).Elements, key) != nil != m.Not
	case ruleset.In:
		return find(m.Elements, key) != nil != m.Not
	default:
		s.t.Fatalf("unknown match %T", m)
		return false
	}
}

// find returns the element that holds the key.
func find(elements []ruleset.Element, key []ruleset.Value) *ruleset.Element {
	for i, e := range elements {
		if e.Last != nil {
			if bytes.Compare(e.Key[0], key[0]) <= 0 && bytes.Compare(key[0], e.Last) <= 0 {
				return &elements[i]
			}
		} else if slices.EqualFunc(e.Key, key, func(a, b ruleset.Value) bool { return bytes.Equal(a, b) }) {
			return &elements[i]
		}
	}
	return nil
}

func (s *sim) key(fields []ruleset.Field) ([]ruleset.Value, bool) {
	var key []ruleset.Value
	for _, f := range fields {
		v, ok := s.field(f)
		if !ok {
			return nil, false
		}
		key = append(key, v)
	}
	return key, true
}

// field loads a field from the packet; not ok if the packet is too short.
func (s *sim) field(f ruleset.Field) (ruleset.Value, bool) {
	p := s.packet
	header := make([]byte, 12)
	nfproto := ruleset.NFProtoIPv4
	if p.src.Is6() {
		header, nfproto = make([]byte, 8), ruleset.NFProtoIPv6
	}
	network := slices.Concat(header, p.src.AsSlice(), p.dst.AsSlice(), p.transport)
	load := func(b []byte, offset, size int) (ruleset.Value, bool) {
		if offset+size > len(b) {
			return nil, false
		}
		return b[offset : offset+size], true
	}
	switch f {
	case ruleset.IIFName:
		return ruleset.Ifname(p.iif), p.iif != ""
	case ruleset.OIFName:
		return ruleset.Ifname(p.oif), p.oif != ""
	case ruleset.NFProto:
		return ruleset.Byte(nfproto), true
	case ruleset.L4Proto:
		return ruleset.Byte(p.proto), true
	case ruleset.IPSaddr:
		return load(network, 12, 4)
	case ruleset.IPDaddr:
		return load(network, 16, 4)
	case ruleset.IP6Saddr:
		return load(network, 8, 16)
	case ruleset.IP6Daddr:
		return load(network, 24, 16)
	case ruleset.Sport:
		return load(p.transport, 0, 2)
	case ruleset.Dport:
		return load(p.transport, 2, 2)
	case ruleset.ICMPType, ruleset.ICMPv6Type:
		return load(p.transport, 0, 1)
	case ruleset.ICMPCode, ruleset.ICMPv6Code:
		return load(p.transport, 1, 1)
	case ruleset.CtState:
		return ruleset.CtStates(p.ct), true
	default:
		s.t.Fatalf("unknown field %d", f)
		return nil, false
	}
}

func (s *sim) chain(name string) *ruleset.Chain {
	i := slices.IndexFunc(s.table.Chains, func(c *ruleset.Chain) bool { return c.Name == name })
	require.GreaterOrEqual(s.t, i, 0, "chain %s", name)
	return s.table.Chains[i]
}

func (s *sim) set(name string) *ruleset.Set {
	i := slices.IndexFunc(s.table.Sets, func(x *ruleset.Set) bool { return x.Name == name })
	require.GreaterOrEqual(s.t, i, 0, fmt.Sprintf("set %s", name))
	return s.table.Sets[i]
}
