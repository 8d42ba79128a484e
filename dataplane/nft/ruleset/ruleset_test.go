// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

func addr(s string) ruleset.Value { return ruleset.Addr(netip.MustParseAddr(s)) }

func one(v ruleset.Value) ruleset.Element { return ruleset.Element{Key: []ruleset.Value{v}} }

func span(first, last ruleset.Value) ruleset.Element {
	return ruleset.Element{Key: []ruleset.Value{first}, Last: last}
}

func verdict(kind ruleset.VerdictKind, chain ...string) ruleset.Verdict {
	return ruleset.Verdict{Kind: kind, Chain: strings.Join(chain, "")}
}

func rule(s ruleset.Statement, ms ...ruleset.Match) ruleset.Rule {
	return ruleset.Rule{Matches: ms, Statements: []ruleset.Statement{s}}
}

func is(f ruleset.Field, v ruleset.Value) ruleset.Match { return ruleset.Compare{Field: f, Value: v} }

// sample has an object of each kind.
func sample() *ruleset.Table {
	ok, gone := verdict(ruleset.Accept), verdict(ruleset.Goto, "other")
	return &ruleset.Table{
		Name: "sample",
		Sets: []*ruleset.Set{
			{Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true, Elements: []ruleset.Element{
				span(addr("0.0.0.0"), addr("9.255.255.255")), one(addr("10.0.0.1")),
				span(addr("10.0.0.3"), addr("10.0.0.9")), span(addr("255.255.255.0"), addr("255.255.255.255")),
			}},
			{Name: "ports", Key: []ruleset.Type{
				ruleset.TypeIPv6, ruleset.TypeProto, ruleset.TypeService,
			}, Elements: []ruleset.Element{
				{Key: []ruleset.Value{addr("fd00::1"), ruleset.Byte(6), ruleset.Port(80)}},
				{Key: []ruleset.Value{addr("fd00::1"), ruleset.Byte(253), ruleset.Port(65535)}},
			}},
			{Name: "where", Key: []ruleset.Type{ruleset.TypeIfname}, Verdicts: true, Elements: []ruleset.Element{
				{Key: []ruleset.Value{ruleset.Ifname("eth0")}, Verdict: &ok},
				{Key: []ruleset.Value{ruleset.Ifname("way*")}, Verdict: &gone},
			}},
		},
		Chains: []*ruleset.Chain{
			{Name: "base", Hook: &ruleset.Hook{
				Point: ruleset.Forward, Priority: 100, Policy: verdict(ruleset.Drop),
			}, Rules: []ruleset.Rule{
				rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.IIFName}, Map: "where"}),
				{
					Statements: []ruleset.Statement{
						ruleset.Counter{}, ruleset.Log{Prefix: "x: "}, verdict(ruleset.Jump, "other"),
					},
					Comment: "why",
				},
				rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.CtState}, Elements: []ruleset.Element{
					{Key: []ruleset.Value{ruleset.Uint32(ruleset.CtNew)}, Verdict: &ok},
				}}),
			}},
			{Name: "other", Rules: []ruleset.Rule{
				rule(ok, is(ruleset.NFProto, ruleset.Byte(2)), ruleset.Lookup{
					Fields: []ruleset.Field{ruleset.IPSaddr}, Not: true, Set: "nets",
				}),
				rule(verdict(ruleset.Return), ruleset.Lookup{
					Fields: []ruleset.Field{ruleset.IP6Daddr, ruleset.L4Proto, ruleset.Dport}, Set: "ports",
				}),
				rule(ok, is(ruleset.L4Proto, ruleset.Byte(17)), ruleset.In{
					Fields:   []ruleset.Field{ruleset.Sport},
					Elements: []ruleset.Element{span(ruleset.Port(1), ruleset.Port(5)), one(ruleset.Port(9))},
				}),
				rule(verdict(ruleset.Drop)),
			}},
		},
	}
}

func TestString(t *testing.T) {
	require.NoError(t, sample().Validate())
	require.Equal(t, `table inet sample {
	set nets {
		type ipv4_addr
		flags interval
		elements = { 0.0.0.0-9.255.255.255,
			     10.0.0.1,
			     10.0.0.3-10.0.0.9,
			     255.255.255.0/24 }
	}

	set ports {
		type ipv6_addr . inet_proto . inet_service
		elements = { fd00::1 . tcp . 80,
			     fd00::1 . 253 . 65535 }
	}

	map where {
		type ifname : verdict
		elements = { "eth0" : accept,
			     "way\*" : goto other }
	}

	chain base {
		type filter hook forward priority 100; policy drop;
		iifname vmap @where
		counter log prefix "x: " jump other comment "why"
		ct state vmap { new : accept }
	}

	chain other {
		ip saddr != @nets accept
		ip6 daddr . meta l4proto . th dport @ports return
		udp sport { 1-5, 9 } accept
		drop
	}
}
`, sample().String())
}

// TestRuleString: the text omits exactly the matches that nft adds by itself.
func TestRuleString(t *testing.T) {
	v4, v6 := is(ruleset.NFProto, ruleset.Byte(2)), is(ruleset.NFProto, ruleset.Byte(10))
	isTCP := is(ruleset.L4Proto, ruleset.Byte(6))
	notTCP := ruleset.Compare{Field: ruleset.L4Proto, Not: true, Value: ruleset.Byte(6)}
	icmp, icmpv6 := is(ruleset.L4Proto, ruleset.Byte(1)), is(ruleset.L4Proto, ruleset.Byte(58))
	port := is(ruleset.Dport, ruleset.Port(80))
	for _, c := range []struct {
		want    string
		matches []ruleset.Match
	}{
		{"ip saddr 10.0.0.1", []ruleset.Match{v4, is(ruleset.IPSaddr, addr("10.0.0.1"))}},
		{"meta nfproto ipv4 ip6 saddr fd00::1", []ruleset.Match{v4, is(ruleset.IP6Saddr, addr("fd00::1"))}},
		{"ip6 daddr fd00::/8", []ruleset.Match{v6, ruleset.Compare{
			Field: ruleset.IP6Daddr, Value: addr("fd00::"), Last: addr("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
		}}},
		{"ip daddr != 10.0.0.1-10.0.0.2", []ruleset.Match{v4, ruleset.Compare{
			Field: ruleset.IPDaddr, Not: true, Value: addr("10.0.0.1"), Last: addr("10.0.0.2"),
		}}},
		{"meta nfproto ipv4", []ruleset.Match{v4}},
		{"meta nfproto ipv4 tcp dport 80", []ruleset.Match{v4, isTCP, port}},
		{"meta nfproto ipv4 meta l4proto icmp", []ruleset.Match{v4, icmp}},
		{"icmp type 0", []ruleset.Match{v4, icmp, is(ruleset.ICMPType, ruleset.Byte(0))}},
		{"meta nfproto ipv6 icmp type 0", []ruleset.Match{v6, icmp, is(ruleset.ICMPType, ruleset.Byte(0))}},
		{"meta l4proto icmp icmp type 0", []ruleset.Match{icmp, is(ruleset.ICMPType, ruleset.Byte(0))}},
		{"meta l4proto icmpv6 icmpv6 code 1", []ruleset.Match{icmpv6, is(ruleset.ICMPv6Code, ruleset.Byte(1))}},
		{"meta l4proto icmp icmp type 0 ip saddr 10.0.0.1", []ruleset.Match{
			icmp, is(ruleset.ICMPType, ruleset.Byte(0)), v4, is(ruleset.IPSaddr, addr("10.0.0.1")),
		}},
		{"icmpv6 type 128 icmpv6 code 1", []ruleset.Match{
			v6, icmpv6, is(ruleset.ICMPv6Type, ruleset.Byte(128)), is(ruleset.ICMPv6Code, ruleset.Byte(1)),
		}},
		{"meta l4proto != tcp th dport 80", []ruleset.Match{notTCP, port}},
		{"meta l4proto udplite th dport 80", []ruleset.Match{is(ruleset.L4Proto, ruleset.Byte(136)), port}},
		{`iifname "way*" oifname "eth0"`, []ruleset.Match{
			is(ruleset.IIFName, ruleset.IfnamePrefix("way")), is(ruleset.OIFName, ruleset.Ifname("eth0")),
		}},
		{"ct state established,related", []ruleset.Match{is(
			ruleset.CtState, ruleset.Uint32(ruleset.CtEstablished|ruleset.CtRelated),
		)}},
	} {
		require.Equal(t, c.want+" accept", rule(verdict(ruleset.Accept), c.matches...).String())
	}
}

func TestPrefixLen(t *testing.T) {
	for text, want := range map[string]int{
		"0.0.0.0-255.255.255.255": 0, "10.0.0.0-10.255.255.255": 8, "10.0.0.0-10.1.255.255": 15,
		"10.0.0.1-10.0.0.1": 32,
		"10.0.0.0-10.0.0.1": 31, "10.0.0.1-10.0.0.2": -1, "10.0.0.2-10.0.0.5": -1, "10.0.0.0-10.255.255.254": -1,
		"10.0.1.0-10.255.255.255": -1, "0.0.0.0-10.255.255.255": -1, "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff": 0,
	} {
		first, last, _ := strings.Cut(text, "-")
		got, ok := ruleset.PrefixLen(addr(first), addr(last))
		require.Equal(t, want >= 0, ok, text)
		if ok {
			require.Equal(t, want, got, text)
		}
	}
}

// TestValidate breaks the sample in one place at a time.
func TestValidate(t *testing.T) {
	for want, spoil := range map[string]func(*ruleset.Table){
		`table "a b": not a name`:   func(x *ruleset.Table) { x.Name = "a b" },
		`table "drop": not a name`:  func(x *ruleset.Table) { x.Name = "drop" },
		`not a name`:                func(x *ruleset.Table) { x.Chains[0].Name = strings.Repeat("x", 256) },
		`chain base: occurs twice`:  func(x *ruleset.Table) { x.Chains = append(x.Chains, x.Chains[0]) },
		`set nets: occurs twice`:    func(x *ruleset.Table) { x.Sets = append(x.Sets, x.Sets[0]) },
		`unknown family`:            func(x *ruleset.Table) { x.Family = 9 },
		`goto other: no such chain`: func(x *ruleset.Table) { x.Chains = x.Chains[:1] },
		`no set nets`:               func(x *ruleset.Table) { x.Sets[0].Name = "nots" },
		`does not fit the key`:      func(x *ruleset.Table) { x.Sets[0].Key[0] = ruleset.TypeIPv6 },
		`where is a map`: func(x *ruleset.Table) {
			x.Chains[1].Rules[0].Matches[1] = ruleset.Lookup{Fields: []ruleset.Field{ruleset.IIFName}, Set: "where"}
		},
		`goto base: a base chain`: func(x *ruleset.Table) { x.Sets[2].Elements[1].Verdict.Chain = "base" },
		`leads back to itself`: func(x *ruleset.Table) {
			x.Chains[1].Rules[3] = rule(verdict(ruleset.Jump, "other"))
		},
		`no verdict`: func(x *ruleset.Table) { x.Sets[2].Elements[0].Verdict = nil },
		`a verdict in a set`: func(x *ruleset.Table) {
			v := verdict(ruleset.Drop)
			x.Sets[1].Elements[0].Verdict = &v
		},
		`ipv6_addr of 4 bytes, want 16`: func(x *ruleset.Table) { x.Sets[1].Elements[0].Key[0] = addr("10.0.0.1") },
		`element with 2 parts`: func(x *ruleset.Table) {
			x.Sets[1].Elements[0].Key = x.Sets[1].Elements[0].Key[:2]
		},
		`overlap`: func(x *ruleset.Table) { x.Sets[0].Elements[1] = one(addr("10.0.0.5")) },
		`elements fd00::1 . tcp . 80 and fd00::1 . tcp . 80 overlap`: func(x *ruleset.Table) {
			x.Sets[1].Elements[1] = x.Sets[1].Elements[0]
		},
		`a range is not allowed here`: func(x *ruleset.Table) {
			x.Sets[0].Interval = false
		},
		`ends before it begins`: func(x *ruleset.Table) {
			x.Sets[0].Elements[2].Last = addr("10.0.0.2")
		},
		`no key`:       func(x *ruleset.Table) { x.Sets[1].Key = nil },
		`unknown type`: func(x *ruleset.Table) { x.Sets[1].Key[1] = 99 },
		`key of 68 bytes`: func(x *ruleset.Table) {
			x.Sets[1].Key = append(x.Sets[1].Key[:1:1], 2, 2, 2, 3)
			x.Sets[1].Elements = nil
		},
		`is not an interface name`: func(x *ruleset.Table) { x.Sets[2].Elements[0].Key[0] = ruleset.Ifname("a/b") },
		`cannot begin an interface name`: func(x *ruleset.Table) {
			x.Chains[1].Rules[3].Matches = []ruleset.Match{is(ruleset.IIFName, nil)}
		},
		`unknown field`: func(x *ruleset.Table) {
			x.Chains[1].Rules[3].Matches = []ruleset.Match{is(0, nil)}
		},
		`empty anonymous set`: func(x *ruleset.Table) {
			x.Chains[1].Rules[3].Matches = []ruleset.Match{ruleset.In{Fields: []ruleset.Field{ruleset.Dport}}}
		},
		`empty anonymous map`: func(x *ruleset.Table) {
			x.Chains[1].Rules[3] = rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.Dport}})
		},
		`drop is not the last statement`: func(x *ruleset.Table) {
			x.Chains[1].Rules[3].Statements = append(x.Chains[1].Rules[3].Statements, ruleset.Counter{})
		},
		`no statement`: func(x *ruleset.Table) { x.Chains[1].Rules[3].Statements = nil },
		`vmap is not the last`: func(x *ruleset.Table) {
			x.Chains[0].Rules[0].Statements = append(x.Chains[0].Rules[0].Statements, ruleset.Counter{})
		},
		`unknown verdict`: func(x *ruleset.Table) { x.Chains[1].Rules[3] = rule(ruleset.Verdict{}) },
		`accept with a chain`: func(x *ruleset.Table) {
			x.Chains[1].Rules[3] = rule(verdict(ruleset.Accept, "other"))
		},
		`policy must be accept or drop`: func(x *ruleset.Table) { x.Chains[0].Hook.Policy.Kind = ruleset.Return },
		`unknown hook`:                  func(x *ruleset.Table) { x.Chains[0].Hook.Point = 9 },
		`at most 128 printable`: func(x *ruleset.Table) {
			x.Chains[1].Rules[3].Comment = strings.Repeat("x", 129)
		},
		`comment "a\"b"`: func(x *ruleset.Table) { x.Chains[1].Rules[3].Comment = `a"b` },
		`log prefix`: func(x *ruleset.Table) {
			x.Chains[1].Rules[3] = rule(ruleset.Log{Prefix: strings.Repeat("x", 128)})
		},
		`jumps deep`: func(x *ruleset.Table) {
			for i := range 17 {
				c := &ruleset.Chain{Name: fmt.Sprintf("deep%d", i), Rules: []ruleset.Rule{rule(verdict(ruleset.Drop))}}
				x.Chains[len(x.Chains)-1].Rules = append(
					x.Chains[len(x.Chains)-1].Rules, rule(verdict(ruleset.Jump, c.Name)),
				)
				x.Chains = append(x.Chains, c)
			}
		},
	} {
		x := sample()
		spoil(x)
		require.ErrorContains(t, x.Validate(), want, want)
	}
}

func TestEqualClone(t *testing.T) {
	a := sample()
	b := a.Clone()
	require.True(t, a.Equal(b))
	require.False(t, a.Equal(nil))
	require.True(t, (*ruleset.Table)(nil).Equal(nil))
	for i, change := range []func(*ruleset.Table){
		func(x *ruleset.Table) { x.Name = "b" },
		func(x *ruleset.Table) { x.Sets[0].Elements[0].Key[0][3] = 1 },
		func(x *ruleset.Table) { x.Sets[0].Elements[0].Last[3] = 1 },
		func(x *ruleset.Table) { x.Sets[1].Key[2] = ruleset.TypeICMP },
		func(x *ruleset.Table) { x.Sets[2].Elements[0].Verdict.Kind = ruleset.Drop },
		func(x *ruleset.Table) { x.Chains[0].Hook.Priority++ },
		func(x *ruleset.Table) { x.Chains[0].Rules[1].Statements[1] = ruleset.Log{} },
		func(x *ruleset.Table) {
			x.Chains[0].Rules[2].Statements[0].(ruleset.VMap).Elements[0].Verdict.Kind = ruleset.Drop
		},
		func(x *ruleset.Table) { x.Chains[0].Rules[1].Comment = "" },
		func(x *ruleset.Table) { x.Chains[1].Rules[0].Matches[0].(ruleset.Compare).Value[0] = 10 },
		func(x *ruleset.Table) { x.Chains[1].Rules[1].Matches[0].(ruleset.Lookup).Fields[0] = ruleset.IP6Saddr },
		func(x *ruleset.Table) { x.Chains[1].Rules[2].Matches[1].(ruleset.In).Elements[0].Last[1] = 9 },
	} {
		change(b)
		require.False(t, a.Equal(b), "change %d", i)
		require.True(t, a.Equal(sample()), "change %d reached the original", i)
		b = a.Clone()
	}
}

func TestNormalize(t *testing.T) {
	a := sample()
	b := a.Clone()
	b.Sets[0], b.Sets[2] = b.Sets[2], b.Sets[0]
	b.Chains[0], b.Chains[1] = b.Chains[1], b.Chains[0]
	in := b.Chains[0].Rules[2].Matches[1].(ruleset.In)
	in.Elements[0], in.Elements[1] = in.Elements[1], in.Elements[0]
	b.Sets[2].Elements[0], b.Sets[2].Elements[3] = b.Sets[2].Elements[3], b.Sets[2].Elements[0]
	require.False(t, a.Equal(b))
	require.NoError(t, b.Validate())
	b.Normalize()
	require.True(t, a.Equal(b))
}

// nft 1.0.6 misreads some rules in their plain syntax, so their text uses another syntax.
func TestTextThatNftWouldMisread(t *testing.T) {
	tcp := ruleset.Compare{Field: ruleset.L4Proto, Value: ruleset.Byte(6)}
	not := func(f ruleset.Field, p uint16) ruleset.Match {
		return ruleset.Compare{Field: f, Not: true, Value: ruleset.Port(p)}
	}
	require.Equal(t, "tcp sport != 1 tcp dport != 2-2",
		ruleset.Rule{Matches: []ruleset.Match{tcp, not(ruleset.Sport, 1), not(ruleset.Dport, 2)}}.String())
	require.Equal(t, "meta l4proto tcp th sport . th dport @s", // "th" implies no protocol
		ruleset.Rule{
			Matches: []ruleset.Match{tcp, ruleset.Lookup{
				Fields: []ruleset.Field{ruleset.Sport, ruleset.Dport}, Set: "s",
			}},
		}.String())
	require.Equal(t, "ct state == new", ruleset.Rule{Matches: []ruleset.Match{ruleset.In{
		Fields:   []ruleset.Field{ruleset.CtState},
		Elements: []ruleset.Element{{Key: []ruleset.Value{ruleset.Uint32(ruleset.CtNew)}}},
	}}}.String())
	err := (&ruleset.Table{Name: "t", Sets: []*ruleset.Set{{
		Name: "s", Interval: true, Key: []ruleset.Type{ruleset.TypeMark, ruleset.TypeService},
	}}}).Validate()
	require.ErrorContains(t, err, "host byte order")
}
