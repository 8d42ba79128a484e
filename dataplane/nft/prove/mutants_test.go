// SPDX-License-Identifier: Apache-2.0

package prove_test

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/prove"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// shop has three endpoints on the node, of which two have equal policy, and peers of several kinds.
func shop() verdict.World {
	w := verdict.World{}
	endpoint := func(name, on, iface, app string, addrs ...string) {
		e := &policy.WorkloadEndpoint{
			Namespace: "shop", Name: name, Node: on, Interface: iface, Labels: map[string]string{"app": app},
			Addresses: nfttest.Addresses(addrs...),
		}
		if app == "web" {
			e.Ports = []policy.EndpointPort{{Name: "metrics", Protocol: policy.ProtocolTCP, Port: 9100}}
		}
		w.Set(e)
	}
	endpoint("web-1", node, "way1", "web", "10.0.0.1", "fd00::1")
	endpoint("web-2", node, "way2", "web", "10.0.0.2", "fd00::2")
	endpoint("db", node, "way3", "db", "10.0.0.3", "fd00::3")
	endpoint("front-1", "n2", "way1", "front", "10.0.1.1", "fd00::1:1")
	endpoint("front-2", "n2", "way2", "front", "10.0.1.2", "fd00::1:2")
	endpoint("back", "n2", "way3", "back", "10.0.1.9")
	echo, code := 8, 0
	tcp := func(ports ...policy.Port) policy.Rule {
		return policy.Rule{
			Action: policy.Allow, Protocol: policy.ProtocolTCP, Destination: policy.EntityRule{Ports: ports},
		}
	}
	from := func(selector string, r policy.Rule) policy.Rule {
		r.Source.Selector = selector
		return r
	}
	marked := from("app == 'back'", tcp(policy.PortNumber(22)))
	marked.DSCP = []policy.DSCP{46}
	w.Set(
		&policy.Policy{Name: "web", Selector: "app == 'web'", Ingress: []policy.Rule{
			from("app == 'front'", tcp(policy.PortRange(80, 90))),
			from("app == 'back'", tcp(policy.PortName("metrics"))),
			{Action: policy.Allow, Source: policy.EntityRule{Nets: policy.Nets{netip.MustParsePrefix("192.0.2.0/24")}}},
			{Action: policy.Allow, Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
				ICMP: &policy.ICMP{Type: &echo, Code: &code},
			}},
			marked,
		}, Egress: []policy.Rule{
			{
				Action: policy.Deny, Protocol: policy.ProtocolUDP,
				Destination: policy.EntityRule{Nets: policy.Nets{netip.MustParsePrefix("198.51.100.0/25")}},
			},
			{Action: policy.Allow},
		}},
		&policy.Policy{Name: "db", Selector: "app == 'db'", Ingress: []policy.Rule{
			from("app == 'web'", tcp(policy.PortNumber(5432))),
		}, Egress: []policy.Rule{{Action: policy.Allow, NotProtocol: policy.ProtocolSCTP}}},
		&policy.NetworkSet{Name: "offices", Labels: map[string]string{"app": "front"}, Nets: policy.Nets{
			netip.MustParsePrefix("203.0.113.0/24"),
		}},
		&policy.Node{Name: node, Addresses: []netip.Prefix{
			netip.MustParsePrefix("10.0.0.250/24"), netip.MustParsePrefix("fd00::250/64"),
		}},
	)
	return w
}

// mutant changes a table. It returns false if it cannot change the table.
type mutant func(*ruleset.Table) bool

// eachRule calls change for the rules of the chains whose names have the prefix, until it returns
// true.
func eachRule(begin string, change func(c *ruleset.Chain, i int) bool) mutant {
	return func(t *ruleset.Table) bool {
		for _, c := range t.Chains {
			for i := range c.Rules {
				if strings.HasPrefix(c.Name, begin) && change(c, i) {
					return true
				}
			}
		}
		return false
	}
}

func deleted(begin, comment string) mutant {
	return eachRule(begin, func(c *ruleset.Chain, i int) bool {
		if !strings.Contains(c.Rules[i].Comment, comment) {
			return false
		}
		c.Rules = slices.Delete(c.Rules, i, i+1)
		return true
	})
}

// value changes the value of a comparison of a field.
func value(f ruleset.Field, from, to ruleset.Value) mutant {
	return eachRule("", func(c *ruleset.Chain, i int) bool {
		for j, m := range c.Rules[i].Matches {
			switch m := m.(type) {
			case ruleset.Compare:
				if m.Field == f && bytes.Equal(m.Value, from) && m.Mask == nil {
					m.Value = to
					c.Rules[i].Matches[j] = m
					return true
				}
			case ruleset.In:
				for k, e := range m.Elements {
					if slices.Contains(m.Fields, f) && bytes.Equal(e.Key[slices.Index(m.Fields, f)], from) {
						m.Elements[k].Key[slices.Index(m.Fields, f)] = to
						return true
					}
				}
			}
		}
		return false
	})
}

// last changes the end of a range of a field.
func last(f ruleset.Field, from, to ruleset.Value) mutant {
	return eachRule("", func(c *ruleset.Chain, i int) bool {
		for j, m := range c.Rules[i].Matches {
			if m, ok := m.(ruleset.Compare); ok && m.Field == f && bytes.Equal(m.Last, from) {
				m.Last = to
				c.Rules[i].Matches[j] = m
				return true
			}
		}
		return false
	})
}

// elements changes the elements of the first set whose name has the prefix and whose elements
// change.
func elements(begin string, change func(list []ruleset.Element) ([]ruleset.Element, bool)) mutant {
	return func(t *ruleset.Table) bool {
		for _, s := range t.Sets {
			if !strings.HasPrefix(s.Name, begin) {
				continue
			}
			if list, ok := change(s.Elements); ok {
				s.Elements = list
				return true
			}
		}
		return false
	}
}

func none([]ruleset.Element) ([]ruleset.Element, bool) { return nil, true }

func without(key ruleset.Value) func([]ruleset.Element) ([]ruleset.Element, bool) {
	return func(list []ruleset.Element) ([]ruleset.Element, bool) {
		n := len(list)
		list = slices.DeleteFunc(list, func(e ruleset.Element) bool { return bytes.Equal(e.Key[0], key) })
		return list, len(list) < n
	}
}

// swapped exchanges the verdicts of two keys.
func swapped(a, b ruleset.Value) func([]ruleset.Element) ([]ruleset.Element, bool) {
	return func(list []ruleset.Element) ([]ruleset.Element, bool) {
		at := func(key ruleset.Value) int {
			return slices.IndexFunc(list, func(e ruleset.Element) bool { return bytes.Equal(e.Key[0], key) })
		}
		i, j := at(a), at(b)
		if i < 0 || j < 0 {
			return nil, false
		}
		list[i].Verdict, list[j].Verdict = list[j].Verdict, list[i].Verdict
		return list, true
	}
}

func addr(text string) ruleset.Value { return ruleset.Addr(netip.MustParseAddr(text)) }

// moved gives an element that begins at a key another range.
func moved(from, first, end string) func([]ruleset.Element) ([]ruleset.Element, bool) {
	return func(list []ruleset.Element) ([]ruleset.Element, bool) {
		i := slices.IndexFunc(list, func(e ruleset.Element) bool { return bytes.Equal(e.Key[0], addr(from)) })
		if i < 0 {
			return nil, false
		}
		list[i].Key, list[i].Last = []ruleset.Value{addr(first)}, addr(end)
		return list, true
	}
}

// added adds an element like another, with the key.
func added(like, key string) func([]ruleset.Element) ([]ruleset.Element, bool) {
	return func(list []ruleset.Element) ([]ruleset.Element, bool) {
		i := slices.IndexFunc(list, func(e ruleset.Element) bool { return bytes.Equal(e.Key[0], addr(like)) })
		if i < 0 {
			return nil, false
		}
		e := list[i]
		e.Key = []ruleset.Value{addr(key)}
		if e.Last != nil {
			e.Last = addr(key)
		}
		list = append(list, e)
		slices.SortFunc(list, func(a, b ruleset.Element) int { return bytes.Compare(a.Key[0], b.Key[0]) })
		return list, true
	}
}

// port changes a port in the last part of a key.
func port(from, to uint16) func([]ruleset.Element) ([]ruleset.Element, bool) {
	return func(list []ruleset.Element) ([]ruleset.Element, bool) {
		for i, e := range list {
			if n := len(e.Key) - 1; bytes.Equal(e.Key[n], ruleset.Port(from)) {
				list[i].Key = append(slices.Clone(e.Key[:n]), ruleset.Port(to))
				if e.Ends != nil {
					list[i].Ends = append(slices.Clone(e.Ends[:n]), ruleset.Port(to))
				}
				return list, true
			}
		}
		return nil, false
	}
}

// mutants returns changes of the shop's table. Each changes the verdict of some packet.
func mutants() map[string]mutant {
	way1, way2, way3 := ruleset.Ifname("way1"), ruleset.Ifname("way2"), ruleset.Ifname("way3")
	return map[string]mutant{
		"an address is missing in a set":      elements("", without(addr("10.0.1.2"))),
		"an IPv6 address is missing":          elements("", without(addr("fd00::1:2"))),
		"an address too many in a set":        elements("", added("10.0.1.2", "10.77.0.1")),
		"an IPv6 address too many":            elements("", added("fd00::1:2", "fd77::1")),
		"a prefix ends too early":             elements("", moved("203.0.113.0", "203.0.113.0", "203.0.113.254")),
		"a prefix begins too late":            elements("", moved("203.0.113.0", "203.0.113.1", "203.0.113.255")),
		"a prefix ends too late":              elements("", moved("198.51.100.0", "198.51.100.0", "198.51.100.128")),
		"a prefix is of half the length":      elements("", moved("192.0.2.0", "192.0.2.0", "192.0.2.127")),
		"an endpoint sends by another chain":  elements("senders", swapped(way1, way3)),
		"equal endpoints' chains are swapped": elements("senders", swapped(way1, way2)),
		"an endpoint receives by another":     elements("receivers", swapped(way1, way3)),
		"an endpoint cannot send":             elements("senders", without(way2)),
		"an endpoint cannot receive":          elements("receivers", without(way2)),
		"the epoch lacks a family":            elements("epoch", without(ruleset.Byte(ruleset.NFProtoIPv6))),
		"the epoch is empty":                  elements("epoch", none),
		"a port range is too long":            last(ruleset.Dport, ruleset.Port(90), ruleset.Port(91)),
		"a port range is too short":           last(ruleset.Dport, ruleset.Port(90), ruleset.Port(89)),
		"a port range begins too early":       value(ruleset.Dport, ruleset.Port(80), ruleset.Port(79)),
		"a named port is another":             elements("", port(9100, 9101)),
		"a port is another":                   value(ruleset.Dport, ruleset.Port(5432), ruleset.Port(5433)),
		"a protocol is another":               value(ruleset.L4Proto, ruleset.Byte(132), ruleset.Byte(136)),
		"an ICMP type is another":             value(ruleset.ICMPType, ruleset.Byte(8), ruleset.Byte(9)),
		"an ICMP code is another":             value(ruleset.ICMPCode, ruleset.Byte(0), ruleset.Byte(1)),
		"a code point is another":             value(ruleset.IPDSCP, ruleset.Byte(46), ruleset.Byte(47)),
		"a source is another":                 value(ruleset.IPSaddr, addr("10.0.0.1"), addr("10.0.0.9")),
		"false sources pass":                  deleted("from/", "false source"),
		"VXLAN passes":                        deleted("workload-sends", "VXLAN"),
		"IP in IP passes":                     deleted("workload-sends", "IP in IP"),
		"the host can be reached":             deleted("endpoint-to-host", "workload to its host"),
		"policy of senders is skipped":        skipped("sender"),
		"policy of receivers is skipped":      skipped("receiver"),
		"a rule of policy is missing": eachRule("", func(c *ruleset.Chain, i int) bool {
			name := strings.HasPrefix(c.Name, "outcome-ingress") || strings.HasPrefix(c.Name, "pol-ingress")
			if !name || len(c.Rules[i].Matches) == 0 {
				return false
			}
			c.Rules = slices.Delete(c.Rules, i, i+1)
			return true
		}),
		"a decision is the opposite": eachRule("", func(c *ruleset.Chain, i int) bool {
			if !strings.HasPrefix(c.Name, "outcome-ingress") && !strings.HasPrefix(c.Name, "pol-ingress") {
				return false
			}
			for j, s := range c.Rules[i].Statements {
				if a, ok := s.(ruleset.Assign); ok && a.Field == ruleset.Priority && a.Value != 0 {
					a.Value ^= 0x40000000
					c.Rules[i].Statements[j] = a
					return true
				}
			}
			return false
		}),
	}
}

// skipped deletes the jumps of the base chain to policy of one side.
func skipped(side string) mutant {
	return eachRule("forward", func(c *ruleset.Chain, i int) bool {
		v, ok := c.Rules[i].Statements[len(c.Rules[i].Statements)-1].(ruleset.Verdict)
		if c.Name != "forward" || !ok || v.Chain != side {
			return false
		}
		c.Rules = slices.Delete(c.Rules, i, i+1)
		return true
	})
}

// TestMutants changes the table in one place. Table must find each change, with lookups and with
// chains if the change is possible there.
func TestMutants(t *testing.T) {
	w := shop()
	forms := nfttest.Forms()
	for _, classes := range forms {
		r := proved(t, w, rendered(t, render.Config{Classes: classes}, w))
		require.True(t, r.Agrees(), "%s", r)
		require.True(t, r.Complete)
		require.Equal(t, 3, r.Endpoints)
		require.Equal(t, 2, r.Groups)
	}
	for name, change := range mutants() {
		t.Run(name, func(t *testing.T) {
			found := 0
			for _, classes := range forms {
				table := rendered(t, render.Config{Classes: classes}, w)
				if !change(table) {
					continue
				}
				r, err := prove.Table(t.Context(), prove.Config{World: w, Node: node, Table: table, Limit: 1})
				require.NoError(t, err)
				require.False(t, r.Agrees(), "%s", table)
				require.Len(t, r.Differences, 1)
				require.NotEmpty(t, r.Differences[0].Steps)
				found++
			}
			require.Positive(t, found, "no table has it")
		})
	}
}
