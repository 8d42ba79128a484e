// SPDX-License-Identifier: Apache-2.0

package encode_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

const tableName = "own"

var (
	accept = build.Accept()
	drop   = build.Drop()
	isIPv4 = is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv4))
	isTCP  = is(ruleset.L4Proto, ruleset.Byte(6))
)

func addr(s string) ruleset.Value { return ruleset.Addr(netip.MustParseAddr(s)) }

func element(v ...ruleset.Value) ruleset.Element { return ruleset.Element{Key: v} }

func between(first, last string) ruleset.Element {
	return ruleset.Element{Key: []ruleset.Value{addr(first)}, Last: addr(last)}
}

func is(f ruleset.Field, v ruleset.Value) ruleset.Match { return build.Equals(f, v) }

func rule(parts ...any) ruleset.Rule {
	var r ruleset.Rule
	for _, p := range parts {
		switch p := p.(type) {
		case ruleset.Match:
			r.Matches = append(r.Matches, p)
		case ruleset.Statement:
			r.Statements = append(r.Statements, p)
		}
	}
	return r
}

func chain(name string, rules ...ruleset.Rule) *ruleset.Chain {
	return &ruleset.Chain{Name: name, Rules: rules}
}

func group(n uint16) *uint16 { return &n }

func hooked(
	name string, typ ruleset.HookType, point ruleset.HookPoint, priority int, rules ...ruleset.Rule,
) *ruleset.Chain {
	return &ruleset.Chain{
		Name: name, Hook: &ruleset.Hook{Type: typ, Point: point, Priority: priority, Policy: accept}, Rules: rules,
	}
}

// statementSets returns the sets that lookupRules and the other rules use.
func statementSets() []*ruleset.Set {
	addr4 := []ruleset.Type{ruleset.TypeIPv4}
	return []*ruleset.Set{
		{Name: "addresses", Key: addr4, Data: addr4, Elements: []ruleset.Element{{
			Key: []ruleset.Value{addr("10.0.0.1")}, Data: []ruleset.Value{addr("10.0.1.1")},
		}}},
		{
			Name: "services", Key: []ruleset.Type{ruleset.TypeService},
			Data: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService},
			Elements: []ruleset.Element{{
				Key: []ruleset.Value{ruleset.Port(80)}, Data: []ruleset.Value{addr("10.0.1.1"), ruleset.Port(8080)},
			}},
		},
		{
			Name: "marks", Key: addr4, Data: []ruleset.Type{ruleset.TypeMark},
			Elements: []ruleset.Element{{
				Key: []ruleset.Value{addr("10.0.0.1")}, Data: []ruleset.Value{ruleset.Uint32(7)},
			}},
		},
		{Name: "counted", Key: addr4, Counter: true, Elements: []ruleset.Element{element(addr("10.0.0.1"))}},
		{
			Name: "timed", Key: addr4, Timeout: time.Hour, GCInterval: time.Minute, Comment: "a set",
			Elements: []ruleset.Element{element(addr("10.0.0.1")), {
				Key: []ruleset.Value{addr("10.0.0.2")}, Timeout: 2 * time.Hour,
			}},
		},
		{Name: "sized", Key: addr4, Size: 100, Elements: []ruleset.Element{{
			Key: []ruleset.Value{addr("10.0.0.1")}, Comment: "one",
		}}},
		{
			Name: "areas", Key: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService}, Interval: true,
			Elements: []ruleset.Element{{
				Key:  []ruleset.Value{addr("10.0.0.0"), ruleset.Port(80)},
				Ends: []ruleset.Value{addr("10.0.0.255"), ruleset.Port(90)},
			}},
		},
		{Name: "areas2", Key: addr4, Interval: true, Verdicts: true, Elements: []ruleset.Element{
			{Key: []ruleset.Value{addr("10.0.0.0")}, Last: addr("10.0.0.255"), Verdict: &drop, Comment: "net"},
			{Key: []ruleset.Value{addr("10.0.1.0")}, Last: addr("10.0.2.17"), Verdict: &accept},
		}},
	}
}

// lookupRules returns rules with comparisons and lookups.
func lookupRules() []ruleset.Rule {
	mark := ruleset.Uint32(5)
	return []ruleset.Rule{
		rule(ruleset.Compare{Field: ruleset.Mark, Value: mark, Last: mark}, drop),
		rule(ruleset.In{Fields: []ruleset.Field{ruleset.Mark}, Elements: []ruleset.Element{
			{Key: []ruleset.Value{mark}, Last: mark}, element(ruleset.Uint32(9)),
		}}, drop),
		rule(isIPv4, ruleset.In{Fields: []ruleset.Field{ruleset.IPSaddr}, Elements: []ruleset.Element{
			between("10.0.0.1", "10.0.0.1"), between("10.0.0.3", "10.0.0.3"),
		}}, drop),
		rule(isIPv4, ruleset.In{Fields: []ruleset.Field{ruleset.IPSaddr}, Elements: []ruleset.Element{
			between("10.0.0.1", "10.0.0.1"), between("10.0.0.3", "10.0.0.7"),
		}}, drop),
		rule(
			isIPv4, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr, ruleset.Dport}, Set: "areas"}, drop,
		),
		rule(isIPv4, ruleset.VMap{Fields: []ruleset.Field{ruleset.IPDaddr}, Map: "areas2"}),
		rule(
			isIPv4,
			ruleset.In{
				Fields: []ruleset.Field{ruleset.IPSaddr}, Not: true,
				Elements: []ruleset.Element{
					between("10.0.0.0", "10.255.255.255"), between("192.168.0.0", "192.168.255.255"),
				},
			},
			drop,
		),
		rule(
			isIPv4,
			ruleset.Compare{
				Field: ruleset.IPSaddr, Not: true, Value: addr("10.0.0.0"), Last: addr("10.0.15.255"),
			},
			drop,
		),
		rule(
			ruleset.Compare{Field: ruleset.Mark, Value: ruleset.Uint32(0x10), Mask: ruleset.Uint32(0xf0)}, drop,
		),
		rule(
			isTCP, ruleset.Compare{Field: ruleset.Dport, Value: ruleset.Port(1000), Last: ruleset.Port(2000)},
			drop,
		),
		rule(ruleset.Compare{Field: ruleset.IIFName, Value: ruleset.IfnamePrefix("cali")}, drop),
		rule(
			ruleset.Compare{Field: ruleset.CtState, Not: true, Value: ruleset.Uint32(ruleset.CtInvalid)},
			drop,
		),
	}
}

// statements is a table with every statement and match.
func statements() *ruleset.Table {
	isIPv6 := is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv6))
	t := &ruleset.Table{
		Name: tableName,
		Sets: statementSets(),
		Chains: []*ruleset.Chain{
			hooked(
				"do-raw", ruleset.HookFilter, ruleset.Prerouting, -300,
				rule(isTCP, is(ruleset.Dport, ruleset.Port(1)), ruleset.Notrack{}),
			),
			hooked(
				"do-route", ruleset.HookRoute, ruleset.Output, -150,
				rule(ruleset.Assign{Field: ruleset.Mark, Value: 3}, ruleset.Counter{}),
			),
			hooked("do-snat", ruleset.HookNAT, ruleset.Postrouting, 100,
				rule(isIPv4, is(ruleset.IPSaddr, addr("10.0.0.1")), ruleset.NAT{
					Kind: ruleset.SNAT, Family: ruleset.FamilyIPv4, Addr: addr("192.0.2.1"),
				}),
				rule(isIPv4, isTCP, ruleset.NAT{
					Kind: ruleset.SNAT, Family: ruleset.FamilyIPv4, Addr: addr("192.0.2.1"), Port: 1000, PortLast: 2000,
				}),
				rule(isIPv4, ruleset.NAT{
					Kind: ruleset.SNAT, Family: ruleset.FamilyIPv4, Fields: []ruleset.Field{ruleset.IPSaddr},
					Map: "addresses",
				}),
				rule(isTCP, ruleset.NAT{
					Kind: ruleset.Masquerade, Port: 1000, PortLast: 2000,
				}),
				rule(ruleset.NAT{Kind: ruleset.Masquerade})),
			hooked("do-dnat", ruleset.HookNAT, ruleset.Prerouting, -100,
				rule(isIPv6, isTCP, is(ruleset.Dport, ruleset.Port(80)), ruleset.NAT{
					Kind: ruleset.DNAT, Family: ruleset.FamilyIPv6, Addr: addr("2001:db8::1"), Port: 8080,
				}),
				rule(isIPv4, isTCP, ruleset.NAT{
					Kind: ruleset.DNAT, Family: ruleset.FamilyIPv4, Fields: []ruleset.Field{ruleset.Dport},
					Map: "services",
				}),
				rule(isTCP, is(ruleset.Dport, ruleset.Port(81)), ruleset.NAT{Kind: ruleset.Redirect, Port: 8081})),
			chain("do-log", rule(ruleset.Log{}),
				rule(ruleset.Log{Prefix: "p "}), rule(ruleset.Log{Prefix: "q", Group: group(5)})),
			chain(
				"do-limit", rule(ruleset.Limit{Rate: 10}, accept),
				rule(ruleset.Limit{Rate: 400, Per: time.Minute, Burst: 7, Over: true}, drop),
			),
			chain("do-reject", rule(ruleset.Reject{}), rule(isTCP, ruleset.Reject{Kind: ruleset.RejectTCPReset}),
				rule(ruleset.Reject{Kind: ruleset.RejectICMPX, Code: 3})),
			chain("do-assign", rule(ruleset.Assign{Field: ruleset.Mark, Value: 0x10, Mask: 0xf0}),
				rule(ruleset.Assign{Field: ruleset.CtMark, From: ruleset.Mark}),
				rule(ruleset.Assign{Field: ruleset.Mark, From: ruleset.CtMark}),
				rule(ruleset.Assign{Field: ruleset.Priority, Value: 0x10002}),
				rule(isIPv4, ruleset.Assign{
					Field: ruleset.Mark, Fields: []ruleset.Field{ruleset.IPSaddr}, Map: "marks",
				}),
				rule(ruleset.Assign{Field: ruleset.CtMark, Value: 9})),
			chain("do-lookups", lookupRules()...),
		},
	}
	t.Normalize()
	return t
}

// requireRoundTrip programs a table, compares the listing with nft's own, and requires that the
// table is recognised when it is read back.
func requireRoundTrip(t *testing.T, table *ruleset.Table) {
	t.Helper()
	ns := requireProgrammed(t, table)
	nfttest.RequireLists(t, ns, table)
}

// requireProgrammed programs a table, and requires that it is recognised when it is read back.
func requireProgrammed(t *testing.T, table *ruleset.Table) *netns.NS {
	t.Helper()
	ns := nstest.New(t)
	conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	state, err := ruleset.StateOf(table)
	require.NoError(t, err)
	batch := nfnl.NewBatch()
	e := encode.New(batch, table.Family, table.Name, state.Set)
	e.Begin(0)
	for _, s := range table.Sets {
		e.AddSet(s)
	}
	for _, c := range table.Chains {
		e.AddChain(c)
	}
	for _, s := range table.Sets {
		e.AddElements(s, s.Elements)
	}
	for _, c := range table.Chains {
		for i := range c.Rules {
			at := encode.Position{Flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND}
			e.AddRule(c.Name, i, &c.Rules[i], at)
		}
	}
	require.NoError(t, e.Err())
	require.NoError(t, conn.Commit(batch, nil), nil)
	d, _, err := readback.New(conn, table.Family, table.Name).Compare(state)
	require.NoError(t, err)
	require.True(t, d.None(), "differs from the written table: %s", d)
	return ns
}

// nft lists lookups of the target of neighbour discovery, although it cannot load them. Parse reads
// the listing.
func TestNeighbourTarget(t *testing.T) {
	own := &ruleset.Set{Name: "own", Key: []ruleset.Type{ruleset.TypeIfname, ruleset.TypeIPv6}}
	targets := &ruleset.Set{Name: "targets", Key: []ruleset.Type{ruleset.TypeIPv6}}
	proto := is(ruleset.L4Proto, ruleset.Byte(58))
	lookup := func(set string, fields ...ruleset.Field) ruleset.Match {
		return ruleset.Lookup{Fields: fields, Set: set}
	}
	table := &ruleset.Table{
		Family: ruleset.FamilyBridge, Name: tableName, Sets: []*ruleset.Set{own, targets},
		Chains: []*ruleset.Chain{hooked(
			"c", ruleset.HookFilter, ruleset.Prerouting, 50,
			rule(lookup("targets", ruleset.NDTarget), ruleset.Counter{}),
			rule(proto, lookup("own", ruleset.IIFName, ruleset.NDTarget), ruleset.Counter{}),
		)},
	}
	ns := requireProgrammed(t, table)
	listed, err := ruleset.Parse(nfttest.Listing(t, ns))
	require.NoError(t, err)
	require.True(t, table.Equal(listed), "%s", listed)
}

func TestStatements(t *testing.T) { requireRoundTrip(t, statements()) }

// Every field of a match is encoded as nft does it.
func TestFields(t *testing.T) {
	for _, f := range ruleset.Fields() {
		if f == ruleset.NDTarget {
			continue // nft cannot load it: see TestNeighbourTarget
		}
		t.Run(f.String(), func(t *testing.T) {
			point, matches := ruleset.Input, around(f)
			switch f {
			case ruleset.FibSource:
				point = ruleset.Prerouting
			case ruleset.OIFName:
				point = ruleset.Output
			}
			value := make(ruleset.Value, f.Type().Size())
			value[len(value)-1] = 1
			if f.Type().HostOrder() {
				value[0], value[len(value)-1] = 1, 0
			}
			switch f.Type() {
			case ruleset.TypeIfname:
				value = ruleset.Ifname("lo")
			case ruleset.TypeEtherType:
				value = ruleset.EtherTypeOf(0x0800)
			}
			r := ruleset.Rule{
				Matches: append(matches, is(f, value)), Statements: []ruleset.Statement{ruleset.Counter{}},
			}
			table := &ruleset.Table{
				Name: tableName, Chains: []*ruleset.Chain{hooked("c", ruleset.HookFilter, point, 50, r)},
			}
			if table.Validate() != nil {
				table.Family = ruleset.FamilyBridge // the field is of frames
			}
			requireRoundTrip(t, table)
		})
	}
}

// Comparisons with the code point are written as nft writes them, for both families.
func TestDSCP(t *testing.T) {
	var rules []ruleset.Rule
	for _, f := range []ruleset.Field{ruleset.IPDSCP, ruleset.IP6DSCP} {
		for _, c := range []ruleset.Compare{
			{Value: ruleset.Byte(0)},
			{Value: ruleset.Byte(46)},
			{Value: ruleset.Byte(63), Not: true},
			{Value: ruleset.Byte(1), Last: ruleset.Byte(46)},
			{Value: ruleset.Byte(3), Last: ruleset.Byte(63), Not: true},
		} {
			c.Field = f
			rules = append(rules, rule(around(f)[0], c, ruleset.Counter{}))
		}
		not := func(n uint8) ruleset.Match { return ruleset.Compare{Field: f, Not: true, Value: ruleset.Byte(n)} }
		rules = append(rules, rule(around(f)[0], not(10), not(46), ruleset.Counter{}),
			rule(around(f)[0], not(10), isTCP, is(ruleset.Dport, ruleset.Port(80)), ruleset.Counter{}))
	}
	requireRoundTrip(t, &ruleset.Table{Name: tableName, Chains: []*ruleset.Chain{{Name: "c", Rules: rules}}})
}

// around returns the matches that make a field meaningful.
func around(f ruleset.Field) []ruleset.Match {
	ipv6 := is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv6))
	proto := func(n uint8) ruleset.Match { return is(ruleset.L4Proto, ruleset.Byte(n)) }
	switch f {
	case ruleset.IPSaddr, ruleset.IPDaddr, ruleset.IPDSCP,
		ruleset.CtOriginalSaddr, ruleset.CtOriginalDaddr, ruleset.CtReplySaddr, ruleset.CtReplyDaddr:
		return []ruleset.Match{isIPv4}
	case ruleset.IP6Saddr, ruleset.IP6Daddr, ruleset.IP6DSCP,
		ruleset.FragmentHeader, ruleset.CtOriginalSaddr6, ruleset.CtOriginalDaddr6,
		ruleset.CtReplySaddr6, ruleset.CtReplyDaddr6:
		return []ruleset.Match{ipv6}
	case ruleset.Sport, ruleset.Dport, ruleset.CtOriginalDport:
		return []ruleset.Match{isTCP}
	case ruleset.ICMPType, ruleset.ICMPCode:
		return []ruleset.Match{isIPv4, proto(1)}
	case ruleset.ICMPv6Type, ruleset.ICMPv6Code:
		return []ruleset.Match{ipv6, proto(58)}
	case ruleset.ARPHlen, ruleset.ARPPlen, ruleset.ARPSaddrEther, ruleset.ARPSaddrIP, ruleset.ARPDaddrIP:
		return []ruleset.Match{is(ruleset.Protocol, ruleset.EtherTypeOf(0x0806))}
	}
	if p := f.Load().Protocol; p != 0 {
		return []ruleset.Match{proto(p)}
	}
	return nil
}
