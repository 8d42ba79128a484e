// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

var fullClasses = flag.Bool("full", false, "run the tests of many classes at full size")

// manyWorld has many classes of addresses. All policies apply to one endpoint of the node.
type manyWorld struct {
	*nfttest.Cluster
	t *testing.T
	// bits is the number of policies with a selector. Policy i selects the endpoints in whose
	// number bit i is set. So each endpoint of another node has classes of its own.
	bits int
	// lists is the number of policies with a list of prefixes. The prefixes are nested. Each prefix
	// and the next wider one are in different lists.
	lists int
	// samePort gives all policies one port, so most outcomes are equal.
	samePort bool
}

const manyNode = "there"

func newManyWorld(t *testing.T, limits render.ClassesConfig, w manyWorld) *manyWorld {
	w.Cluster, w.t = nfttest.NewNode(t, render.Config{LogRate: -1, Classes: limits}), t
	w.World = nfttest.NewWorld(1, 77)
	return &w
}

// port returns the port of a policy.
func (w *manyWorld) port(i int) uint16 {
	if w.samePort {
		return 1000
	}
	return 1000 + 2*uint16(i)
}

func (w *manyWorld) policy(i int, from policy.EntityRule) *policy.Policy {
	r := policy.Rule{
		Action: policy.Allow, Protocol: policy.ProtocolTCP, Source: from,
		Destination: policy.EntityRule{Ports: nfttest.PortList(policy.PortNumber(w.port(i)))},
	}
	p := &policy.Policy{
		Name: fmt.Sprintf("p-%03d", i), Selector: "app == 'judged'", Types: []policy.Type{policy.Ingress},
		Ingress: []policy.Rule{r},
	}
	if i%5 == 4 { // it denies the port of an earlier policy
		p.Ingress[0].Action = policy.Deny
		p.Ingress[0].Destination.Ports = nfttest.PortList(policy.PortNumber(w.port(i + 1)))
	}
	return p
}

// hostAddrs returns the addresses of an endpoint of the other node. Some prefixes contain some of
// them.
func hostAddrs(n int) []netip.Addr {
	v6 := netip.MustParseAddr("fd00::a40:0:0").As16()
	v6[14], v6[15] = byte(n>>8), byte(n)
	return []netip.Addr{netip.AddrFrom4([4]byte{10, 64, byte(n >> 8), byte(n)}), netip.AddrFrom16(v6)}
}

// nested returns a list of prefixes that is part of a world of a size.
func (w *manyWorld) nested(list, size int) (out policy.Nets) {
	for _, center := range nfttest.Addresses("10.64.0.5", "10.65.128.0", "fd00::a40:0:5", "fd80::") {
		for n := range min(size, center.BitLen()-7) {
			length := 8 + n
			if center.Is6() && n > 0 {
				length = max(8, 128-3*n)
			}
			if (n+int(center.AsSlice()[1]))%w.lists == list {
				out = append(out, netip.PrefixFrom(center, length).Masked())
			}
		}
	}
	return out
}

// resources returns the world with a number of endpoints and of prefixes.
func (w *manyWorld) resources(hosts, prefixes int) verdict.World {
	out := verdict.World{}
	add := func(r policy.Resource) { out[r.Key()] = r }
	add(&policy.WorkloadEndpoint{
		Name: "judged", Node: worlds.Node, Interface: "way1", Labels: map[string]string{"app": "judged"},
		Addresses: nfttest.Addresses("192.0.2.9", "2001:db8::9"),
	})
	for i := range w.bits {
		add(w.policy(i, policy.EntityRule{Selector: fmt.Sprintf("has(b%d)", i)}))
	}
	for i := range w.lists {
		if nets := w.nested(i, prefixes); len(nets) > 0 {
			from := policy.EntityRule{Nets: nets}
			if i%3 == 2 {
				from = policy.EntityRule{Nets: nets, NotNets: nfttest.Nets("10.64.0.0/30", "fd00::a40:0:0/126")}
			}
			add(w.policy(w.bits+i, from))
		}
	}
	for n := range hosts {
		labels := map[string]string{}
		for i := range w.bits {
			if (n+1)>>i&1 == 1 {
				labels[fmt.Sprintf("b%d", i)] = ""
			}
		}
		add(&policy.WorkloadEndpoint{
			Name: fmt.Sprintf("h-%05d", n), Node: manyNode, Interface: "way1", Labels: labels, Addresses: hostAddrs(n),
		})
	}
	return out
}

// become applies a world, and returns the number of operations.
func (w *manyWorld) become(hosts, prefixes int) (ops int) {
	next := w.resources(hosts, prefixes)
	var updates []policy.Update
	for _, k := range slices.SortedFunc(maps.Keys(w.Resources), policy.Key.Compare) {
		if next[k] == nil {
			updates = append(updates, policy.Update{Key: k})
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(next), policy.Key.Compare) {
		updates = append(updates, policy.Update{Key: k, Resource: next[k]})
	}
	ops = len(w.Play(w.t, updates))
	require.Empty(w.t, w.Faults)
	return ops
}

// sources returns an address of each class, and the addresses on both sides of each end of a
// prefix.
func (w *manyWorld) sources() (out []netip.Addr) {
	seen := map[netip.Addr]bool{}
	add := func(list ...netip.Addr) {
		for _, a := range list {
			if a.IsValid() && !seen[a] && a != netip.IPv4Unspecified() {
				seen[a] = true
				out = append(out, a)
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(w.Resources), policy.Key.Compare) {
		switch r := w.Resources[k].(type) {
		case *policy.WorkloadEndpoint:
			if r.Node == manyNode {
				add(r.Addresses...)
			}
		case *policy.Policy:
			for _, n := range slices.Concat(r.Ingress[0].Source.Nets, r.Ingress[0].Source.NotNets) {
				last := ruleset.LastAddr(n)
				add(n.Addr(), n.Addr().Prev(), last, last.Next())
			}
		}
	}
	add(nfttest.Addresses("203.0.113.1", "2001:db8:1::1")...)
	return out
}

// flow returns a flow to the endpoint, and its two ends.
func (w *manyWorld) flow(src netip.Addr, port uint16) (f verdict.Flow, from, to nfttest.FlowEnd) {
	from = nfttest.FlowEnd{Iface: "eth0", Addr: src}
	to = nfttest.FlowEnd{Iface: "way1", Addr: netip.MustParseAddr("192.0.2.9")}
	if src.Is6() {
		to.Addr = netip.MustParseAddr("2001:db8::9")
	}
	return verdict.Flow{
		Node: worlds.Node, Src: src, Dst: to.Addr, InInterface: from.Iface, OutInterface: to.Iface,
		Protocol: policy.ProtocolTCP, SrcPort: 5, DstPort: port,
	}, from, to
}

// ports returns the ports to test: of all policies in small worlds, of some policies in others.
func (w *manyWorld) ports(sources int) []uint16 {
	ports := []uint16{999}
	for i := range w.bits + w.lists + 1 {
		ports = append(ports, w.port(i))
	}
	slices.Sort(ports)
	ports = slices.Compact(ports)
	if sources > 100 {
		w.Shuffle(len(ports), func(i, j int) { ports[i], ports[j] = ports[j], ports[i] })
		ports = ports[:min(3, len(ports))]
	}
	return ports
}

// check compares the table with that of a new Renderer, and its verdicts with the reference. It
// returns the table and the numbers of flows that pass and drop.
func (w *manyWorld) check() (table *ruleset.Table, passed, denied int) {
	t := w.t
	table, errs := w.Renderer.Table()
	require.Empty(t, errs)
	fresh, err := render.New(w.Config)
	require.NoError(t, err)
	fresh.SetInterfaces(nfttest.InterfacesWith(w.Interfaces))
	fresh.Update(w.Graph.Snapshot())
	fresh.Flush()
	again, _ := fresh.Table()
	require.True(t, again.Equal(table), "the table depends on earlier states")
	require.Equal(t, fresh.ClassStats(), w.Renderer.ClassStats())
	require.Equal(t, sizes(fresh), sizes(w.Renderer), "the kept entries depend on earlier states")
	ready := newSimTable(t, table)
	e, err := verdict.NewConfigured(w.Resources, w.Settings)
	require.NoError(t, err)
	sources := w.sources()
	for _, src := range sources {
		for _, port := range w.ports(len(sources)) {
			f, from, to := w.flow(src, port)
			want := e.Evaluate(f).Combined == verdict.Allow
			got, _ := simulateFlow(t, ready, f, from, to)
			require.Equal(t, want, got, "%s\n%s", f, e.Explain(f))
			if got {
				passed++
			} else {
				denied++
			}
		}
	}
	return table, passed, denied
}

// mixes tests packets during a change from one table to the other. Packets that both deny do not
// pass. Packets that both allow pass unless two transactions are made.
func (w *manyWorld) mixes(first, second *ruleset.Table) {
	sim := func(table *ruleset.Table) *simulate.Simulator {
		s, err := simulate.New(simulate.Config{Table: table})
		require.NoError(w.t, err)
		return s
	}
	was, is := sim(alone(first, "forward")), sim(alone(second, "forward"))
	base := first.Chains[slices.IndexFunc(first.Chains, func(c *ruleset.Chain) bool { return c.Name == "forward" })]
	sources := w.sources()
	for i := range 6 {
		m := &mix{Rand: w.Rand, first: first, second: second, twice: i%2 == 0}
		during := sim(m.of(base))
		for range 60 {
			ports := w.ports(0)
			f, from, to := w.flow(sources[w.IntN(len(sources))], ports[w.IntN(len(ports))])
			_, p := packetsOf(f, from, to)
			before, after := p.Run(w.t, was, ruleset.Forward).Allowed, p.Run(w.t, is, ruleset.Forward).Allowed
			got := p.Run(w.t, during, ruleset.Forward).Allowed
			if before == after && (!before || !m.twice) {
				require.Equal(w.t, before, got, "%s, twice %v", f, m.twice)
			}
		}
	}
}

// Worlds of many classes grow beyond the limit and shrink again. Each table equals the table of a
// new Renderer, and has the verdicts of the reference. This also holds while the group becomes
// chains, or lookups again (S100, S173).
func TestManyClasses(t *testing.T) {
	full := 0
	if *fullClasses {
		full = 3
	}
	for name, c := range map[string]struct {
		world           manyWorld
		hosts, prefixes int
		limits          render.ClassesConfig
	}{
		"each address a class": {manyWorld{bits: 7 + full}, 1<<(7+full) - 1, 0, render.ClassesConfig{MaxPerGroup: 600}},
		"few outcomes": {
			manyWorld{bits: 7 + full, samePort: true}, 1<<(7+full) - 1, 0, render.ClassesConfig{MaxTotal: 300},
		},
		"prefixes":               {manyWorld{lists: 5}, 0, 25, render.ClassesConfig{MaxPerGroup: 300}},
		"prefixes, few outcomes": {manyWorld{lists: 7, samePort: true}, 0, 25, render.ClassesConfig{MaxTotal: 180}},
		"addresses and prefixes": {
			manyWorld{bits: 6 + full, lists: 4}, 1<<(6+full) - 1, 25, render.ClassesConfig{MaxPerGroup: 900},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newManyWorld(t, c.limits, c.world)
			const steps = 6
			var last *ruleset.Table
			wasChains, moves, passed, denied := false, 0, 0, 0
			for step := range 2*steps + 1 {
				part := min(step, 2*steps-step)
				w.become(c.hosts*part/steps, c.prefixes*part/steps)
				table, p, d := w.check()
				passed, denied = passed+p, denied+d
				chains := w.Renderer.ClassStats().ChainGroups > 0
				if last != nil {
					w.mixes(last, table)
				}
				if chains != wasChains {
					moves++
				}
				wasChains, last = chains, table
			}
			require.Equal(t, 2, moves, "over the limit once, and back")
			require.Greater(t, min(passed, denied), 50)
		})
	}
}
