// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// packet4 is a TCP packet to port 80.
func packet4() simulate.Packet {
	return simulate.Packet{
		IIFName: "wan0", Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"),
		Protocol: 6, SrcPort: 1000, DstPort: 80,
		Header: [ruleset.HeaderFields]uint16{ruleset.HeaderTCPFlags: uint16(ruleset.TCPSyn)},
	}
}

// base is a base chain that accepts at its end.
func base(name string, point ruleset.HookPoint, priority int, rules ...ruleset.Rule) *ruleset.Chain {
	return &ruleset.Chain{
		Name: name, Hook: &ruleset.Hook{Point: point, Priority: priority, Policy: verdict(ruleset.Accept)},
		Rules: rules,
	}
}

func plain(name string, rules ...ruleset.Rule) *ruleset.Chain {
	return &ruleset.Chain{Name: name, Rules: rules}
}

func table(parts ...any) *ruleset.Table {
	t := &ruleset.Table{Name: "t"}
	for _, p := range parts {
		switch p := p.(type) {
		case *ruleset.Set:
			t.Sets = append(t.Sets, p)
		case *ruleset.Chain:
			t.Chains = append(t.Chains, p)
		}
	}
	t.Normalize()
	return t
}

// trace runs a packet through a table's base chains of a hook.
func trace(
	t *testing.T, x *ruleset.Table, point ruleset.HookPoint, p simulate.Packet, c simulate.Conn,
) simulate.Result {
	t.Helper()
	s, err := simulate.New(simulate.Config{Table: x})
	require.NoError(t, err)
	r, err := s.Trace(point, p, c)
	require.NoError(t, err)
	return r
}

// way returns the trace as "chain:rule verdict, ...".
func way(r simulate.Result) string {
	var steps []string
	for _, s := range r.Trace {
		text := fmt.Sprintf("%s:%d", s.Chain, s.Rule)
		if s.Verdict.Kind != 0 {
			text += " " + s.Verdict.String()
		}
		steps = append(steps, text)
	}
	return strings.Join(steps, ", ")
}

// matches reports whether a rule with these matches applies to the packet at Forward.
func matches(t *testing.T, p simulate.Packet, c simulate.Conn, ms ...ruleset.Match) bool {
	t.Helper()
	r := trace(t, table(base("b", ruleset.Forward, 0, rule(verdict(ruleset.Drop), ms...))), ruleset.Forward, p, c)
	return r.Verdict == ruleset.Drop
}

var accept, drop, count = verdict(ruleset.Accept), verdict(ruleset.Drop), ruleset.Counter{}

func TestVerdicts(t *testing.T) {
	jump, goTo, back := verdict(ruleset.Jump, "x"), verdict(ruleset.Goto, "x"), verdict(ruleset.Return)
	x := func(rules ...ruleset.Rule) *ruleset.Chain { return plain("x", rules...) }
	last := rule(count)
	for name, row := range map[string]struct {
		rules []ruleset.Rule
		x     *ruleset.Chain
		way   string
	}{
		"jump returns at the end": {
			[]ruleset.Rule{rule(jump), last}, x(rule(count)), "b:0 jump x, x:0, b:1, b:-1 accept",
		},
		"jump returns by a return": {
			[]ruleset.Rule{rule(jump), last}, x(rule(back), last), "b:0 jump x, x:0 return, b:1, b:-1 accept",
		},
		"goto does not return": {
			[]ruleset.Rule{rule(goTo), last}, x(rule(count)), "b:0 goto x, x:0, b:-1 accept",
		},
		"return of a base chain": {[]ruleset.Rule{rule(back), last}, x(last), "b:0 return, b:-1 accept"},
		"drop ends":              {[]ruleset.Rule{rule(jump), last}, x(rule(drop), last), "b:0 jump x, x:0 drop"},
		"goto returns to the jumping chain": {
			[]ruleset.Rule{rule(jump), last},
			x(rule(verdict(ruleset.Goto, "y")), last),
			"b:0 jump x, x:0 goto y, y:0, b:1, b:-1 accept",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := trace(
				t, table(base("b", ruleset.Forward, 0, row.rules...), row.x, plain("y", last)), ruleset.Forward,
				packet4(), simulate.Conn{},
			)
			require.Equal(t, row.way, way(r))
		})
	}
}

func TestBaseChains(t *testing.T) {
	dropping := base("d", ruleset.Forward, 10)
	dropping.Hook.Policy = drop
	x := table(
		base("a", ruleset.Forward, 0, ruleset.Rule{Statements: []ruleset.Statement{accept}, Comment: "why"}),
		base("b", ruleset.Forward, 0), // of equal priority: before a
		base("c", ruleset.Forward, -5), dropping, base("e", ruleset.Forward, 20), base("f", ruleset.Input, 0),
	)
	r := trace(t, x, ruleset.Forward, packet4(), simulate.Conn{})
	require.Equal(t, "c:-1 accept, b:-1 accept, a:0 accept, d:-1 drop", way(r))
	require.Equal(t, "why", r.Trace[2].Comment)
	require.Equal(t, ruleset.Drop, r.Verdict)
	require.Equal(t, "d", r.Chain)
	require.Equal(t, -1, r.Rule)

	r = trace(t, x, ruleset.Output, packet4(), simulate.Conn{})
	require.Equal(t, ruleset.Accept, r.Verdict)
	require.Empty(t, r.Chain, "no chain evaluated it")

	s, err := simulate.New(simulate.Config{Table: x})
	require.NoError(t, err)
	r, err = s.Run(ruleset.Forward, packet4(), simulate.Conn{})
	require.NoError(t, err)
	require.Empty(t, r.Trace, "not requested")
	require.Equal(t, "d", r.Chain)
}

func TestFamilies(t *testing.T) {
	p6 := packet4()
	p6.Src, p6.Dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	for family, sees := range map[ruleset.Family][2]bool{
		ruleset.FamilyINet: {true, true}, ruleset.FamilyIPv4: {true, false}, ruleset.FamilyIPv6: {false, true},
	} {
		x := table(base("b", ruleset.Forward, 0, rule(drop)))
		x.Family = family
		require.Equal(
			t, sees[0], trace(t, x, ruleset.Forward, packet4(), simulate.Conn{}).Verdict == ruleset.Drop, family,
		)
		require.Equal(t, sees[1], trace(t, x, ruleset.Forward, p6, simulate.Conn{}).Verdict == ruleset.Drop, family)
	}
}

// If a packet is too short for a load, the rule does not match, negated or not. Otherwise, the load
// reads the bytes, whatever they mean.
func TestHeaders(t *testing.T) {
	port := func(not bool) ruleset.Match {
		return ruleset.Compare{Field: ruleset.Dport, Not: not, Value: ruleset.Port(80)}
	}
	p := packet4()
	require.True(t, matches(t, p, simulate.Conn{}, port(false)))
	require.False(t, matches(t, p, simulate.Conn{}, port(true)))

	p.Protocol = 253
	require.False(t, matches(t, p, simulate.Conn{}, port(false)))
	require.False(t, matches(t, p, simulate.Conn{}, port(true)), "nothing behind the IP header")
	p.Transport = []byte{9, 9, 0, 80}
	require.True(t, matches(t, p, simulate.Conn{}, port(false)), "no ports, but bytes")

	p = packet4()
	p.Protocol, p.Header[ruleset.HeaderICMPType], p.Header[ruleset.HeaderICMPCode] = 1, 8, 3
	require.True(t, matches(t, p, simulate.Conn{}, port(true)), "a checksum")
	require.True(t, matches(t, p, simulate.Conn{}, is(ruleset.Sport, ruleset.Port(8<<8|3))))
	require.True(t, matches(t, p, simulate.Conn{}, is(ruleset.ICMPCode, ruleset.Byte(3))))

	p = packet4()
	require.True(
		t, matches(t, p, simulate.Conn{}, ruleset.Compare{Field: ruleset.IP6Saddr, Not: true, Value: addr("fd00::1")}),
		"bytes of IPv4",
	)
	p.Protocol = 253
	require.False(
		t, matches(t, p, simulate.Conn{}, ruleset.Compare{Field: ruleset.IP6Saddr, Not: true, Value: addr("fd00::1")}),
		"the packet is too short",
	)

	p = packet4()
	p.Fragment, p.Transport = 100, []byte{1, 1, 0, 80}
	require.True(t, matches(t, p, simulate.Conn{}, port(false)), "the kernel reads payload as ports")
	require.True(t, matches(t, p, simulate.Conn{}, is(ruleset.L4Proto, ruleset.Byte(6))))
}

func TestFragments(t *testing.T) {
	exists := is(ruleset.FragmentHeader, ruleset.Byte(1))
	p := packet4()
	p.MoreFragments = true
	require.False(t, matches(t, p, simulate.Conn{}, exists), "IPv4 has no fragment header")
	require.False(t, matches(t, p, simulate.Conn{}, is(ruleset.FragmentHeader, ruleset.Byte(0))))

	p.Src, p.Dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	require.True(t, matches(t, p, simulate.Conn{}, exists), "the first")
	require.True(
		t, matches(t, p, simulate.Conn{}, is(ruleset.Dport, ruleset.Port(80))), "it has the transport header",
	)
	p.Transport = []byte{}
	require.True(t, matches(t, p, simulate.Conn{}, exists))
	for _, not := range []bool{false, true} {
		port := ruleset.Compare{Field: ruleset.Dport, Not: not, Value: ruleset.Port(80)}
		require.False(t, matches(t, p, simulate.Conn{}, port), "it lacks the transport header: not %t", not)
	}
	p.MoreFragments, p.Fragment = false, 9
	require.True(t, matches(t, p, simulate.Conn{}, exists), "the last")
	p.Fragment = 0
	require.False(t, matches(t, p, simulate.Conn{}, exists), "none")
	require.True(t, matches(t, p, simulate.Conn{}, is(ruleset.FragmentHeader, ruleset.Byte(0))))
}

func TestFields(t *testing.T) {
	p := packet4()
	p.Mark, p.Priority, p.Header[ruleset.HeaderTCPFlags] = 0x105, 7, uint16(ruleset.TCPSyn|ruleset.TCPAck)
	p.Header[ruleset.HeaderDSCP] = 46
	p.Facts = map[ruleset.Field]ruleset.Value{ruleset.FibDaddrType: ruleset.Uint32(ruleset.FibTypeLocal)}
	c := simulate.Conn{State: ruleset.CtEstablished, Reply: true, Status: ruleset.CtSeenReply, Mark: 3}
	for name, row := range map[string]struct {
		m    ruleset.Match
		want bool
	}{
		"mark": {is(ruleset.Mark, ruleset.Uint32(0x105)), true},
		"mark, masked": {
			ruleset.Compare{Field: ruleset.Mark, Value: ruleset.Uint32(5), Mask: ruleset.Uint32(0xf)}, true,
		},
		"masked, negated": {
			ruleset.Compare{Field: ruleset.Mark, Not: true, Value: ruleset.Uint32(5), Mask: ruleset.Uint32(0xf)}, false,
		},
		"range": {
			ruleset.Compare{Field: ruleset.Sport, Value: ruleset.Port(255), Last: ruleset.Port(1000)}, true,
		},
		"and out of it": {
			ruleset.Compare{Field: ruleset.Sport, Value: ruleset.Port(1001), Last: ruleset.Port(1002)}, false,
		},
		"priority": {is(ruleset.Priority, ruleset.Uint32(7)), true},
		"dscp":     {is(ruleset.IPDSCP, ruleset.Byte(46)), true},
		"dscp in a range": {
			ruleset.Compare{Field: ruleset.IPDSCP, Value: ruleset.Byte(40), Last: ruleset.Byte(46)}, true,
		},
		"flags: any": {is(ruleset.TCPFlags, ruleset.Byte(ruleset.TCPSyn|ruleset.TCPRst)), true},
		"flags: none": {
			ruleset.Compare{Field: ruleset.TCPFlags, Not: true, Value: ruleset.Byte(ruleset.TCPRst)}, true,
		},
		"flags: exactly": {
			ruleset.Compare{
				Field: ruleset.TCPFlags, Value: ruleset.Byte(ruleset.TCPSyn),
				Mask: ruleset.Byte(ruleset.TCPSyn | ruleset.TCPAck),
			},
			false,
		},
		"fact":            {is(ruleset.FibDaddrType, ruleset.Uint32(ruleset.FibTypeLocal)), true},
		"no such fact":    {ruleset.Compare{Field: ruleset.FibSaddrType, Not: true, Value: ruleset.Uint32(1)}, false},
		"state":           {is(ruleset.CtState, ruleset.Uint32(ruleset.CtEstablished|ruleset.CtRelated)), true},
		"status":          {is(ruleset.CtStatus, ruleset.Uint32(ruleset.CtSeenReply)), true},
		"direction":       {is(ruleset.CtDirection, ruleset.Byte(1)), true},
		"ct mark":         {is(ruleset.CtMark, ruleset.Uint32(3)), true},
		"original source": {is(ruleset.CtOriginalSaddr, addr("10.0.0.2")), true},
		"original port":   {is(ruleset.CtOriginalDport, ruleset.Port(1000)), true},
		"IPv6 tuple":      {ruleset.Compare{Field: ruleset.CtOriginalSaddr6, Not: true, Value: addr("fd00::1")}, false},
		"interface":       {is(ruleset.IIFName, ruleset.Ifname("wan0")), true},
		"beginning of it": {is(ruleset.IIFName, ruleset.IfnamePrefix("wan")), true},
		"no interface":    {ruleset.Compare{Field: ruleset.OIFName, Not: true, Value: ruleset.Ifname("wan0")}, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, matches(t, p, c, row.m)) })
	}
}

func TestTracking(t *testing.T) {
	none := ruleset.Compare{Field: ruleset.CtMark, Not: true, Value: ruleset.Uint32(9)}
	state := func(bits uint32) ruleset.Match { return is(ruleset.CtState, ruleset.Uint32(bits)) }
	for _, s := range []uint32{ruleset.CtInvalid, ruleset.CtUntracked} {
		require.True(t, matches(t, packet4(), simulate.Conn{State: s}, state(s)))
		require.False(t, matches(t, packet4(), simulate.Conn{State: s}, none), "no connection")
	}
	require.True(t, matches(t, packet4(), simulate.Conn{}, state(ruleset.CtNew), none))

	x := table(
		base("early", ruleset.Prerouting, -300,
			rule(drop, none), rule(count, state(ruleset.CtInvalid)),
			rule(ruleset.Notrack{}, is(ruleset.Dport, ruleset.Port(80))), rule(count, state(ruleset.CtUntracked))),
		base("late", ruleset.Prerouting, -150, rule(ruleset.Notrack{}), rule(count, state(ruleset.CtUntracked))),
	)
	r := trace(t, x, ruleset.Prerouting, packet4(), simulate.Conn{})
	require.Equal(t, "early:1, early:2, early:3, early:-1 accept, late:0, late:1, late:-1 accept", way(r))
	require.Equal(t, ruleset.CtUntracked, r.Conn.State)
	p := packet4()
	p.DstPort = 81
	r = trace(t, x, ruleset.Prerouting, p, simulate.Conn{})
	require.Equal(t, "early:1, early:-1 accept, late:0, late:-1 accept", way(r), "too late")
	r = trace(t, x, ruleset.Prerouting, p, simulate.Conn{State: ruleset.CtInvalid})
	require.Equal(
		t, "early:1, early:-1 accept, late:0, late:1, late:-1 accept", way(r),
		"a packet without a connection can be untracked at any time",
	)
}

func TestStatements(t *testing.T) {
	reject := ruleset.Reject{Kind: ruleset.RejectICMPX, Code: 3}
	x := table(
		&ruleset.Set{
			Name: "marks", Key: []ruleset.Type{ruleset.TypeService}, Data: []ruleset.Type{ruleset.TypeMark},
			Elements: []ruleset.Element{
				{Key: []ruleset.Value{ruleset.Port(80)}, Data: []ruleset.Value{ruleset.Uint32(0x77)}},
			},
		},
		base("b", ruleset.Forward, 0,
			rule(ruleset.Limit{Rate: 1}, is(ruleset.L4Proto, ruleset.Byte(6))),
			rule(ruleset.Limit{Rate: 1, Over: true}),
			rule(ruleset.Assign{Field: ruleset.Mark, Value: 0x10, Mask: 0xf0}),
			rule(ruleset.Assign{Field: ruleset.CtMark, From: ruleset.Mark}),
			rule(ruleset.Assign{Field: ruleset.Priority, Value: 6}),
			rule(ruleset.Assign{Field: ruleset.Mark, Fields: []ruleset.Field{ruleset.Dport}, Map: "marks"}),
			ruleset.Rule{Statements: []ruleset.Statement{ruleset.Log{Prefix: "x"}, reject}},
		),
	)
	p := packet4()
	p.Mark = 0x123
	r := trace(t, x, ruleset.Forward, p, simulate.Conn{})
	require.Equal(t, "b:0, b:2, b:3, b:4, b:5, b:6 drop", way(r))
	require.Equal(t, uint32(0x77), r.Packet.Mark)
	require.Equal(t, uint32(0x113), r.Conn.Mark)
	require.Equal(t, uint32(6), r.Packet.Priority)
	require.Equal(t, reject, *r.Rejected)
	require.Equal(t, []ruleset.Log{{Prefix: "x"}}, r.Logs)

	p.OverLimit, p.DstPort = true, 81
	r = trace(t, x, ruleset.Forward, p, simulate.Conn{State: ruleset.CtUntracked})
	require.Equal(t, "b:1, b:2, b:3, b:4, b:6 drop", way(r), "over the limit, and not in the map")
	require.Zero(t, r.Conn.Mark, "the packet has no connection to mark")
}

func TestTranslation(t *testing.T) {
	nat := func(name string, point ruleset.HookPoint, priority int, rules ...ruleset.Rule) *ruleset.Chain {
		c := base(name, point, priority, rules...)
		c.Hook.Type = ruleset.HookNAT
		return c
	}
	x := table(
		&ruleset.Set{
			Name: "targets", Key: []ruleset.Type{ruleset.TypeService},
			Data: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService},
			Elements: []ruleset.Element{{
				Key: []ruleset.Value{ruleset.Port(80)}, Data: []ruleset.Value{addr("10.1.0.1"), ruleset.Port(8080)},
			}},
		},
		nat("n1", ruleset.Prerouting, -100, rule(
			ruleset.NAT{
				Kind: ruleset.DNAT, Family: ruleset.FamilyIPv4, Fields: []ruleset.Field{ruleset.Dport}, Map: "targets",
			},
			is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv4)), is(ruleset.L4Proto, ruleset.Byte(6)))),
		nat("n2", ruleset.Prerouting, -99, rule(drop)),
		base("before", ruleset.Prerouting, -101, rule(count, is(ruleset.IPDaddr, addr("10.0.0.2")))),
		base("after", ruleset.Prerouting, 0,
			rule(count, is(ruleset.IPDaddr, addr("10.1.0.1")), is(ruleset.Dport, ruleset.Port(8080))),
			rule(
				count, is(ruleset.CtStatus, ruleset.Uint32(ruleset.CtDNAT)),
				is(ruleset.CtOriginalDaddr, addr("10.0.0.2")), is(ruleset.CtReplySaddr, addr("10.1.0.1")),
			),
		),
		nat("post", ruleset.Postrouting, 100, rule(ruleset.NAT{Kind: ruleset.Masquerade})),
	)
	r := trace(t, x, ruleset.Prerouting, packet4(), simulate.Conn{})
	require.Equal(t, "before:0, before:-1 accept, n1:0 accept, after:0, after:1, after:-1 accept", way(r))
	require.Equal(t, netip.MustParseAddr("10.1.0.1"), r.Packet.Dst)
	require.Equal(t, uint16(8080), r.Translations[0].Port)

	r = trace(t, x, ruleset.Postrouting, r.Packet, r.Conn)
	require.Equal(t, "post:0 accept", way(r))
	require.False(t, r.Translations[0].Addr.IsValid(), "for the kernel to choose")

	p := packet4()
	p.DstPort = 81
	require.Equal(
		t, ruleset.Drop, trace(t, x, ruleset.Prerouting, p, simulate.Conn{}).Verdict,
		"not in the map: the next chain is evaluated",
	)
	for _, state := range []uint32{ruleset.CtEstablished, ruleset.CtInvalid, ruleset.CtUntracked} {
		r = trace(t, x, ruleset.Prerouting, packet4(), simulate.Conn{State: state})
		require.Empty(t, r.Translations, "not the first packet")
		require.Equal(t, ruleset.Accept, r.Verdict)
	}
}

// A lookup without an element ends only the rule.
func TestVMap(t *testing.T) {
	vmap := ruleset.VMap{Fields: []ruleset.Field{ruleset.Dport}, Elements: []ruleset.Element{
		{Key: []ruleset.Value{ruleset.Port(80)}, Verdict: &drop},
		{Key: []ruleset.Value{ruleset.Port(1000)}, Last: ruleset.Port(2000), Verdict: &accept},
	}}
	x := table(base("b", ruleset.Forward, 0, rule(vmap), rule(count)))
	for port, want := range map[uint16]string{
		80: "b:0 drop", 81: "b:1, b:-1 accept", 2000: "b:0 accept", 2001: "b:1, b:-1 accept",
	} {
		p := packet4()
		p.DstPort = port
		require.Equal(t, want, way(trace(t, x, ruleset.Forward, p, simulate.Conn{})))
	}
}

// The fast path changes no verdict. If flow add is not the last statement, the table is refused,
// because the kernel may end the rule there.
func TestFlowAdd(t *testing.T) {
	add := ruleset.FlowAdd{Flowtable: "fast"}
	x := table(base("b", ruleset.Forward, 0, ruleset.Rule{Statements: []ruleset.Statement{count, add}}, rule(drop)))
	x.Flowtables = []*ruleset.Flowtable{{Name: "fast"}}
	require.Equal(t, "b:0, b:1 drop", way(trace(t, x, ruleset.Forward, packet4(), simulate.Conn{})))
	for _, behind := range []ruleset.Statement{accept, count, ruleset.Assign{Field: ruleset.Mark, Value: 1}} {
		x.Chains[0].Rules[0].Statements = []ruleset.Statement{add, behind}
		_, err := simulate.New(simulate.Config{Table: x})
		require.ErrorContains(t, err, "chain b: rule 1: flow add is not the last statement")
	}
}

func TestRefuses(t *testing.T) {
	invalid := table(base("b", ruleset.Forward, 0, rule(verdict(ruleset.Jump, "gone"))))
	_, err := simulate.New(simulate.Config{Table: invalid})
	require.ErrorContains(t, err, "gone")
	raw := ruleset.Raw{Text: "meta cpu 0"}
	_, err = simulate.New(simulate.Config{Table: table(base("b", ruleset.Forward, 0, rule(drop, raw)))})
	require.ErrorContains(t, err, "cannot be simulated")
	_, err = simulate.New(simulate.Config{})
	require.Error(t, err)
	s, err := simulate.New(simulate.Config{Table: table()})
	require.NoError(t, err)
	p := packet4()
	for _, dst := range []netip.Addr{{}, netip.MustParseAddr("::1"), netip.MustParseAddr("::ffff:1.2.3.4")} {
		p.Dst = dst
		_, err = s.Run(ruleset.Forward, p, simulate.Conn{})
		require.ErrorIs(t, err, simulate.ErrPacket)
	}
}

// Many goroutines may use one simulator. The first calls index its sets.
func TestSimulatorIsSafe(t *testing.T) {
	s := bigSimulator(t, 10, 1000)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 500 {
				p := packet4()
				p.Src = netip.AddrFrom4([4]byte{10, 0, byte(j >> 8), byte(j)})
				p.DstPort = uint16(i + j)
				r, err := s.Run(ruleset.Forward, p, simulate.Conn{})
				if err != nil || (r.Verdict == ruleset.Drop) != (j%2 == 0) {
					t.Errorf("%d: %v %v", j, r.Verdict, err)
				}
			}
		})
	}
	wg.Wait()
}
