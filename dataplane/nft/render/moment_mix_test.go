// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// mix is the table as a packet sees it that entered a base chain before a change and is looked up
// in sets after it. The packet uses the old rules of the base chain. It uses the old rules of other
// chains after one transaction, and the new ones after two. Each set has its old or its new
// elements. The old set epoch is empty. The chain with -again has the new rules and sets. It is
// empty if the change deletes it.
type mix struct {
	*rand.Rand
	first, second *ruleset.Table
	twice         bool
}

const mixed = "mixed-"

// of returns a table with one base chain of the first state and its chain with -again.
func (m *mix) of(base *ruleset.Chain) *ruleset.Table {
	out := &ruleset.Table{Family: m.second.Family, Name: m.second.Name, Sets: slices.Clone(m.second.Sets)}
	seen := map[string]bool{}
	for _, s := range slices.Concat(m.first.Sets, m.second.Sets) {
		if !seen[s.Name] {
			seen[s.Name] = true
			out.Sets = append(out.Sets, m.set(s.Name))
		}
	}
	for _, c := range m.second.Chains {
		if c.Hook == nil || c.Name == base.Name+"-again" {
			out.Chains = append(out.Chains, c)
			seen["chain "+c.Name] = c.Hook != nil
		}
	}
	rules, others := m.first.Chains, m.second.Chains
	if m.twice {
		rules, others = others, rules
	}
	for i, c := range slices.Concat(rules, others) {
		if seen["chain "+c.Name] || c.Hook != nil && c.Name != base.Name+"-again" {
			continue
		}
		seen["chain "+c.Name] = true
		moved := &ruleset.Chain{Name: mixed + c.Name, Hook: c.Hook}
		if i < len(rules) && c.Hook == nil {
			moved.Rules = m.rules(c.Rules)
		}
		out.Chains = append(out.Chains, moved)
	}
	out.Chains = append(out.Chains, &ruleset.Chain{Name: base.Name, Hook: base.Hook, Rules: m.rules(base.Rules)})
	return out
}

func find(t *ruleset.Table, name string) *ruleset.Set {
	i := slices.IndexFunc(t.Sets, func(s *ruleset.Set) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return t.Sets[i]
}

// set returns the set as the packet sees it.
func (m *mix) set(name string) *ruleset.Set {
	old, now := find(m.first, name), find(m.second, name)
	var out ruleset.Set
	switch {
	case old == nil:
		out = *now
	case now == nil:
		out = *old
		if !out.DeleteAfterGrace && m.IntN(2) == 0 {
			out.Elements = nil
		}
	case m.IntN(2) == 0:
		out = *old
	default:
		out = *now
	}
	if name == "epoch" {
		out.Elements = nil
	}
	out.Name = mixed + name
	out.Elements = slices.Clone(out.Elements)
	for i := range out.Elements {
		if v := out.Elements[i].Verdict; v != nil && v.Chain != "" {
			out.Elements[i].Verdict = &ruleset.Verdict{Kind: v.Kind, Chain: mixed + v.Chain}
		}
	}
	return &out
}

// rules returns rules that use the mixed chains and sets.
func (m *mix) rules(rules []ruleset.Rule) (out []ruleset.Rule) {
	for _, r := range rules {
		r.Matches, r.Statements = slices.Clone(r.Matches), slices.Clone(r.Statements)
		for i, one := range r.Matches {
			if in, ok := one.(ruleset.Lookup); ok {
				in.Set = mixed + in.Set
				r.Matches[i] = in
			}
		}
		for i, st := range r.Statements {
			switch st := st.(type) {
			case ruleset.Verdict:
				if st.Chain != "" {
					st.Chain = mixed + st.Chain
				}
				r.Statements[i] = st
			case ruleset.VMap:
				if st.Map != "" {
					st.Map = mixed + st.Map
				}
				r.Statements[i] = st
			case ruleset.Assign:
				if st.Map != "" {
					st.Map = mixed + st.Map
				}
				r.Statements[i] = st
			}
		}
		out = append(out, r)
	}
	return out
}

// alone returns the table with one base chain and its chain with -again.
func alone(t *ruleset.Table, name string) *ruleset.Table {
	some := *t
	some.Chains = slices.DeleteFunc(slices.Clone(t.Chains), func(c *ruleset.Chain) bool {
		return c.Hook != nil && c.Name != name && c.Name != name+"-again"
	})
	return &some
}

// packetAt returns the packet of a flow at a hook. ok is false if it does not traverse the hook.
func packetAt(
	c *nfttest.Cluster, hook ruleset.HookPoint, f verdict.Flow, from, to nfttest.FlowEnd,
) (p simPacket, ok bool) {
	before, after := packetsOf(f, from, to)
	switch hook {
	case ruleset.Prerouting:
		return before, !from.Own
	case ruleset.Output:
		return before, from.Own
	case ruleset.Input:
		after.OIF = ""
		return after, to.Own
	case ruleset.Forward:
		return after, !from.Own && !to.Own
	default:
		return after, !to.Own
	}
}

// S173: during the change, no packet passes that both states deny. A packet that both allow is lost
// only if endpoints change, a host endpoint gets or loses a list, or two transactions are made.
// Each base chain is tested separately.
func TestMixesOfTwoStates(t *testing.T) { nfttest.EachFormInParallel(t, testMixesOfTwoStates) }

func testMixesOfTwoStates(t *testing.T, classes render.ClassesConfig) {
	worlds, forbidden, allowed := worldFlags.Seeds(40, 6), 0, 0
	for _, seed := range worlds {
		c := nfttest.NewCluster(t, seed, classes)
		for range 40 {
			c.Mutate()
		}
		c.Renderer.Update(c.Graph.Flush())
		first, _ := c.Renderer.Table()
		for step := range 4 {
			endpoints := step%2 == 0
			changeCluster(c, endpoints)
			c.Renderer.Update(c.Graph.Flush())
			second, _ := c.Renderer.Table()
			a, b := mixesOf(c, t, first, second, endpoints, seed)
			forbidden, allowed = forbidden+a, allowed+b
			first = second
		}
	}
	t.Logf("%d forbidden, %d allowed", forbidden, allowed)
	require.Greater(t, min(forbidden, allowed), 50*len(worlds))
}

// changeCluster makes some changes, to endpoints only if that is set. Sometimes it removes all host
// endpoints.
func changeCluster(c *nfttest.Cluster, endpoints bool) {
	for range 1 + c.IntN(8) {
		if endpoints {
			c.Mutate()
			continue
		}
		u := c.Gen.Update()
		for u.Key.Kind != policy.KindPolicy && u.Key.Kind != policy.KindProfile && u.Key.Kind != policy.KindNetworkSet {
			u = c.Gen.Update()
		}
		if p, ok := u.Resource.(*policy.Policy); ok {
			c.ForHosts(p)
		}
		c.Update(u)
	}
	if endpoints && c.IntN(3) == 0 {
		for i := range 4 {
			c.Update(policy.Update{Key: policy.Key{Kind: policy.KindHostEndpoint, Name: fmt.Sprintf("h%d", i)}})
		}
	}
}

// mixesOf runs packets through mixes of two states, and returns how many both deny and both allow.
func mixesOf(c *nfttest.Cluster,
	t *testing.T, first, second *ruleset.Table, endpoints bool, seed uint64,
) (forbidden, allowed int) {
	t.Helper()
	e, err := verdict.NewConfigured(c.Resources, c.Settings)
	require.NoError(t, err)
	workloads := c.Workloads(e)
	sim := func(table *ruleset.Table) *simulate.Simulator {
		s, err := simulate.New(simulate.Config{Table: table})
		require.NoError(t, err)
		return s
	}
	loses := endpoints || !slices.Equal(hostChainsOf(first), hostChainsOf(second))
	for _, base := range first.Chains {
		if base.Hook == nil || base.Hook.Type == ruleset.HookNAT || strings.HasSuffix(base.Name, "-again") {
			continue
		}
		was, is := sim(alone(first, base.Name)), sim(alone(second, base.Name))
		for i := range 4 {
			m := &mix{Rand: c.Rand, first: first, second: second, twice: i%2 == 0}
			table := m.of(base)
			during := sim(table)
			for range 30 {
				f, from, to := c.Flow(workloads)
				p, ok := packetAt(c, base.Hook.Point, f, from, to)
				if !ok {
					continue
				}
				if c.IntN(6) == 0 {
					p.CT = ruleset.CtUntracked
				}
				p.Priority = nfttest.Pick(c.World, []uint32{0, 0, 1, 6, 99, 1 << 30, 0xbffffffc, 0xffffff00})
				before, after := p.Run(t, was, base.Hook.Point).Allowed, p.Run(t, is, base.Hook.Point).Allowed
				got := p.Run(t, during, base.Hook.Point).Allowed
				switch {
				case before != after:
					continue
				case before:
					allowed++
				default:
					forbidden++
				}
				if got == before || before && (loses || m.twice) {
					continue
				}
				require.Equal(t, before, got, "seed %d: %s, twice %v, %v\nfirst %s\nsecond %s\nmixed %s", seed,
					base.Name, m.twice, p, alone(first, base.Name), alone(second, base.Name), table)
			}
		}
	}
	return forbidden, allowed
}

// hostChainsOf returns the names of the chains of host endpoints.
func hostChainsOf(t *ruleset.Table) (names []string) {
	for _, c := range t.Chains {
		if strings.HasPrefix(c.Name, "host-") {
			names = append(names, c.Name)
		}
	}
	return names
}

// S173: policy of workloads or of a host endpoint changes. A packet that both states allow is not
// lost if an element leads it to a new chain, which is empty for it.
func TestMixWithNewOutcomes(t *testing.T) {
	workload := func(port uint16) dptest.State {
		s := tiersState()
		web := *s.Policies[nfttest.PolicyKey("web")]
		web.Ingress = slices.Clone(web.Ingress)
		web.Ingress[0].Destination.Ports = nfttest.PortList(policy.PortNumber(80), policy.PortNumber(port))
		s.Policies[nfttest.PolicyKey("web")] = &web
		return s
	}
	host := func(port uint16) dptest.State {
		s := workload(port)
		s.Endpoints = nil
		s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "eth0"}] = &dataplane.HostEndpoint{
			Interface: "eth0", ForwardIngress: []dataplane.TierPolicies{{
				Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{nfttest.PolicyKey("web")},
			}},
		}
		s.Policies[nfttest.PolicyKey("web")].Forward = true
		return s
	}
	for name, state := range map[string]func(uint16) dptest.State{"workload": workload, "host endpoint": host} {
		for _, reject := range []bool{false, true} {
			first, errs1 := nfttest.Rendered(t, render.Config{Reject: reject}, nfttest.Transition(state(81)))
			second, errs2 := nfttest.Rendered(t, render.Config{Reject: reject}, nfttest.Transition(state(82)))
			require.Empty(t, append(errs1, errs2...))
			base := first.Chains[slices.IndexFunc(
				first.Chains, func(c *ruleset.Chain) bool { return c.Name == "forward" },
			)]
			packet := simulate.Packet{
				IIFName: "eth0", OIFName: "way1", Src: netip.MustParseAddr("10.0.1.1"),
				Dst: netip.MustParseAddr("10.0.0.1"), Protocol: uint8(policy.ProtocolTCP), DstPort: 80,
			}
			if name == "host endpoint" {
				packet.OIFName = "eth1"
			}
			empty := 0
			for seed := range uint64(40) {
				m := &mix{Rand: rand.New(rand.NewPCG(seed, 1)), first: first, second: second}
				during, err := simulate.New(simulate.Config{Table: m.of(base)})
				require.NoError(t, err)
				r, err := during.Trace(ruleset.Forward, packet, simulate.Conn{})
				require.NoError(t, err)
				require.Equal(t, ruleset.Accept, r.Verdict, "%s, seed %d", name, seed)
				steps := fmt.Sprint(r)
				if strings.Contains(steps, "endpoint down") || strings.Contains(steps, "being changed") {
					empty++
				}
			}
			require.Positive(t, empty, "%s: packets for which a new chain was empty", name)
		}
	}
}

// S173: the last host endpoint with addresses is removed. No packet is lost at an interface that it
// did not govern.
func TestMixWithoutAddresses(t *testing.T) {
	key := nfttest.PolicyKey("p")
	with := nfttest.InSync()
	with.Policies[key] = &dataplane.Policy{Ingress: []dataplane.Rule{nfttest.AllowAll("all")}}
	without := with
	without.HostEndpoints = nil
	with.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}] = &dataplane.HostEndpoint{
		Addresses: nfttest.Addresses("10.1.0.1"), Ingress: []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key},
		}},
	}
	var tables []*ruleset.Table
	for _, s := range []dptest.State{with, without} {
		r, err := render.New(render.Config{})
		require.NoError(t, err)
		r.SetInterfaces(map[string]render.Interface{
			"eth1": {Addresses: nfttest.Addresses("10.1.0.1")}, "eth2": {Addresses: nfttest.Addresses("10.2.0.1")},
		})
		r.Update(nfttest.Transition(s))
		table, errs := r.Table()
		require.Empty(t, errs)
		tables = append(tables, table)
	}
	first, second := tables[0], tables[1]
	base := first.Chains[slices.IndexFunc(first.Chains, func(c *ruleset.Chain) bool { return c.Name == "input" })]
	packet := simPacket{
		IIF: "eth2", Src: nfttest.Addresses("10.0.1.1")[0], Dst: nfttest.Addresses("10.2.0.1")[0],
		Proto: uint8(policy.ProtocolTCP), Transport: nfttest.Ports(1000, 80), CT: ruleset.CtNew,
	}
	for seed := range uint64(20) {
		m := &mix{Rand: rand.New(rand.NewPCG(seed, 1)), first: first, second: second}
		during, err := simulate.New(simulate.Config{Table: m.of(base)})
		require.NoError(t, err)
		require.True(t, packet.Run(t, during, ruleset.Input).Allowed, "seed %d", seed)
	}
}

// S173: the first endpoint whose interface lacks the prefix is added, and is down. An endpoint that
// was down becomes up in the same change. No packet of a known connection passes between the two.
func TestMixOfFirstOtherName(t *testing.T) { nfttest.EachForm(t, testMixOfFirstOtherName) }

func testMixOfFirstOtherName(t *testing.T, classes render.ClassesConfig) {
	state := func(down, other bool) *ruleset.Table {
		s := nfttest.InSync()
		s.Profiles["all"] = &dataplane.Profile{
			Ingress: []dataplane.Rule{nfttest.AllowAll("in")}, Egress: []dataplane.Rule{nfttest.AllowAll("out")},
		}
		put := func(name, address string, down bool) {
			s.Endpoints[nfttest.EndpointKey(name)] = &dataplane.Endpoint{
				Interface: name, Addresses: nfttest.Addresses(address), Profiles: []string{"all"}, Down: down,
			}
		}
		if put("way1", "10.0.0.1", down); other {
			put("pod2", "10.0.0.2", true)
		}
		table, errs := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(s))
		require.Empty(t, errs)
		return table
	}
	first, second := state(true, false), state(false, true)
	find := func(table *ruleset.Table, name string) *ruleset.Chain {
		return table.Chains[slices.IndexFunc(table.Chains, func(c *ruleset.Chain) bool { return c.Name == name })]
	}
	sim := func(table *ruleset.Table) *simulate.Simulator {
		s, err := simulate.New(simulate.Config{Table: table})
		require.NoError(t, err)
		return s
	}
	in := simPacket{
		IIF: "pod2", OIF: "way1", Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.0.1"),
		Proto: 17, Transport: nfttest.Ports(1, 2), CT: ruleset.CtEstablished,
	}
	out := in
	out.IIF, out.OIF, out.Src, out.Dst = in.OIF, in.IIF, in.Dst, in.Src
	for _, p := range []simPacket{in, out} {
		for _, table := range []*ruleset.Table{first, second} {
			require.False(t, p.Run(t, sim(alone(table, "forward")), ruleset.Forward).Allowed)
		}
		for i := range 64 {
			m := &mix{Rand: rand.New(rand.NewPCG(1, uint64(i))), first: first, second: second, twice: i%2 == 0}
			require.False(t, p.Run(t, sim(m.of(find(first, "forward"))), ruleset.Forward).Allowed, "%v, mix %d", p, i)
		}
	}
}
