// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Shorthands for the values in the tables below.
func ip(s string) ruleset.Value       { return ruleset.Addr(netip.MustParseAddr(s)) }
func port(p uint16) ruleset.Value     { return ruleset.Port(p) }
func num(n uint8) ruleset.Value       { return ruleset.Byte(n) }
func state(bits uint32) ruleset.Value { return ruleset.CtStates(bits) }

func key(values ...ruleset.Value) ruleset.Element { return ruleset.Element{Key: values} }

func span(first, last ruleset.Value) ruleset.Element {
	return ruleset.Element{Key: []ruleset.Value{first}, Last: last}
}

func to(kind ruleset.VerdictKind, chain string, values ...ruleset.Value) ruleset.Element {
	return ruleset.Element{Key: values, Verdict: &ruleset.Verdict{Kind: kind, Chain: chain}}
}

func is(f ruleset.Field, v ruleset.Value) ruleset.Compare { return ruleset.Compare{Field: f, Value: v} }

func isNot(f ruleset.Field, v ruleset.Value) ruleset.Compare {
	return ruleset.Compare{Field: f, Not: true, Value: v}
}

func between(f ruleset.Field, first, last ruleset.Value) ruleset.Compare {
	return ruleset.Compare{Field: f, Value: first, Last: last}
}

func in(fields []ruleset.Field, elements ...ruleset.Element) ruleset.In {
	return ruleset.In{Fields: fields, Elements: elements}
}

func lookup(set string, fields ...ruleset.Field) ruleset.Lookup {
	return ruleset.Lookup{Fields: fields, Set: set}
}

func fields(fs ...ruleset.Field) []ruleset.Field { return fs }

// rule makes a rule of matches and statements, in any order of types.
func rule(parts ...any) ruleset.Rule {
	var r ruleset.Rule
	for _, p := range parts {
		switch p := p.(type) {
		case ruleset.Match:
			r.Matches = append(r.Matches, p)
		case ruleset.Statement:
			r.Statements = append(r.Statements, p)
		case string:
			r.Comment = p
		}
	}
	return r
}

var (
	accept = ruleset.Verdict{Kind: ruleset.Accept}
	drop   = ruleset.Verdict{Kind: ruleset.Drop}
	isIPv4 = is(ruleset.NFProto, num(2))
	isIPv6 = is(ruleset.NFProto, num(10))
	isTCP  = is(ruleset.L4Proto, num(6))
)

// sampler has every construct of the model at least once.
func sampler() *ruleset.Table {
	return &ruleset.Table{
		Name: "sampler",
		Sets: []*ruleset.Set{
			{Name: "addrs", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: []ruleset.Element{key(ip("10.0.0.1")), key(ip("10.0.0.2"))}},
			{Name: "addrs6", Key: []ruleset.Type{ruleset.TypeIPv6}, Elements: []ruleset.Element{key(ip("2001:db8::1"))}},
			{Name: "empty", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true},
			{Name: "everything", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true, Elements: []ruleset.Element{span(ip("0.0.0.0"), ip("255.255.255.255"))}},
			{Name: "ifnames", Key: []ruleset.Type{ruleset.TypeIfname}, Verdicts: true, Elements: []ruleset.Element{
				to(ruleset.Goto, "leaf", ruleset.Ifname("way1")), to(ruleset.Jump, "leaf", ruleset.Ifname("way3456789abcde")), to(ruleset.Drop, "", ruleset.Ifname("way3")),
			}},
			{Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true, Elements: []ruleset.Element{
				span(ip("10.0.0.0"), ip("10.255.255.255")), key(ip("11.0.0.0")), span(ip("12.0.0.1"), ip("12.0.0.9")), span(ip("224.0.0.0"), ip("255.255.255.255")),
			}},
			{Name: "nets6", Key: []ruleset.Type{ruleset.TypeIPv6}, Interval: true, Elements: []ruleset.Element{
				span(ip("2001:db8::"), ip("2001:db8::ffff")), span(ip("ff00::"), ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")),
			}},
			{Name: "ports", Key: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeProto, ruleset.TypeService}, Elements: []ruleset.Element{
				key(ip("10.0.0.1"), num(6), port(80)), key(ip("10.0.0.1"), num(132), port(65535)),
			}},
			{Name: "ports6", Key: []ruleset.Type{ruleset.TypeIPv6, ruleset.TypeProto, ruleset.TypeService}, Elements: []ruleset.Element{
				key(ip("2001:db8::1"), num(17), port(53)),
			}},
			{Name: "ranges", Key: []ruleset.Type{ruleset.TypeService}, Interval: true, Verdicts: true, Elements: []ruleset.Element{
				{Key: []ruleset.Value{port(1)}, Last: port(1023), Verdict: &drop},
				{Key: []ruleset.Value{port(1024)}, Last: port(2000), Verdict: &accept},
				{Key: []ruleset.Value{port(60000)}, Last: port(65535), Verdict: &ruleset.Verdict{Kind: ruleset.Return}},
			}},
		},
		Chains: []*ruleset.Chain{
			{Name: "start", Hook: &ruleset.Hook{Point: ruleset.Forward, Priority: -5, Policy: accept}, Rules: []ruleset.Rule{
				rule(ruleset.VMap{Fields: fields(ruleset.CtState), Elements: []ruleset.Element{
					to(ruleset.Drop, "", state(1)), to(ruleset.Accept, "", state(2)), to(ruleset.Accept, "", state(4)),
				}}),
				rule(is(ruleset.CtState, state(2|4)), accept, "established"),
				rule(isNot(ruleset.CtState, state(1)), ruleset.Counter{}),
				rule(ruleset.VMap{Fields: fields(ruleset.IIFName), Map: "ifnames"}),
				rule(is(ruleset.IIFName, ruleset.IfnamePrefix("way")), drop),
				rule(isNot(ruleset.OIFName, ruleset.Ifname("eth0")), ruleset.Verdict{Kind: ruleset.Jump, Chain: "leaf"}),
				rule(ruleset.Verdict{Kind: ruleset.Goto, Chain: "leaf"}),
			}},
			{Name: "input", Hook: &ruleset.Hook{Point: ruleset.Input, Priority: 100, Policy: drop}},
			{Name: "leaf", Rules: leafRules()},
		},
	}
}

func leafRules() []ruleset.Rule {
	addr, addr6 := ruleset.IPSaddr, ruleset.IP6Daddr
	return []ruleset.Rule{
		rule(isIPv4, lookup("addrs", addr), accept, "a comment"),
		rule(isIPv6, lookup("addrs6", addr6), accept, strings.Repeat("c", 128)),
		rule(isIPv4, ruleset.Lookup{Fields: fields(ruleset.IPDaddr), Not: true, Set: "nets"}, drop),
		rule(isIPv6, lookup("nets6", ruleset.IP6Saddr), ruleset.Verdict{Kind: ruleset.Return}),
		rule(isIPv4, lookup("ports", ruleset.IPDaddr, ruleset.L4Proto, ruleset.Dport), accept),
		rule(isIPv6, lookup("ports6", addr6, ruleset.L4Proto, ruleset.Dport), accept),
		rule(isIPv4, is(addr, ip("10.1.2.3")), drop),
		rule(isIPv4, between(addr, ip("10.1.0.0"), ip("10.1.255.255")), drop),
		rule(isIPv4, between(addr, ip("10.128.0.0"), ip("10.255.255.255")), drop),
		rule(isIPv4, ruleset.Compare{Field: addr, Not: true, Value: ip("10.16.0.0"), Last: ip("10.31.255.255")}, drop),
		rule(isIPv4, between(addr, ip("10.0.0.1"), ip("10.0.0.9")), drop),
		rule(isIPv6, between(addr6, ip("2001:db8::"), ip("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")), drop),
		rule(isIPv6, between(addr6, ip("fc00::"), ip("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")), drop),
		rule(isIPv4, in(fields(addr), key(ip("10.0.0.1")), span(ip("10.0.1.0"), ip("10.0.1.255"))), accept),
		rule(isIPv4, ruleset.In{Fields: fields(addr), Not: true, Elements: []ruleset.Element{key(ip("10.0.0.1")), key(ip("10.0.0.2"))}}, accept),
		rule(isTCP, is(ruleset.Dport, port(80)), accept),
		rule(isTCP, between(ruleset.Dport, port(80), port(90)), accept),
		rule(isTCP, ruleset.Compare{Field: ruleset.Sport, Not: true, Value: port(80), Last: port(90)}, accept),
		rule(isTCP, in(fields(ruleset.Dport), key(port(22)), span(port(80), port(90)), span(port(60000), port(65535))), accept),
		rule(isTCP, in(fields(ruleset.Dport), key(port(22)), key(port(443))), accept),
		rule(isTCP, ruleset.VMap{Fields: fields(ruleset.Dport), Map: "ranges"}),
		rule(isNot(ruleset.L4Proto, num(17)), drop),
		rule(in(fields(ruleset.L4Proto), key(num(6)), key(num(17)), key(num(132))), between(ruleset.Dport, port(1), port(65534)), accept),
		rule(isIPv4, is(ruleset.L4Proto, num(1)), is(ruleset.ICMPType, num(8)), accept),
		rule(isIPv4, is(ruleset.L4Proto, num(1)), in(fields(ruleset.ICMPType, ruleset.ICMPCode), key(num(3), num(4))), accept),
		rule(isIPv4, is(ruleset.L4Proto, num(1)), isNot(ruleset.ICMPType, num(0)), accept),
		rule(isIPv6, is(ruleset.L4Proto, num(58)), is(ruleset.ICMPv6Type, num(128)), accept),
		rule(isIPv6, is(ruleset.L4Proto, num(58)), ruleset.In{Fields: fields(ruleset.ICMPv6Type, ruleset.ICMPv6Code), Not: true, Elements: []ruleset.Element{key(num(1), num(4))}}, accept),
		rule(in(fields(ruleset.L4Proto, ruleset.Dport), key(num(6), port(80)), key(num(17), port(53))), accept),
		rule(ruleset.Log{Prefix: "a prefix: "}),
		rule(ruleset.Counter{}, drop),
	}
}

// What we write lists as what nft itself writes from the table's text.
func TestEncodeListsLikeNFT(t *testing.T) {
	ours, theirs := nstest.New(t), nstest.New(t)
	table := sampler()
	load(t, theirs, table.String())
	require.NoError(t, write(ours, table))
	require.Equal(t, list(t, theirs), list(t, ours))

	before := list(t, ours)
	require.NoError(t, write(ours, table), "the table is there already")
	require.Equal(t, before, list(t, ours))
}

// A list of elements beyond 64 KiB arrives whole.
func TestEncodeManyElements(t *testing.T) {
	const n = 10_000
	addr := func(i int) ruleset.Value { return binary.BigEndian.AppendUint32(nil, uint32(10<<24+4*i)) }
	last := func(i int) ruleset.Value { return binary.BigEndian.AppendUint32(nil, uint32(10<<24+4*i+2)) }
	concat := []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeProto, ruleset.TypeService}
	for _, tc := range []struct {
		name    string
		set     ruleset.Set
		element func(i int) ruleset.Element
	}{
		{"hash", ruleset.Set{Key: concat[:1]}, func(i int) ruleset.Element { return key(addr(i)) }},
		{"interval", ruleset.Set{Key: concat[:1], Interval: true}, func(i int) ruleset.Element { return span(addr(i), last(i)) }},
		{"concatenation", ruleset.Set{Key: concat}, func(i int) ruleset.Element { return key(addr(i), num(6), port(80)) }},
		{"map", ruleset.Set{Key: concat[:1], Verdicts: true}, func(i int) ruleset.Element { return to(ruleset.Drop, "", addr(i)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := nstest.New(t)
			set := tc.set
			set.Name = "s"
			for i := range n {
				set.Elements = append(set.Elements, tc.element(i))
			}
			require.NoError(t, write(ns, &ruleset.Table{Name: "big", Sets: []*ruleset.Set{&set}}))
			require.Equal(t, n, strings.Count(list(t, ns), ",")+1, "elements in the kernel")
		})
	}
}

// A transaction that the kernel refuses changes nothing, and the error says what is at fault.
func TestRefusedTransactionChangesNothing(t *testing.T) {
	ns := nstest.New(t)
	require.NoError(t, write(ns, sampler()))
	before, generationBefore := list(t, ns), generation(t, ns)

	broken := sampler()
	leaf := broken.Chains[2]
	leaf.Rules = append(leaf.Rules, rule(ruleset.Verdict{Kind: ruleset.Jump, Chain: "nowhere"}))
	err := write(ns, broken)
	require.ErrorIs(t, err, unix.ENOENT)
	require.ErrorContains(t, err, fmt.Sprintf("rule %d of chain leaf", len(leaf.Rules)))

	broken = sampler()
	broken.Sets[5].Elements = append(broken.Sets[5].Elements, span(ip("10.1.0.0"), ip("10.1.0.255")))
	var refused *nfnl.CommitError
	require.ErrorAs(t, write(ns, broken), &refused)
	require.Equal(t, nfnl.Object{Kind: "elements of set", Name: "nets"}, refused.Failures[0].Object)
	require.Contains(t, refused.Detail(), "elements of set nets: ")

	broken = sampler()
	broken.Chains[2].Rules = []ruleset.Rule{rule(ruleset.Verdict{Kind: ruleset.Jump, Chain: "leaf"})}
	require.ErrorIs(t, write(ns, broken), unix.EMLINK)

	require.Equal(t, before, list(t, ns))
	require.Equal(t, generationBefore, generation(t, ns))
}

// What does not fit the model is an error, and never a rule or set with less in it.
func TestEncodeRefuses(t *testing.T) {
	ns := nstest.New(t)
	withRule := func(r ruleset.Rule) *ruleset.Table {
		return &ruleset.Table{Name: "bad", Sets: sampler().Sets, Chains: []*ruleset.Chain{{Name: "c", Rules: []ruleset.Rule{r}}}}
	}
	withSet := func(s ruleset.Set) *ruleset.Table {
		s.Name = "s"
		return &ruleset.Table{Name: "bad", Sets: []*ruleset.Set{&s}}
	}
	ipv4 := []ruleset.Type{ruleset.TypeIPv4}
	for name, table := range map[string]*ruleset.Table{
		"family":               {Family: 9, Name: "bad"},
		"policy":               {Name: "bad", Chains: []*ruleset.Chain{{Name: "c", Hook: &ruleset.Hook{}}}},
		"short address":        withRule(rule(is(ruleset.IPSaddr, num(1)), accept)),
		"no interface name":    withRule(rule(is(ruleset.IIFName, nil), accept)),
		"range of states":      withRule(rule(between(ruleset.CtState, state(1), state(2)), accept)),
		"not several states":   withRule(rule(isNot(ruleset.CtState, state(1|2)), accept)),
		"unknown field":        withRule(rule(is(99, num(1)), accept)),
		"no fields":            withRule(rule(lookup("addrs"), accept)),
		"unknown set":          withRule(rule(lookup("gone", ruleset.IPSaddr), accept)),
		"set of other type":    withRule(rule(lookup("addrs6", ruleset.IPSaddr), accept)),
		"map as a set":         withRule(rule(lookup("ifnames", ruleset.IIFName), accept)),
		"set as a map":         withRule(rule(ruleset.VMap{Fields: fields(ruleset.IPSaddr), Map: "addrs"})),
		"no elements":          withRule(rule(in(fields(ruleset.IPSaddr)), accept)),
		"range in a pair":      withRule(rule(in(fields(ruleset.L4Proto, ruleset.Dport), ruleset.Element{Key: []ruleset.Value{num(6), port(1)}, Last: port(9)}), accept)),
		"key too long":         withRule(rule(in(fields(ruleset.IP6Saddr, ruleset.IP6Daddr, ruleset.IIFName, ruleset.OIFName, ruleset.L4Proto), key()), accept)),
		"goto nothing":         withRule(rule(ruleset.Verdict{Kind: ruleset.Goto})),
		"accept to a chain":    withRule(rule(ruleset.Verdict{Kind: ruleset.Accept, Chain: "c"})),
		"unknown verdict":      withRule(rule(ruleset.Verdict{})),
		"comment too long":     withRule(rule(accept, strings.Repeat("c", 129))),
		"set without key":      withSet(ruleset.Set{}),
		"wrong number of keys": withSet(ruleset.Set{Key: ipv4, Elements: []ruleset.Element{key(ip("10.0.0.1"), num(6))}}),
		"backward interval":    withSet(ruleset.Set{Key: ipv4, Interval: true, Elements: []ruleset.Element{span(ip("10.0.0.2"), ip("10.0.0.1"))}}),
		"range in a hash":      withSet(ruleset.Set{Key: ipv4, Elements: []ruleset.Element{span(ip("10.0.0.1"), ip("10.0.0.2"))}}),
		"map without verdict":  withSet(ruleset.Set{Key: ipv4, Verdicts: true, Elements: []ruleset.Element{key(ip("10.0.0.1"))}}),
		"set with verdict":     withSet(ruleset.Set{Key: ipv4, Elements: []ruleset.Element{to(ruleset.Drop, "", ip("10.0.0.1"))}}),
	} {
		t.Run(name, func(t *testing.T) {
			before := generation(t, ns)
			err := write(ns, table)
			require.ErrorContains(t, err, "nft: encode ")
			var refused *nfnl.CommitError
			require.False(t, errors.As(err, &refused), "found before the kernel was asked: %v", err)
			require.Equal(t, before, generation(t, ns))
		})
	}
	require.Empty(t, list(t, ns))
}
