// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/worldgen"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// cluster is a random world of one node with host endpoints, and the table that the graph and the renderer make of it.
type cluster struct {
	world
	resources  verdict.World
	settings   verdict.Config
	config     render.Config
	renderer   *render.Renderer
	state      *ruleset.State
	graph      *calcgraph.Graph
	gen        *worldgen.Gen
	interfaces map[string][]netip.Addr
	faults     []string // of the last step
}

// bounded lets every fourth world have so few classes that some of its endpoints have chains.
func bounded(classes render.ClassesConfig, seed uint64) render.ClassesConfig {
	if seed%4 == 3 {
		classes.MaxPerGroup, classes.MaxTotal = 3, 8
	}
	return classes
}

func nodeAddrs() []netip.Addr { return ips("198.51.100.1", "fdff::1", "198.51.100.9") }

// newCluster makes an empty one with random settings.
func newCluster(t *testing.T, seed uint64, classes render.ClassesConfig) *cluster {
	t.Helper()
	c := &cluster{world: world{rand.New(rand.NewPCG(seed, 1))}, resources: verdict.World{}, gen: worldgen.New(seed)}
	host := policy.HostConfig{
		EndpointToHostAction:    pick(c.world, []policy.HostAction{"", policy.HostAccept, policy.HostReturn}),
		HostToEndpointAction:    pick(c.world, []policy.HostAction{"", policy.HostDrop, policy.HostReturn}),
		KeepInvalid:             c.IntN(3) == 0,
		AllowVXLANFromWorkloads: c.IntN(4) == 0,
		AllowIPIPFromWorkloads:  c.IntN(4) == 0,
		VXLANPort:               80,
	}
	if c.IntN(3) > 0 {
		host.FailsafeInbound = []policy.Failsafe{{Protocol: policy.ProtocolTCP, Port: 80}, {
			Protocol: policy.ProtocolUDP, Port: 53, Net: netip.MustParsePrefix("10.0.0.0/24"),
		}}
		host.FailsafeOutbound = []policy.Failsafe{
			{Protocol: policy.ProtocolTCP, Port: 443, Net: netip.MustParsePrefix("fd00::/16")},
			{Protocol: policy.ProtocolUDP, Port: 53},
		}
	}
	c.state = ruleset.NewState(ruleset.FamilyINet, "wayleave")
	c.interfaces = map[string][]netip.Addr{"eth0": ips("198.51.100.1", "fdff::1"), "lo": ips("127.0.0.1")}
	if c.IntN(3) > 0 {
		c.interfaces["eth1"] = ips("198.51.100.9")
	}
	c.settings = verdict.Config{Host: host, Interfaces: map[string]map[string][]netip.Addr{worldgen.Node: c.interfaces}}
	var err error
	c.config = render.Config{
		InterfacePrefix: "wl", Host: host, LogRate: -1, NAT: render.NATConfig{Disabled: true},
		// None of these makes a difference to what gets through.
		Reject: c.IntN(4) == 0, Counters: c.IntN(4) == 0, VerdictLog: render.VerdictLog{Enabled: c.IntN(4) == 0},
		Classes: bounded(classes, seed),
	}
	c.renderer, err = render.New(c.config)
	require.NoError(t, err)
	c.renderer.SetInterfaces(interfacesWith(c.interfaces))
	c.graph, err = calcgraph.New(calcgraph.Config{Node: worldgen.Node})
	require.NoError(t, err)
	c.set(&policy.Node{Name: worldgen.Node, Addresses: nets4("198.51.100.1/24", "fdff::1/64", "198.51.100.9/24")})
	c.graph.InSync()
	return c
}

func nets4(list ...string) (out []netip.Prefix) {
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func (c *cluster) set(r policy.Resource) { c.update(policy.Update{Key: r.Key(), Resource: r}) }

func (c *cluster) update(u policy.Update) {
	c.graph.Update(u)
	if u.Resource == nil {
		delete(c.resources, u.Key)
		return
	}
	c.resources[u.Key] = u.Resource
}

// mutate changes something of the world.
func (c *cluster) mutate() {
	if c.IntN(6) == 0 {
		c.hostEndpoint()
		return
	}
	u := c.gen.Update()
	if p, ok := u.Resource.(*policy.Policy); ok {
		c.forHosts(p)
	}
	if w, ok := u.Resource.(*policy.WorkloadEndpoint); ok && c.IntN(4) == 0 {
		w.AllowSpoofedSourcePrefixes = some(c.world, 1, 2, c.prefix)
	}
	c.update(u)
}

// hostEndpoint makes, changes or removes a host endpoint.
func (c *cluster) hostEndpoint() {
	h := &policy.HostEndpoint{
		Name:          fmt.Sprintf("h%d", c.IntN(4)),
		Node:          pick(c.world, []string{worldgen.Node, worldgen.Node, worldgen.Node, "n2"}),
		InterfaceName: pick(c.world, []string{"eth0", "eth1", "*", "*", "", "wl0"}),
		Labels: map[string]string{
			"role": pick(c.world, []string{"fe", "be"}), "app": pick(c.world, []string{"web", "db"}),
		},
		Profiles: pick(c.world, [][]string{nil, {"p1"}, {"p2", "p1"}, {"gone"}}),
	}
	if h.InterfaceName == "" || c.IntN(2) == 0 {
		h.ExpectedIPs = []netip.Addr{pick(c.world, nodeAddrs())}
	}
	u := policy.Update{Key: h.Key(), Resource: h}
	if c.IntN(4) == 0 {
		u.Resource = nil
	}
	c.update(u)
}

// forHosts makes a global policy one of the kinds that count on host endpoints.
func (c *cluster) forHosts(p *policy.Policy) {
	if p.Namespace != "" {
		return
	}
	switch c.IntN(5) {
	case 0:
		p.ApplyOnForward = true
	case 1:
		p.ApplyOnForward, p.DoNotTrack = true, true
	case 2:
		p.ApplyOnForward, p.PreDNAT = true, true
		p.Types, p.Egress = []policy.Type{policy.Ingress}, nil
		for i := range p.Ingress { // what they were before NAT cannot be looked up later: less gets through then
			p.Ingress[i].Destination.Ports = slices.DeleteFunc(
				p.Ingress[i].Destination.Ports, func(p policy.Port) bool { return p.Name != "" },
			)
			p.Ingress[i].Destination.NotPorts = slices.DeleteFunc(
				p.Ingress[i].Destination.NotPorts, func(p policy.Port) bool { return p.Name != "" },
			)
			p.Ingress[i].Destination.Services = nil
		}
	}
}

// workloads returns the endpoints that are on the node.
func (c *cluster) workloads(e *verdict.Evaluator) (out []*policy.WorkloadEndpoint) {
	for _, k := range slices.SortedFunc(maps.Keys(c.resources), policy.Key.Compare) {
		if w, ok := c.resources[k].(*policy.WorkloadEndpoint); ok && w.Node == worldgen.Node && e.Rejected()[k] == nil {
			out = append(out, w)
		}
	}
	return out
}

// place is where a flow comes from or goes to: a workload, an interface of the host, or the host itself.
type place struct {
	iface string
	addr  netip.Addr
	own   bool
}

func (c *cluster) place(workloads []*policy.WorkloadEndpoint, like netip.Addr) place {
	addr := func() netip.Addr {
		for {
			if a := pick(c.world, addrPool()); a.IsGlobalUnicast() && (!like.IsValid() || a.Is4() == like.Is4()) {
				return a
			}
		}
	}
	switch n := c.IntN(6); {
	case n < 3 && len(workloads) > 0:
		w := pick(c.world, workloads)
		p := place{iface: w.Interface, addr: addr()}
		if len(w.Addresses) > 0 && c.IntN(6) > 0 {
			if own := pick(c.world, w.Addresses); !like.IsValid() || own.Is4() == like.Is4() {
				p.addr = own
			}
		}
		return p
	case n == 3:
		for {
			if a := pick(c.world, nodeAddrs()); !like.IsValid() || a.Is4() == like.Is4() {
				return place{addr: a, own: true}
			}
		}
	default:
		return place{iface: pick(c.world, []string{"eth0", "eth0", "eth1", "eth2"}), addr: addr()}
	}
}

// flow returns a random flow through the node.
func (c *cluster) flow(workloads []*policy.WorkloadEndpoint) (f verdict.Flow, from, to place) {
	for {
		from = c.place(workloads, netip.Addr{})
		to = c.place(workloads, from.addr)
		if !(from.own && to.own) {
			break
		}
	}
	f = verdict.Flow{
		Node: worldgen.Node, Src: from.addr, Dst: to.addr, InInterface: from.iface, OutInterface: to.iface,
		Protocol: pick(c.world, []policy.Protocol{1, 4, 6, 6, 6, 17, 17, 58, 132, 253}),
		State: pick(c.world, []verdict.State{
			"", "", "", verdict.StateEstablished, verdict.StateRelated, verdict.StateInvalid,
		}),
		Header: c.header(),
	}
	ports := []uint16{53, 80, 81, 443, 8080}
	switch {
	case f.Protocol.HasPorts():
		f.SrcPort, f.DstPort = pick(c.world, ports), pick(c.world, ports)
	default:
		f.ICMPType, f.ICMPCode = pick(c.world, []uint8{0, 3, 8, 128}), uint8(c.IntN(2))
	}
	if f.State == verdict.StateRelated {
		ends := []netip.Addr{f.Src, f.Dst, c.place(workloads, f.Src).addr, c.place(workloads, f.Src).addr}
		f.ConnSrc, f.ConnDst = pick(c.world, ends), pick(c.world, ends)
	}
	if c.IntN(3) == 0 && f.State != verdict.StateInvalid && f.State != verdict.StateRelated {
		for _, a := range nodeAddrs() {
			if a.Is4() == f.Src.Is4() {
				f.OrigDst = a
			}
		}
		if f.Protocol.HasPorts() {
			f.OrigDstPort = pick(c.world, ports)
		}
	}
	return f, from, to
}

// packets returns the packet of a flow before its destination may be translated, and after that.
func (c *cluster) packets(f verdict.Flow, from, to place) (before, after simPacket) {
	after = simPacket{
		iif: from.iface, oif: to.iface, src: f.Src, dst: f.Dst, proto: uint8(f.Protocol),
		transport: icmpHeader(f.ICMPType, f.ICMPCode), local: nodeAddrs(), ct: ruleset.CtNew, header: f.Header,
	}
	switch f.State {
	case verdict.StateEstablished:
		after.ct = ruleset.CtEstablished
	case verdict.StateRelated:
		after.ct, after.connSrc, after.connDst = ruleset.CtRelated, f.ConnSrc, f.ConnDst
	case verdict.StateInvalid:
		after.ct = ruleset.CtInvalid
	}
	port := f.DstPort
	if f.Protocol.HasPorts() {
		after.transport = ports(f.SrcPort, f.DstPort)
	}
	before = after
	if f.OrigDst.IsValid() {
		before.dst, after.origDst, after.origPort = f.OrigDst, f.OrigDst, port
		if f.OrigDstPort != 0 {
			after.origPort = f.OrigDstPort
			before.transport = ports(f.SrcPort, f.OrigDstPort)
		}
	}
	switch {
	case !from.own:
		before.oif = ""
	case f.OrigDst.IsValid():
		before.oif = "lo" // where an address of the host's own leads before translation
	}
	return before, after
}

// simulate leads a flow through all hooks on its way. Untracked says that it is no longer tracked.
func (c *cluster) simulate(t *testing.T, table *simTable, f verdict.Flow, from, to place) (allowed, untracked bool) {
	before, after := c.packets(f, from, to)
	hook := ruleset.Prerouting
	if from.own {
		hook = ruleset.Output
	}
	result := before.run(t, table.before, hook)
	if untracked = result.notrack; !result.allowed {
		return false, untracked
	}
	if untracked {
		after.ct = ruleset.CtUntracked
	}
	passes := func(hook ruleset.HookPoint) bool { return after.run(t, table.after, hook).allowed }
	if from.own {
		first := after
		if f.OrigDst.IsValid() {
			first.oif = "lo" // where an address of the host's own leads before translation; the kernel still shows that
		}
		if !first.run(t, table.after, ruleset.Output).allowed {
			return false, untracked
		}
	}
	if to.own {
		after.oif = ""
		return passes(ruleset.Input), untracked
	}
	return (from.own || passes(ruleset.Forward)) && passes(ruleset.Postrouting), untracked
}

// apply makes of the table that the deltas lead to what the next one says, which must then be what
// the renderer says it is.
func (c *cluster) apply(t *testing.T, seed uint64) {
	t.Helper()
	change, err := c.state.Prepare(c.renderer.Flush())
	require.NoError(t, err, "seed %d", seed)
	c.state.Commit(change)
	table, _ := c.renderer.Table()
	require.Equal(t, table.String(), c.state.Table().String(), "seed %d", seed)
	change, err = c.state.Prepare(c.renderer.Flush())
	require.NoError(t, err)
	require.Empty(t, change.Ops, "seed %d: nothing is told twice", seed)
}

// check holds random flows through the rendered table against the reference evaluator.
func (c *cluster) check(t *testing.T, seed uint64, flows int) (checked int) {
	t.Helper()
	table, errs := c.renderer.Table()
	require.Empty(t, errs, "seed %d", seed)
	fresh, err := render.New(c.config)
	require.NoError(t, err)
	fresh.SetInterfaces(interfacesWith(c.interfaces))
	fresh.Update(c.graph.Snapshot())
	again, _ := fresh.Table()
	require.Equal(t, again.String(), table.String(), "seed %d: the path must not matter", seed)
	require.True(t, again.Equal(table), "seed %d", seed)
	ready := newSimTable(t, table)
	e, err := verdict.NewConfigured(c.resources, c.settings)
	require.NoError(t, err)
	workloads := c.workloads(e)
	for range flows {
		f, from, to := c.flow(workloads)
		if from.iface != "" && from.iface == to.iface && !f.OrigDst.IsValid() {
			continue // S103: it does not leave the workload
		}
		allowed, untracked := c.simulate(t, ready, f, from, to)
		if untracked && f.OrigDst.IsValid() {
			continue // what is not tracked is not translated
		}
		checked++
		if want := e.Evaluate(f).Combined != verdict.Deny; want != allowed {
			if from.own && slices.ContainsFunc(
				e.Explain(f).Stages, func(d *verdict.Direction) bool { return d.Decision.By == verdict.ByInvalidFlow },
			) {
				// untracked policy of another interface did not keep it from being translated:
				// policy that is not judges it
				continue
			}
			if !allowed && from.own && f.OrigDst.IsValid() && c.namesPortsUntracked() {
				continue // what they were before translation cannot be looked up later: less gets through
			}
			require.Equal(t, want, allowed, "seed %d\n%s\n%s\n%s", seed, f, e.Explain(f), table)
		}
	}
	return checked
}

// namesPortsUntracked reports whether untracked policy asks for named ports, or for the ports of
// services, of destinations.
func (c *cluster) namesPortsUntracked() bool {
	named := func(r policy.Rule) bool {
		ports := slices.Concat(r.Destination.Ports, r.Destination.NotPorts)
		return r.Destination.Services != nil || slices.ContainsFunc(
			ports, func(p policy.Port) bool { return p.Name != "" },
		)
	}
	for _, r := range c.resources {
		if p, ok := r.(*policy.Policy); ok && p.DoNotTrack && slices.ContainsFunc(p.Egress, named) {
			return true
		}
	}
	return false
}

// TestVerdicts leads more than 100,000 random flows of random worlds, with host endpoints of all
// kinds, through the table that the graph and the renderer make of them, which must let pass what
// the reference evaluator does. Each world is reached by steps, at each of which the table must be
// the one that a fresh renderer makes of the graph's state (S100).
func TestVerdicts(t *testing.T) { nfttest.EachFormInParallel(t, testVerdicts) }

func testVerdicts(t *testing.T, classes render.ClassesConfig) {
	worlds, checked := worldSeeds(200), 0
	if testing.Short() {
		worlds = worldSeeds(30)
	}
	for _, seed := range worlds {
		c := newCluster(t, seed, classes)
		for range 5 {
			for range 12 {
				c.mutate()
			}
			c.renderer.Update(c.graph.Flush())
			c.apply(t, seed)
			checked += c.check(t, seed, 130)
		}
	}
	t.Logf("%d flows", checked)
	require.Greater(t, checked, 500*len(worlds))
}
