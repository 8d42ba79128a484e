// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

var update = flag.Bool("update", false, "rewrite testdata")

func values(vs ...ruleset.Value) []ruleset.Value { return vs }

// do returns a rule with only statements.
func do(ss ...ruleset.Statement) ruleset.Rule { return ruleset.Rule{Statements: ss} }

func masked(f ruleset.Field, value, mask ruleset.Value) ruleset.Compare {
	return ruleset.Compare{Field: f, Value: value, Mask: mask}
}

// wide returns tables that use every part of the model.
func wide() []*ruleset.Table {
	return []*ruleset.Table{wideINet(), wideIPv4(), wideIPv6(), wideBridge()}
}

// wideSets returns the sets of wideINet.
func wideSets() []*ruleset.Set {
	accept := verdict(ruleset.Accept)
	return []*ruleset.Set{
		{
			Name: "concat", Key: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService}, Interval: true,
			Timeout: 26 * time.Hour, GCInterval: 10 * time.Second,
			Size: 100, Comment: "two dimensions", Elements: []ruleset.Element{
				{
					Key:  values(addr("10.0.0.0"), ruleset.Port(1)),
					Ends: values(addr("10.255.255.255"), ruleset.Port(5)), Comment: "x",
				},
				{
					Key: values(addr("11.0.0.1"), ruleset.Port(80)), Ends: values(addr("11.0.0.9"), nil),
					Timeout: 10 * time.Second,
				},
			},
		},
		{Name: "counted", Key: []ruleset.Type{ruleset.TypeIPv4}, Counter: true, Elements: []ruleset.Element{
			{Key: values(addr("10.0.0.4"))}, {Key: values(addr("10.0.0.5")), Comment: "five"},
		}},
		{
			Name: "marks", Key: []ruleset.Type{ruleset.TypeIPv4}, Data: []ruleset.Type{ruleset.TypeMark},
			Interval: true, Elements: []ruleset.Element{{
				Key: values(addr("10.0.0.0")), Last: addr("10.255.255.255"), Data: values(ruleset.Uint32(0x12)),
				Comment: "net",
			}},
		},
		{
			Name: "services", Key: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService},
			Data: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService},
			Elements: []ruleset.Element{{
				Key: values(addr("10.96.0.1"), ruleset.Port(80)), Data: values(addr("10.0.0.1"), ruleset.Port(8080)),
			}},
		},
		{
			Name: "verdicts", Key: []ruleset.Type{ruleset.TypeMark}, Verdicts: true, Timeouts: true,
			Elements: []ruleset.Element{
				{Key: values(ruleset.Uint32(5)), Verdict: &accept, Comment: "cc", Timeout: 5 * time.Second},
			},
		},
	}
}

func wideINet() *ruleset.Table {
	accept := verdict(ruleset.Accept)
	v4 := is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv4))
	tcp := is(ruleset.L4Proto, ruleset.Byte(6))
	return &ruleset.Table{
		Name: "wide",
		Sets: wideSets(),
		Chains: []*ruleset.Chain{
			{Name: "mangle", Hook: &ruleset.Hook{
				Type: ruleset.HookRoute, Point: ruleset.Output, Priority: -150, Policy: accept,
			}, Rules: []ruleset.Rule{
				do(ruleset.Assign{Field: ruleset.Mark, Value: 0x12}),
				do(ruleset.Assign{Field: ruleset.Mark, Value: 0x1200, Mask: 0xff00}),
				do(ruleset.Assign{Field: ruleset.Priority, Value: 1 << 31, Mask: 1 << 31}),
				do(ruleset.Assign{Field: ruleset.CtMark, Mask: 0xff00}),
				do(ruleset.Assign{Field: ruleset.Mark, Fields: []ruleset.Field{ruleset.IPSaddr}, Map: "marks"}),
				do(ruleset.Assign{Field: ruleset.CtMark, From: ruleset.Mark}),
				do(ruleset.Assign{Field: ruleset.Mark, From: ruleset.CtMark}),
				do(ruleset.Assign{Field: ruleset.Priority, Value: 0x10002}),
				do(ruleset.Assign{Field: ruleset.Priority}),
			}},
			{Name: "matches", Rules: wideMatches()},
			{Name: "nat-in", Hook: &ruleset.Hook{
				Type: ruleset.HookNAT, Point: ruleset.Prerouting, Priority: -100, Policy: accept,
			}, Rules: []ruleset.Rule{
				{Matches: []ruleset.Match{v4, tcp}, Statements: []ruleset.Statement{ruleset.NAT{
					Kind: ruleset.DNAT, Family: ruleset.FamilyIPv4,
					Fields: []ruleset.Field{ruleset.IPDaddr, ruleset.Dport}, Map: "services",
				}}},
				rule(
					ruleset.NAT{
						Kind: ruleset.DNAT, Family: ruleset.FamilyIPv4, Addr: addr("10.0.0.1"), Port: 80,
					},
					tcp,
				),
				rule(
					ruleset.NAT{
						Kind: ruleset.DNAT, Family: ruleset.FamilyIPv4, Addr: addr("10.0.0.1"), Port: 80, PortLast: 90,
					},
					tcp,
				),
				rule(ruleset.NAT{Kind: ruleset.DNAT, Family: ruleset.FamilyIPv6, Addr: addr("fd00::1"), Port: 80}, tcp),
				do(ruleset.NAT{Kind: ruleset.DNAT, Family: ruleset.FamilyIPv6, Addr: addr("fd00::1")}),
				rule(ruleset.NAT{Kind: ruleset.Redirect, Port: 80, PortLast: 90}, tcp),
				rule(ruleset.NAT{Kind: ruleset.Redirect}, tcp),
			}},
			{Name: "nat-out", Hook: &ruleset.Hook{
				Type: ruleset.HookNAT, Point: ruleset.Postrouting, Priority: 100, Policy: accept,
			}, Rules: []ruleset.Rule{
				rule(
					ruleset.NAT{Kind: ruleset.Masquerade, Port: 1024, PortLast: 65535}, tcp,
				),
				rule(ruleset.NAT{Kind: ruleset.SNAT, Family: ruleset.FamilyIPv4, Addr: addr("10.0.0.1")}, v4),
				do(ruleset.NAT{Kind: ruleset.Masquerade}),
			}},
			{Name: "raw", Hook: &ruleset.Hook{
				Point: ruleset.Prerouting, Priority: -300, Policy: verdict(ruleset.Drop),
			}, Rules: []ruleset.Rule{
				rule(ruleset.Notrack{}, is(ruleset.FibDaddrType, ruleset.Uint32(ruleset.FibTypeLocal))),
				rule(verdict(ruleset.Drop), is(ruleset.FibSource, ruleset.Byte(0))),
				rule(accept, ruleset.In{Fields: []ruleset.Field{ruleset.FibDaddrType}, Elements: []ruleset.Element{
					one(ruleset.Uint32(ruleset.FibTypeLocal)), one(ruleset.Uint32(ruleset.FibTypeBroadcast)),
				}}),
				rule(accept, ruleset.Compare{
					Field: ruleset.FibSaddrType, Not: true, Value: ruleset.Uint32(ruleset.FibTypeUnicast),
				}),
			}},
			{Name: "statements", Rules: wideStatements()},
		},
	}
}

// wideMatches matches every field that a chain without a hook may match.
func wideMatches() []ruleset.Rule {
	accept := verdict(ruleset.Accept)
	tcp := is(ruleset.L4Proto, ruleset.Byte(6))
	v4 := is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv4))
	v6 := is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv6))
	not := func(f ruleset.Field, v ruleset.Value) ruleset.Match {
		return ruleset.Compare{Field: f, Not: true, Value: v}
	}
	all := ruleset.Byte(0xff)
	rules := []ruleset.Rule{
		rule(accept, masked(ruleset.Mark, ruleset.Uint32(0x1200), ruleset.Uint32(0xff00))),
		rule(accept, ruleset.Compare{
			Field: ruleset.CtMark, Not: true, Value: ruleset.Uint32(1), Mask: ruleset.Uint32(0xff),
		}),
		rule(accept, is(ruleset.CtStatus, ruleset.Uint32(ruleset.CtDNAT))),
		rule(accept, is(ruleset.CtStatus, ruleset.Uint32(ruleset.CtDNAT|ruleset.CtSNAT))),
		rule(accept, not(ruleset.CtStatus, ruleset.Uint32(ruleset.CtDNAT))),
		rule(accept, masked(
			ruleset.CtStatus, ruleset.Uint32(ruleset.CtDNAT), ruleset.Uint32(ruleset.CtDNAT|ruleset.CtSNAT),
		)),
		rule(accept, not(ruleset.CtState, ruleset.Uint32(ruleset.CtEstablished|ruleset.CtRelated))),
		rule(accept, v4, ruleset.Compare{
			Field: ruleset.CtOriginalSaddr, Value: addr("10.0.0.0"), Last: addr("10.255.255.255"),
		}),
		rule(accept, v6, ruleset.Compare{
			Field: ruleset.CtOriginalDaddr6, Value: addr("fd00::"), Last: addr("fd00::7fff:ffff:ffff:ffff"),
		}),
		rule(accept, tcp, is(ruleset.CtOriginalDport, ruleset.Port(80))),
		rule(accept, tcp, ruleset.Compare{
			Field: ruleset.CtOriginalDport, Value: ruleset.Port(80), Last: ruleset.Port(90),
		}),
		rule(accept, tcp, is(ruleset.TCPFlags, ruleset.Byte(ruleset.TCPSyn))),
		rule(accept, tcp, is(ruleset.TCPFlags, ruleset.Byte(ruleset.TCPSyn|ruleset.TCPAck))),
		rule(accept, tcp, not(ruleset.TCPFlags, ruleset.Byte(ruleset.TCPSyn|ruleset.TCPAck))),
		rule(accept, tcp, masked(
			ruleset.TCPFlags, ruleset.Byte(ruleset.TCPSyn), ruleset.Byte(ruleset.TCPSyn|ruleset.TCPAck),
		)),
		rule(accept, tcp, masked(ruleset.TCPFlags, ruleset.Byte(ruleset.TCPSyn), all)),
		rule(accept, tcp, ruleset.In{Fields: []ruleset.Field{ruleset.TCPFlags}, Elements: []ruleset.Element{
			one(ruleset.Byte(ruleset.TCPSyn)), one(ruleset.Byte(ruleset.TCPSyn | ruleset.TCPAck)),
		}}),
		rule(accept, ruleset.In{
			Fields:   []ruleset.Field{ruleset.IPDSCP},
			Elements: []ruleset.Element{one(ruleset.Byte(1)), one(ruleset.Byte(46))},
		}),
		rule(accept, v4, ruleset.Compare{Field: ruleset.IPDSCP, Value: ruleset.Byte(3), Last: ruleset.Byte(9)}),
		rule(accept, v6, ruleset.Compare{Field: ruleset.IP6DSCP, Value: ruleset.Byte(3), Last: ruleset.Byte(9)}),
		rule(accept, v6, ruleset.Compare{
			Field: ruleset.IP6DSCP, Not: true, Value: ruleset.Byte(3), Last: ruleset.Byte(9),
		}),
		rule(accept, v4, not(ruleset.IPDSCP, ruleset.Byte(10)), not(ruleset.IPDSCP, ruleset.Byte(46))),
		rule(accept, v6, not(ruleset.IP6DSCP, ruleset.Byte(10)), not(ruleset.IP6DSCP, ruleset.Byte(46))),
		rule(accept, masked(ruleset.IPSaddr, addr("10.0.0.1"), addr("255.0.0.255"))),
		rule(accept, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr, ruleset.Dport}, Set: "concat"}),
		rule(accept, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr}, Not: true, Set: "counted"}),
		rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.Mark}, Map: "verdicts"}),
		rule(accept, ruleset.In{Fields: []ruleset.Field{ruleset.IPSaddr, ruleset.Dport}, Elements: []ruleset.Element{
			{Key: values(addr("10.0.0.0"), ruleset.Port(1)), Ends: values(addr("10.255.255.255"), ruleset.Port(5))},
		}}),
		rule(accept, ruleset.Raw{Text: "meta cpu 0", Expressions: [][]byte{{}}}),
	}
	for _, f := range ruleset.Fields() {
		if f.Load().Origin == ruleset.FromFib || f == ruleset.NDTarget || onlyBridge(f) {
			continue // elsewhere
		}
		rules = append(rules, rule(accept, append(before(f), is(f, someValue(f)))...))
	}
	return rules
}

// onlyBridge reports whether only tables of family bridge may have a field.
func onlyBridge(f ruleset.Field) bool {
	t := &ruleset.Table{Name: "t", Chains: []*ruleset.Chain{
		{Name: "c", Rules: []ruleset.Rule{rule(verdict(ruleset.Drop), is(f, someValue(f)))}},
	}}
	return t.Validate() != nil
}

// before returns the matches that a field of an inet table needs.
func before(f ruleset.Field) []ruleset.Match {
	v4 := is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv4))
	v6 := is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv6))
	proto := func(p byte) ruleset.Match { return is(ruleset.L4Proto, ruleset.Byte(p)) }
	switch f {
	case ruleset.IPSaddr, ruleset.IPDaddr, ruleset.IPDSCP:
		return []ruleset.Match{v4}
	case ruleset.IP6Saddr, ruleset.IP6Daddr, ruleset.IP6DSCP,
		ruleset.FragmentHeader:
		return []ruleset.Match{v6}
	case ruleset.ICMPType, ruleset.ICMPCode:
		return []ruleset.Match{v4, proto(1)}
	case ruleset.ICMPv6Type, ruleset.ICMPv6Code:
		return []ruleset.Match{v6, proto(58)}
	case ruleset.Sport, ruleset.Dport, ruleset.CtOriginalDport:
		return []ruleset.Match{proto(6)}
	}
	if p := f.Load().Protocol; p != 0 {
		return []ruleset.Match{proto(p)}
	}
	return nil
}

// someValue returns a value of the field's type.
func someValue(f ruleset.Field) ruleset.Value {
	switch t := f.Type(); t {
	case ruleset.TypeIfname:
		return ruleset.Ifname("eth0")
	case ruleset.TypeNFProto:
		return ruleset.Byte(ruleset.NFProtoIPv4)
	case ruleset.TypeEtherType:
		return ruleset.EtherTypeOf(0x88b5)
	default:
		v := make(ruleset.Value, t.Size())
		if t.HostOrder() {
			v[0] = 1
		} else {
			v[len(v)-1] = 1
		}
		return v
	}
}

func wideStatements() []ruleset.Rule {
	group := uint16(5)
	tcp := is(ruleset.L4Proto, ruleset.Byte(6))
	day := 24 * time.Hour
	return []ruleset.Rule{
		do(ruleset.Log{Prefix: "x", Group: &group}),
		do(ruleset.Log{}),
		do(ruleset.Limit{Rate: 10}, verdict(ruleset.Accept)),
		do(ruleset.Limit{Rate: 10, Per: time.Minute, Burst: 7, Over: true}, verdict(ruleset.Drop)),
		do(ruleset.Limit{Rate: 10, Per: 7 * day}, ruleset.Log{Prefix: "rare"}),
		do(ruleset.Counter{}),
		do(ruleset.Reject{}),
		do(ruleset.Reject{Kind: ruleset.RejectICMPX, Code: 3}),
		rule(ruleset.Reject{Kind: ruleset.RejectTCPReset}, tcp),
		do(
			ruleset.Counter{}, ruleset.Raw{Text: "meta nftrace set 1", Expressions: [][]byte{{}}},
			verdict(ruleset.Goto, "matches"),
		),
	}
}

// family returns a small table of a family.
func family(f ruleset.Family, hook ruleset.Hook, rules ...ruleset.Rule) *ruleset.Table {
	hook.Policy = verdict(ruleset.Accept)
	return &ruleset.Table{Family: f, Name: "wide", Chains: []*ruleset.Chain{{Name: "c", Hook: &hook, Rules: rules}}}
}

func wideIPv4() *ruleset.Table {
	drop := verdict(ruleset.Drop)
	return family(ruleset.FamilyIPv4, ruleset.Hook{Type: ruleset.HookNAT, Point: ruleset.Output, Priority: -100},
		rule(
			drop, is(ruleset.NFProto, ruleset.Byte(2)), is(ruleset.IPSaddr, addr("10.0.0.1")),
			is(ruleset.L4Proto, ruleset.Byte(6)), is(ruleset.Dport, ruleset.Port(80)),
		),
		rule(drop, is(ruleset.L4Proto, ruleset.Byte(1)), is(ruleset.ICMPType, ruleset.Byte(8))),
		do(ruleset.NAT{Kind: ruleset.DNAT, Addr: addr("10.0.0.1")}),
	)
}

func wideIPv6() *ruleset.Table {
	drop := verdict(ruleset.Drop)
	return family(ruleset.FamilyIPv6, ruleset.Hook{Point: ruleset.Input, Priority: 5},
		rule(
			drop, is(ruleset.NFProto, ruleset.Byte(10)), is(ruleset.IP6Saddr, addr("fd00::1")),
			is(ruleset.L4Proto, ruleset.Byte(17)), is(ruleset.Sport, ruleset.Port(80)),
		),
		rule(drop, is(ruleset.L4Proto, ruleset.Byte(58)), is(ruleset.ICMPv6Type, ruleset.Byte(128))),
	)
}

func wideBridge() *ruleset.Table {
	drop := verdict(ruleset.Drop)
	ether := func(n uint16) ruleset.Match { return is(ruleset.Protocol, ruleset.EtherTypeOf(n)) }
	t := family(ruleset.FamilyBridge, ruleset.Hook{Point: ruleset.Prerouting, Priority: -300},
		rule(drop, ether(0x0800), is(ruleset.IPSaddr, addr("10.0.0.1"))),
		rule(
			drop, ether(0x86dd), is(ruleset.IP6Saddr, addr("fd00::1")), is(ruleset.L4Proto, ruleset.Byte(6)),
			is(ruleset.Dport, ruleset.Port(80)),
		),
		rule(drop, is(ruleset.EtherSaddr, ruleset.Value{2, 0, 0, 0, 0, 1})),
		rule(drop, ruleset.Lookup{
			Fields: []ruleset.Field{ruleset.IIFName, ruleset.EtherSaddr}, Not: true, Set: "macs",
		}),
		rule(drop, ether(0x0806), ruleset.Lookup{
			Fields: []ruleset.Field{ruleset.IIFName, ruleset.ARPSaddrEther}, Not: true, Set: "macs",
		}),
		rule(drop, ether(0x0806), is(ruleset.ARPHlen, ruleset.Byte(6)), is(ruleset.ARPPlen, ruleset.Byte(4)),
			is(ruleset.ARPSaddrIP, addr("10.0.0.1")), is(ruleset.ARPDaddrIP, addr("10.0.0.2"))),
		rule(drop, ruleset.In{Fields: []ruleset.Field{ruleset.Protocol}, Elements: []ruleset.Element{
			one(ruleset.EtherTypeOf(0x8100)), one(ruleset.EtherTypeOf(0x88a8)),
		}}, masked(ruleset.VLANTag, ruleset.Port(0), ruleset.Port(0x0fff))),
		rule(drop, ether(0x86dd), is(ruleset.FragmentHeader, ruleset.Byte(0)),
			is(ruleset.L4Proto, ruleset.Byte(58)), is(ruleset.ICMPv6Type, ruleset.Byte(135))),
		rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.EtherType}, Elements: []ruleset.Element{
			{Key: values(ruleset.EtherTypeOf(0x0800)), Verdict: &drop},
			{Key: values(ruleset.EtherTypeOf(0x8100)), Verdict: &drop},
		}}),
	)
	macs := &ruleset.Set{Name: "macs", Key: []ruleset.Type{ruleset.TypeIfname, ruleset.TypeEtherAddr}}
	macs.Elements = []ruleset.Element{{Key: values(ruleset.Ifname("veth0"), ruleset.Value{2, 0, 0, 0xfe, 0, 1})}}
	t.Sets = append(t.Sets, macs)
	return t
}

// TestBytesOfNeighbourDiscovery: the text of a field without a name is its bytes, as nft lists
// them.
func TestBytesOfNeighbourDiscovery(t *testing.T) {
	text := `table bridge t {
	set own {
		type ifname . ipv6_addr
	}
	set targets {
		type ipv6_addr
	}
	chain c {
		meta l4proto icmpv6 @th,64,128 @targets accept
		iifname . @th,64,128 @own accept
	}
}
`
	table, err := ruleset.Parse(text)
	require.NoError(t, err)
	require.NoError(t, table.Validate())
	require.Equal(t, ruleset.Lookup{
		Fields: []ruleset.Field{ruleset.IIFName, ruleset.NDTarget}, Set: "own",
	}, table.Chains[0].Rules[1].Matches[0])
	again, err := ruleset.Parse(table.String())
	require.NoError(t, err)
	require.True(t, table.Equal(again))
	newer, err := ruleset.Parse("table bridge t {\n chain c {\n icmpv6 taddr fe80::1 accept\n }\n}\n")
	require.NoError(t, err)
	require.Equal(t, []ruleset.Match{
		is(ruleset.Protocol, ruleset.EtherTypeOf(0x86dd)), is(ruleset.L4Proto, ruleset.Byte(58)),
		is(ruleset.NDTarget, addr("fe80::1")),
	}, newer.Chains[0].Rules[0].Matches)
}

// TestFieldsOfFrames: only frames have the fields of the link layer and of ARP, and sets have no
// plain numbers.
func TestFieldsOfFrames(t *testing.T) {
	for _, f := range []ruleset.Field{
		ruleset.EtherSaddr, ruleset.EtherType, ruleset.VLANTag, ruleset.ARPHlen, ruleset.ARPPlen,
		ruleset.ARPSaddrEther, ruleset.ARPSaddrIP, ruleset.ARPDaddrIP,
	} {
		require.True(t, onlyBridge(f), "%s", f)
	}
	for _, lookup := range []ruleset.Rule{
		rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.EtherType}, Elements: []ruleset.Element{
			{Key: values(ruleset.EtherTypeOf(1)), Verdict: &ruleset.Verdict{Kind: ruleset.Drop}},
		}}),
		rule(ruleset.Assign{Field: ruleset.Mark, Fields: []ruleset.Field{ruleset.ARPSaddrIP}, Map: "marks"}),
	} {
		err := (&ruleset.Table{
			Name: "t", Chains: []*ruleset.Chain{{Name: "c", Rules: []ruleset.Rule{lookup}}},
			Sets: []*ruleset.Set{
				{Name: "marks", Key: []ruleset.Type{ruleset.TypeIPv4}, Data: []ruleset.Type{ruleset.TypeMark}},
			},
		}).Validate()
		require.ErrorContains(t, err, "in family inet")
	}
	for _, typ := range []ruleset.Type{ruleset.TypeUint8, ruleset.TypeUint16} {
		set := &ruleset.Table{Name: "t", Sets: []*ruleset.Set{{Name: "s", Key: []ruleset.Type{typ}}}}
		require.ErrorContains(t, set.Validate(), "for which nft has no type")
	}
	for _, text := range []string{
		"table inet t {\n chain c {\n arp saddr ip 10.0.0.1 drop\n }\n}\n",
		"table bridge t {\n set s {\n type integer\n }\n}\n",
		"table bridge t {\n chain c {\n ether saddr 02:00:00:00:00 drop\n }\n}\n",
		"table bridge t {\n chain c {\n ether saddr 02:00:00:00:00:100 drop\n }\n}\n",
	} {
		_, err := ruleset.Parse(text)
		require.Error(t, err, text)
	}
}

// TestWideGolden: the text with every part of the model equals the golden file.
func TestWideGolden(t *testing.T) {
	text := ""
	for _, table := range wide() {
		require.NoError(t, table.Validate(), table)
		require.True(t, table.Equal(table.Clone()))
		text += table.String()
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/wide.nft", []byte(text), 0o644))
	}
	want, err := os.ReadFile("testdata/wide.nft")
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}
