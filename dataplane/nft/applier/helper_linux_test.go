// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

const tableName = "own"

// open returns an Applier of a table that other processes can change.
func open(t testing.TB, ns *netns.NS) *applier.Applier {
	t.Helper()
	return openWith(t, ns, applier.Config{Shared: true})
}

func openWith(t testing.TB, ns *netns.NS, cfg applier.Config) *applier.Applier {
	t.Helper()
	cfg.NetNS = ns.FD()
	if cfg.Name == "" {
		cfg.Name = tableName
	}
	a, err := applier.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// logger writes an Applier's log to the test's log.
func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func generation(t testing.TB, ns *netns.NS) uint32 {
	t.Helper()
	conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	defer conn.Close()
	g, err := conn.Generation()
	require.NoError(t, err)
	return g
}

func addr(s string) ruleset.Value { return ruleset.Addr(netip.MustParseAddr(s)) }

func element(v ...ruleset.Value) ruleset.Element { return ruleset.Element{Key: v} }

func prefix(s string) ruleset.Element {
	p := netip.MustParsePrefix(s)
	first := p.Masked().Addr().AsSlice()
	last := bytes.Clone(first)
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	return ruleset.Element{Key: []ruleset.Value{first}, Last: last}
}

func to(kind ruleset.VerdictKind, chain string, v ...ruleset.Value) ruleset.Element {
	return ruleset.Element{Key: v, Verdict: &ruleset.Verdict{Kind: kind, Chain: chain}}
}

func is(f ruleset.Field, v ruleset.Value) ruleset.Compare { return ruleset.Compare{Field: f, Value: v} }

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
	listing      = nfttest.Listing
	requireLists = nfttest.RequireLists

	accept = ruleset.Verdict{Kind: ruleset.Accept}
	drop   = ruleset.Verdict{Kind: ruleset.Drop}
	isIPv4 = is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv4))
	isTCP  = is(ruleset.L4Proto, ruleset.Byte(6))
)

// nft runs nft, with the script as its input if there is one.
func nft(t testing.TB, ns *netns.NS, script string, args ...string) string {
	t.Helper()
	if script != "" {
		args = append(args, "-f", "-")
	}
	return nstest.NFT(t, ns, script, args...)
}

func chain(name string, rules ...ruleset.Rule) *ruleset.Chain {
	return &ruleset.Chain{Name: name, Rules: rules}
}

func base(name string, point ruleset.HookPoint, rules ...ruleset.Rule) *ruleset.Chain {
	return &ruleset.Chain{Name: name, Hook: &ruleset.Hook{Point: point, Policy: accept}, Rules: rules}
}

// sample is a table with all common kinds of objects: sets of all forms, maps, rules with anonymous
// sets.
func sample() *ruleset.Table {
	ports := ruleset.In{Fields: []ruleset.Field{ruleset.Dport}, Elements: []ruleset.Element{
		element(ruleset.Port(80)), element(ruleset.Port(443)),
	}}
	t := &ruleset.Table{
		Name: tableName,
		Sets: []*ruleset.Set{
			{Name: "hosts", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: []ruleset.Element{
				element(addr("10.0.0.1")), element(addr("10.0.0.2")),
			}},
			{
				Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true,
				Elements: []ruleset.Element{
					prefix("10.1.0.0/16"), prefix("10.2.0.0/16"), prefix("192.0.2.128/25"), prefix("255.0.0.0/8"),
				},
			},
			{
				Name: "pairs", Key: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeProto, ruleset.TypeService},
				Elements: []ruleset.Element{element(addr("10.0.0.1"), ruleset.Byte(6), ruleset.Port(80))},
			},
			{Name: "from", Key: []ruleset.Type{ruleset.TypeIfname}, Verdicts: true, Elements: []ruleset.Element{
				to(ruleset.Goto, "web", ruleset.Ifname("cali1")), to(ruleset.Jump, "db", ruleset.Ifname("cali2")),
				to(ruleset.Drop, "", ruleset.Ifname("cali3")),
			}},
			{Name: "noted", Key: []ruleset.Type{ruleset.TypeIPv6}, Elements: []ruleset.Element{{
				Key: []ruleset.Value{addr("2001:db8::1")}, Comment: "a note",
			}}},
		},
		Chains: []*ruleset.Chain{
			base("forward", ruleset.Forward,
				rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.CtState}, Elements: []ruleset.Element{
					to(ruleset.Accept, "", ruleset.Uint32(ruleset.CtEstablished)),
					to(ruleset.Jump, "web", ruleset.Uint32(ruleset.CtNew)),
				}}),
				rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.IIFName}, Map: "from"}),
				rule(
					isIPv4, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr}, Set: "nets"}, ruleset.Counter{},
					drop, "nets",
				)),
			chain(
				"web",
				rule(
					isIPv4, isTCP, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr}, Set: "hosts"}, ports,
					ruleset.Counter{}, accept, "web",
				),
				rule(drop),
			),
			chain("db",
				rule(
					isIPv4,
					ruleset.Lookup{
						Fields: []ruleset.Field{ruleset.IPSaddr, ruleset.L4Proto, ruleset.Dport}, Set: "pairs",
					},
					accept,
				),
				rule(ruleset.Log{Prefix: "db "}, drop)),
		},
	}
	t.Normalize()
	return t
}

// change returns the sample with a change made to it.
func change(f func(*ruleset.Table)) *ruleset.Table {
	t := sample()
	f(t)
	t.Normalize()
	return t
}

func findSet(t *ruleset.Table, name string) *ruleset.Set {
	for _, s := range t.Sets {
		if s.Name == name {
			return s
		}
	}
	panic(fmt.Sprint("no set ", name))
}

func findChain(t *ruleset.Table, name string) *ruleset.Chain {
	for _, c := range t.Chains {
		if c.Name == name {
			return c
		}
	}
	panic(fmt.Sprint("no chain ", name))
}

var bg = context.Background()
