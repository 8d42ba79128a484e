// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy/verdict"
)

// addressClass is a class of addresses that neither policy nor the table can distinguish.
type addressClass struct {
	// addr stands for all addresses of the class. It is an ordinary address if the class has one.
	addr netip.Addr
}

// sum is a hash of a set of tests. It is the sum of the hashes of the tests, so that tests can be
// added and removed.
type sum [2]uint64

func (s sum) plus(o sum) sum  { return sum{s[0] + o[0], s[1] + o[1]} }
func (s sum) minus(o sum) sum { return sum{s[0] - o[0], s[1] - o[1]} }

// edge is an address from which on addresses satisfy other tests than the addresses before it.
type edge struct {
	addr  netip.Addr
	delta sum
}

// addressTests collects the tests on addresses that the rules and sets of a table contain.
type addressTests struct {
	seeds   [2]maphash.Seed
	edges   []edge
	buf     []byte
	unknown []string // tests that are not ranges of addresses
}

func newAddressTests() *addressTests {
	return &addressTests{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// table collects the tests of a table. If the key of an element has further parts, these parts
// belong to the test. An address satisfies the test if the address part of the key contains it.
func (t *addressTests) table(table *ruleset.Table) {
	for _, s := range table.Sets {
		t.elements("set "+s.Name, s.Key, s.Elements)
	}
	for _, c := range table.Chains {
		for i := range c.Rules {
			r := &c.Rules[i]
			for j, m := range r.Matches {
				switch m := m.(type) {
				case ruleset.Compare:
					t.compare(m)
				case ruleset.In:
					t.elements(fmt.Sprint("rule ", c.Name, i, j), typesOf(m.Fields), m.Elements)
				}
			}
			for _, s := range r.Statements {
				if m, ok := s.(ruleset.VMap); ok && m.Map == "" {
					t.elements(fmt.Sprint("rule ", c.Name, i), typesOf(m.Fields), m.Elements)
				}
			}
		}
	}
}

func typesOf(fields []ruleset.Field) []ruleset.Type {
	types := make([]ruleset.Type, len(fields))
	for i, f := range fields {
		types[i] = f.Type()
	}
	return types
}

func isAddress(t ruleset.Type) bool { return t == ruleset.TypeIPv4 || t == ruleset.TypeIPv6 }

func (t *addressTests) elements(name string, key []ruleset.Type, elements []ruleset.Element) {
	for part, typ := range key {
		if !isAddress(typ) {
			continue
		}
		for i := range elements {
			e := &elements[i]
			t.buf = append(fmt.Appendf(t.buf[:0], "%d %q", part, name), 0)
			for j, v := range e.Key {
				if j != part {
					t.buf = fmt.Appendf(t.buf, " %x-%x", v, e.End(j))
				}
			}
			t.buf = fmt.Appendf(t.buf, " %x", e.Data)
			if e.Verdict != nil {
				t.buf = fmt.Appendf(t.buf, " %d %q", e.Verdict.Kind, e.Verdict.Chain)
			}
			t.add(e.Key[part], e.End(part))
		}
	}
}

func (t *addressTests) compare(m ruleset.Compare) {
	if !isAddress(m.Field.Type()) {
		return
	}
	first, last := m.Value, m.Last
	if last == nil {
		last = first
	}
	if m.Mask != nil {
		last = slices.Clone(first)
		for i, b := range m.Mask {
			last[i] |= ^b
			if inverse := ^b; inverse&(inverse+1) != 0 || i > 0 && m.Mask[i-1] != 0xff && b != 0 {
				t.unknown = append(t.unknown, fmt.Sprintf("%s under the mask %x", m.Field, m.Mask))
				return
			}
		}
	}
	t.buf = fmt.Appendf(t.buf[:0], "compare %x-%x", first, last)
	t.add(first, last)
}

// add adds the test in t.buf. The addresses from first to last satisfy it.
func (t *addressTests) add(first, last ruleset.Value) {
	from, ok := netip.AddrFromSlice(first)
	to, ok2 := netip.AddrFromSlice(last)
	if !ok || !ok2 {
		return // no address equals such a value
	}
	s := sum{maphash.Bytes(t.seeds[0], t.buf), maphash.Bytes(t.seeds[1], t.buf)}
	t.edges = append(t.edges, edge{from, s})
	if next := to.Next(); next.IsValid() {
		t.edges = append(t.edges, edge{next, sum{}.minus(s)})
	}
}

// prefix adds the edges of a prefix that is no test of the table.
func (t *addressTests) prefix(p netip.Prefix) {
	t.edges = append(t.edges, edge{addr: p.Addr()})
	if next := ruleset.LastAddr(p).Next(); next.IsValid() {
		t.edges = append(t.edges, edge{addr: next})
	}
}

// special returns prefixes whose addresses are no ordinary senders and receivers.
func special() []netip.Prefix {
	var list []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/127", "fe80::/10", "ff00::/8",
	} {
		p, err := netip.ParsePrefix(text)
		if err == nil {
			list = append(list, p)
		}
	}
	return list
}

// classes divides all addresses at the edges. The addresses between two edges belong to the same
// class of the policies and satisfy the same tests. Pieces with equal classes and tests are one
// class. classes also fills index with the class of each of the index's addresses.
func (t *addressTests) classes(
	ctx context.Context, policies *verdict.AddressClasses, index map[netip.Addr]int,
) ([]addressClass, error) {
	unusual := special()
	for p := range policies.Prefixes() {
		t.prefix(p)
	}
	for _, p := range unusual {
		t.prefix(p)
	}
	for a := range maps.Keys(index) {
		t.prefix(netip.PrefixFrom(a, a.BitLen()))
	}
	t.edges = append(t.edges, edge{addr: netip.IPv4Unspecified()}, edge{addr: netip.IPv6Unspecified()})
	slices.SortFunc(t.edges, func(a, b edge) int { return a.addr.Compare(b.addr) })

	var classes []addressClass
	var ordinary []bool
	known := map[string]int{}
	var now sum
	var key []byte
	for i := 0; i < len(t.edges); {
		addr := t.edges[i].addr
		if addr == netip.IPv6Unspecified() {
			now = sum{}
		}
		for ; i < len(t.edges) && t.edges[i].addr == addr; i++ {
			now = now.plus(t.edges[i].delta)
		}
		if err := ctx.Err(); err != nil && len(known)%64 == 0 {
			return nil, err
		}
		key = fmt.Appendf(key[:0], "%d %x %x ", addr.BitLen(), now[0], now[1])
		key = policies.AppendClass(key, addr)
		usual := !slices.ContainsFunc(unusual, func(p netip.Prefix) bool { return p.Contains(addr) })
		n, found := known[string(key)]
		switch {
		case !found:
			n = len(classes)
			known[string(key)] = n
			classes, ordinary = append(classes, addressClass{addr}), append(ordinary, usual)
		case usual && !ordinary[n]:
			classes[n].addr, ordinary[n] = addr, true
		}
		if _, wanted := index[addr]; wanted {
			index[addr] = n
		}
	}
	t.edges = nil
	return classes, nil
}
