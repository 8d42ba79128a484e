// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// spoiledSetsAndHooks returns changes of the sets and hooks of wideINet, by the error that they
// cause.
func spoiledSetsAndHooks() map[string]func(*ruleset.Table) {
	set := func(name string, change func(*ruleset.Set)) func(*ruleset.Table) {
		return func(x *ruleset.Table) {
			for _, s := range x.Sets {
				if s.Name == name {
					change(s)
				}
			}
		}
	}
	hook := func(name string, change func(*ruleset.Hook)) func(*ruleset.Table) {
		return func(x *ruleset.Table) {
			for _, c := range x.Chains {
				if c.Name == name {
					change(c.Hook)
				}
			}
		}
	}
	return map[string]func(*ruleset.Table){
		"elements 10.0.0.0/8 . 1-5 and 10.3.0.0/16 . 5-6 overlap": set("concat", func(s *ruleset.Set) {
			s.Elements[1] = ruleset.Element{
				Key: values(addr("10.3.0.0"), ruleset.Port(5)), Ends: values(addr("10.3.255.255"), ruleset.Port(6)),
			}
		}),
		"a range is not allowed here": set(
			"concat", func(s *ruleset.Set) { s.Elements[0].Ends = s.Elements[0].Ends[:1] },
		),
		"ends before it begins": set(
			"concat", func(s *ruleset.Set) { s.Elements[0].Ends[1] = ruleset.Port(0) },
		),
		"whole milliseconds":         set("concat", func(s *ruleset.Set) { s.Timeout = time.Microsecond }),
		"2 elements, at most 1":      set("concat", func(s *ruleset.Set) { s.Size = 1 }),
		"set concat: comment":        set("concat", func(s *ruleset.Set) { s.Comment = strings.Repeat("x", 129) }),
		"set counted: comment":       set("counted", func(s *ruleset.Set) { s.Elements[0].Comment = `"` }),
		"a timeout in a set without": set("counted", func(s *ruleset.Set) { s.Elements[0].Timeout = time.Second }),
		"intervals of mark":          set("verdicts", func(s *ruleset.Set) { s.Interval = true }),
		"data beside verdicts": set(
			"verdicts", func(s *ruleset.Set) { s.Data = []ruleset.Type{ruleset.TypeMark} },
		),
		"data of 1 parts, want 2": set(
			"services", func(s *ruleset.Set) { s.Elements[0].Data = s.Elements[0].Data[:1] },
		),
		"mark of 1 bytes, want 4": set(
			"marks", func(s *ruleset.Set) { s.Elements[0].Data[0] = ruleset.Byte(1) },
		),
		"marks is a map of ipv4_addr": set(
			"marks", func(s *ruleset.Set) { s.Data[0], s.Elements = ruleset.TypeClassID, nil },
		),
		"key of 6 parts": set(
			"counted", func(s *ruleset.Set) { s.Key, s.Elements = []ruleset.Type{3, 3, 3, 3, 3, 3}, nil },
		),
		"type route is for output":        hook("mangle", func(h *ruleset.Hook) { h.Point = ruleset.Input }),
		"type nat at hook forward":        hook("nat-in", func(h *ruleset.Hook) { h.Point = ruleset.Forward }),
		"connection tracking comes later": hook("nat-in", func(h *ruleset.Hook) { h.Priority = -200 }),
		"unknown hook 5":                  hook("raw", func(h *ruleset.Hook) { h.Point = 5 }),
		"unknown chain type":              hook("raw", func(h *ruleset.Hook) { h.Type = 9 }),
	}
}

// spoiledRules returns changes of the rules of wideINet, by the error that they cause.
func spoiledRules() map[string]func(*ruleset.Table) {
	with := func(r ruleset.Rule) func(*ruleset.Table) {
		return func(x *ruleset.Table) { x.Chains[1].Rules = append(x.Chains[1].Rules, r) }
	}
	match := func(m ruleset.Match) func(*ruleset.Table) { return with(rule(verdict(ruleset.Drop), m)) }
	statement := func(s ruleset.Statement) func(*ruleset.Table) { return with(do(s)) }
	return map[string]func(*ruleset.Table){
		"a mask that does not fit": match(masked(ruleset.Mark, ruleset.Uint32(0), ruleset.Byte(1))),
		"bits outside of the mask": match(masked(ruleset.Mark, ruleset.Uint32(3), ruleset.Uint32(1))),
		"a range of mark": match(ruleset.Compare{
			Field: ruleset.Mark, Value: ruleset.Uint32(0), Last: ruleset.Uint32(1),
		}),
		"unknown field":          match(is(99, ruleset.Byte(1))),
		"dscp of 64, at most 63": match(is(ruleset.IPDSCP, ruleset.Byte(64))),
		"dscp of 65, at most 63": match(is(ruleset.IP6DSCP, ruleset.Byte(65))),
		"a lookup of ip6 dscp": match(ruleset.In{
			Fields: []ruleset.Field{ruleset.IP6DSCP}, Elements: []ruleset.Element{one(ruleset.Byte(1))},
		}),
		"neither text nor expressions": match(ruleset.Raw{}),
		"no comment or new line":       match(ruleset.Raw{Text: "tcp dport 80 # "}),
		"no set gone":                  match(ruleset.Raw{Text: "ip saddr @gone", Sets: []string{"gone"}}),
		"jump gone: no such chain":     statement(ruleset.Raw{Text: "jump gone", Chains: []string{"gone"}}),
		"a comment in an anonymous set": match(ruleset.In{
			Fields:   []ruleset.Field{ruleset.Dport},
			Elements: []ruleset.Element{{Key: values(ruleset.Port(1)), Comment: "note"}},
		}),
		"limit of zero":          statement(ruleset.Limit{}),
		"limit per 2s":           statement(ruleset.Limit{Rate: 1, Per: 2 * time.Second}),
		"unknown rejection":      statement(ruleset.Reject{Kind: ruleset.RejectICMPX, Code: 4}),
		"reject is not the last": with(do(ruleset.Reject{}, ruleset.Counter{})),
		"unknown translation":    statement(ruleset.NAT{}),
		"masquerade takes no address": statement(ruleset.NAT{
			Kind: ruleset.Masquerade, Addr: addr("10.0.0.1"),
		}),
		"dnat wants an address":                statement(ruleset.NAT{Kind: ruleset.DNAT}),
		"the family of the address is missing": statement(ruleset.NAT{Kind: ruleset.DNAT, Addr: addr("10.0.0.1")}),
		"ipv6_addr of 4 bytes": statement(ruleset.NAT{
			Kind: ruleset.DNAT, Family: ruleset.FamilyIPv6, Addr: addr("10.0.0.1"),
		}),
		"redirect: the range ends before": statement(ruleset.NAT{Kind: ruleset.Redirect, Port: 5, PortLast: 4}),
		"counted is a set": statement(ruleset.NAT{
			Kind: ruleset.DNAT, Family: ruleset.FamilyIPv4, Fields: []ruleset.Field{ruleset.IPSaddr}, Map: "counted",
		}),
		"ip saddr cannot be set": statement(ruleset.Assign{Field: ruleset.IPSaddr}),
		"meta mark set with a mask": statement(
			ruleset.Assign{Field: ruleset.Mark, From: ruleset.CtMark, Mask: 1},
		),
		"set 0x2: bits outside of the mask": statement(ruleset.Assign{Field: ruleset.Mark, Value: 2, Mask: 1}),
		"meta mark set from ct state":       statement(ruleset.Assign{Field: ruleset.Mark, From: ruleset.CtState}),
		"does not fit the key of marks": statement(ruleset.Assign{
			Field: ruleset.Mark, Map: "marks", Fields: []ruleset.Field{ruleset.IP6Saddr},
		}),
	}
}

// TestValidateWide breaks the tables with every part of the model in one place at a time.
func TestValidateWide(t *testing.T) {
	spoiled := spoiledSetsAndHooks()
	maps.Copy(spoiled, spoiledRules())
	for want, spoil := range spoiled {
		x := wideINet()
		spoil(x)
		require.ErrorContains(t, x.Validate(), want, want)
	}
	ipv4 := wideIPv4()
	ipv4.Chains[0].Rules = append(ipv4.Chains[0].Rules, rule(
		verdict(ruleset.Drop), is(ruleset.NFProto, ruleset.Byte(10)),
	))
	require.ErrorContains(t, ipv4.Validate(), "meta nfproto in family ip")
}

// TestPrepareRefuses: Prepare refuses invalid deltas, and its error names the objects in conflict.
func TestPrepareRefuses(t *testing.T) {
	state, err := ruleset.StateOf(sample())
	require.NoError(t, err)
	chain, other := sample().Chains[0], sample().Chains[1]
	hooked := other.Clone()
	hooked.Hook = chain.Hook
	for want, d := range map[string]*ruleset.Delta{
		"chain other: deleted while chain base refers to it": {DeleteChains: []string{"other"}},
		"chain other: deleted while map where refers to it":  {DeleteChains: []string{"other"}},
		"set nets: deleted while chain other refers to it":   {DeleteSets: []string{"nets"}},
		"chain other: becomes a base chain while chain base": {Chains: []*ruleset.Chain{hooked}},
		"set gone: elements of a set that does not exist": {
			Elements: []ruleset.ElementDelta{{Set: "gone"}},
		},
		"chain base: occurs twice": {Chains: []*ruleset.Chain{chain, chain}},
		"chain other: occurs twice": {
			Chains: []*ruleset.Chain{other}, DeleteChains: []string{"other"},
		},
		"set nets: occurs twice": {
			DeleteSets: []string{"nets"}, Elements: []ruleset.ElementDelta{{Set: "nets"}},
		},
		"chain other: rule 1: ip saddr does not fit the key of nets": {Sets: []*ruleset.Set{{
			Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv6},
		}}},
		"set nets: elements 10.0.0.3-10.0.0.9 and 10.0.0.5 overlap": {
			Elements: []ruleset.ElementDelta{{Set: "nets", Add: []ruleset.Element{one(addr("10.0.0.5"))}}},
		},
		"set nets: elements 10.0.0.12-10.0.0.14 and 10.0.0.14 overlap": {
			Elements: []ruleset.ElementDelta{{Set: "nets", Add: []ruleset.Element{
				one(addr("10.0.0.14")), span(addr("10.0.0.12"), addr("10.0.0.14")),
			}}},
		},
		"set nets: ipv4_addr of 16 bytes": {
			Elements: []ruleset.ElementDelta{{Set: "nets", Delete: []ruleset.Element{one(addr("::1"))}}},
		},
		"set where: goto base: a base chain": {
			Elements: []ruleset.ElementDelta{{Set: "where", Add: []ruleset.Element{leads("base")}}},
		},
		"set where: goto gone: no such chain": {
			Elements: []ruleset.ElementDelta{{Set: "where", Add: []ruleset.Element{leads("gone")}}},
		},
		"set where: elements \"lo\" : goto other and \"lo\" : goto other": {
			Elements: []ruleset.ElementDelta{{Set: "where", Add: []ruleset.Element{leads("other"), leads("other")}}},
		},
	} {
		_, err := state.Prepare(d)
		require.ErrorContains(t, err, want, want)
	}
	limited := ruleset.NewState(ruleset.FamilyINet, "t")
	change, err := limited.Prepare(&ruleset.Delta{Sets: []*ruleset.Set{{
		Name: "s", Key: []ruleset.Type{ruleset.TypeService}, Size: 1,
	}}})
	require.NoError(t, err)
	limited.Commit(change)
	_, err = limited.Prepare(&ruleset.Delta{Elements: []ruleset.ElementDelta{{
		Set: "s", Add: []ruleset.Element{one(ruleset.Port(1)), one(ruleset.Port(2))},
	}}})
	require.ErrorContains(t, err, "set s: 2 elements, at most 1")
	gone := []string{"gone"}
	change, err = state.Prepare(&ruleset.Delta{DeleteChains: gone, DeleteSets: gone, Elements: []ruleset.ElementDelta{
		{Set: "nets", Delete: []ruleset.Element{one(addr("77.0.0.1"))}, Add: sample().Sets[0].Elements},
	}})
	require.NoError(t, err)
	require.Empty(t, change.Ops, "deleting absent objects and adding existing elements needs no operation")
	state.Commit(change)
	require.Panics(t, func() { state.Commit(change) })
	require.True(t, sample().Equal(state.Table()))
}

// leads returns an element for the interface lo that leads to the chain.
func leads(chain string) ruleset.Element {
	v := verdict(ruleset.Goto, chain)
	return ruleset.Element{Key: values(ruleset.Ifname("lo")), Verdict: &v}
}
