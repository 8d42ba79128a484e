// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

// Cluster has random resources of a cluster, including host endpoints of one node, and the table
// that the graph and the renderer make from them.
type Cluster struct {
	World
	Resources  verdict.World
	Settings   verdict.Config
	Config     render.Config
	Renderer   *render.Renderer
	State      *ruleset.State
	Graph      *calcgraph.Graph
	Gen        *worlds.Generator
	Interfaces map[string][]netip.Addr
	Faults     []string // the texts of the renderer's errors after the last change
	// Ports has the name of the bridge for each workload interface that is attached to a bridge.
	// The method Bridge sets Ports.
	Ports  map[string]string
	behind map[bridgeAddress]string
}

// Bounded returns the configuration for a random test with this seed: the parameter classes, with
// lower limits of cost for every fourth seed. The renderer writes policy as lookups in maps. Policy
// that costs more than a limit is written as chains of rules. With the lower limits, some policy
// costs more than a limit.
func Bounded(classes render.ClassesConfig, seed uint64) render.ClassesConfig {
	if seed%4 == 3 {
		classes.MaxPerGroup, classes.MaxTotal = 3, 8
	}
	return classes
}

// NodeAddrs returns the addresses of the node.
func NodeAddrs() []netip.Addr { return Addresses("198.51.100.1", "fdff::1", "198.51.100.9") }

// NewCluster makes an empty Cluster with random settings.
func NewCluster(t *testing.T, seed uint64, classes render.ClassesConfig) *Cluster {
	t.Helper()
	c := &Cluster{World: NewWorld(seed, 1), Resources: verdict.World{}, Gen: worlds.New(worlds.Config{Seed: seed})}
	host := policy.HostConfig{
		EndpointToHostAction:    Pick(c.World, []policy.HostAction{"", policy.HostAccept, policy.HostReturn}),
		HostToEndpointAction:    Pick(c.World, []policy.HostAction{"", policy.HostDrop, policy.HostReturn}),
		KeepInvalid:             c.IntN(3) == 0,
		AllowVXLANFromWorkloads: c.IntN(4) == 0,
		AllowIPIPFromWorkloads:  c.IntN(4) == 0,
		VXLANPort:               80,
		VXLANFromNodesOnly:      seed%5 == 1, // draws no random number
		IPIPFromNodesOnly:       seed%7 < 2,
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
	c.State = ruleset.NewState(ruleset.FamilyINet, "wayleave")
	c.Interfaces = map[string][]netip.Addr{"eth0": Addresses("198.51.100.1", "fdff::1"), "lo": Addresses("127.0.0.1")}
	if c.IntN(3) > 0 {
		c.Interfaces["eth1"] = Addresses("198.51.100.9")
	}
	c.Settings = verdict.Config{Host: host, Interfaces: map[string]map[string][]netip.Addr{worlds.Node: c.Interfaces}}
	var err error
	c.Config = render.Config{
		InterfacePrefix: "wl", Host: host, LogRate: -1, NAT: render.NATConfig{Disabled: true},
		// None of these settings changes which packets pass.
		Reject: c.IntN(4) == 0, Counters: c.IntN(4) == 0, VerdictLog: render.VerdictLog{Enabled: c.IntN(4) == 0},
		Classes: Bounded(classes, seed),
	}
	c.Renderer, err = render.New(c.Config)
	require.NoError(t, err)
	c.Renderer.SetInterfaces(InterfacesWith(c.Interfaces))
	c.Graph, err = calcgraph.New(calcgraph.Config{Node: worlds.Node})
	require.NoError(t, err)
	c.Set(&policy.Node{Name: worlds.Node, Addresses: Nets("198.51.100.1/24", "fdff::1/64", "198.51.100.9/24")})
	c.Set(&policy.Node{Name: "other", Addresses: Nets("10.1.0.1/24", "2001:db8::1/64")})
	c.Graph.InSync()
	return c
}

// NewNode returns an empty node in sync, with the interfaces eth0 and eth1.
func NewNode(t testing.TB, cfg render.Config) *Cluster {
	t.Helper()
	c := &Cluster{
		Resources: verdict.World{}, Config: cfg, State: ruleset.NewState(ruleset.FamilyINet, "wayleave"),
		Interfaces: map[string][]netip.Addr{
			"eth0": Addresses("198.51.100.1", "fdff::1"), "eth1": Addresses("198.51.100.9"),
		},
	}
	c.Settings = verdict.Config{Host: cfg.Host, Interfaces: map[string]map[string][]netip.Addr{
		worlds.Node: c.Interfaces,
	}}
	var err error
	c.Graph, err = calcgraph.New(calcgraph.Config{Node: worlds.Node})
	require.NoError(t, err)
	c.Graph.InSync()
	c.Renderer, err = render.New(c.Config)
	require.NoError(t, err)
	c.Renderer.SetInterfaces(InterfacesWith(c.Interfaces))
	return c
}

// Play applies updates to the graph, and the resulting batch to the renderer. It returns the
// operations that change the table.
func (c *Cluster) Play(t testing.TB, updates []policy.Update) []ruleset.Op {
	t.Helper()
	for _, u := range updates {
		c.Update(u)
	}
	c.Renderer.Update(c.Graph.Flush())
	change, err := c.State.Prepare(c.Renderer.Flush())
	require.NoError(t, err)
	c.State.Commit(change)
	table, errs := c.Renderer.Table()
	c.Faults = nil
	for _, e := range errs {
		c.Faults = append(c.Faults, e.Error())
	}
	require.NoError(t, table.Validate())
	require.Equal(t, table.String(), c.State.Table().String(), "the operations lead to the table")
	return change.Ops
}

// NewScriptNode calls NewNode with a configuration for the test scripts in render/testdata (see
// ReadScripts). The interface prefix is "wl".
//
// Each script lists the sets and chains that its updates add or change. To keep these lists short,
// ClassesConfig.Priorities is empty. The default has four packet priorities, and the table would
// have more chains for each of them.
func NewScriptNode(t testing.TB, classes render.ClassesConfig) *Cluster {
	classes.Priorities = []uint32{}
	return NewNode(t, render.Config{Classes: classes, InterfacePrefix: "wl"})
}

// Set creates or replaces a resource.
func (c *Cluster) Set(r policy.Resource) { c.Update(policy.Update{Key: r.Key(), Resource: r}) }

// Update applies an update to the graph and to Resources.
func (c *Cluster) Update(u policy.Update) {
	c.Graph.Update(u)
	if u.Resource == nil {
		delete(c.Resources, u.Key)
		return
	}
	c.Resources[u.Key] = u.Resource
}

// Mutate changes a random resource.
func (c *Cluster) Mutate() {
	if c.IntN(6) == 0 {
		c.hostEndpoint()
		return
	}
	u := c.Gen.Update()
	if p, ok := u.Resource.(*policy.Policy); ok {
		c.ForHosts(p)
	}
	if w, ok := u.Resource.(*policy.WorkloadEndpoint); ok && c.IntN(4) == 0 {
		w.AllowSpoofedSourcePrefixes = Some(c.World, 1, 2, c.Prefix)
	}
	c.Update(u)
}

// hostEndpoint makes, changes or removes a host endpoint.
func (c *Cluster) hostEndpoint() {
	h := &policy.HostEndpoint{
		Name:          fmt.Sprintf("h%d", c.IntN(4)),
		Node:          Pick(c.World, []string{worlds.Node, worlds.Node, worlds.Node, "n2"}),
		InterfaceName: Pick(c.World, []string{"eth0", "eth1", "*", "*", "", "wl0"}),
		Labels: map[string]string{
			"role": Pick(c.World, []string{"fe", "be"}), "app": Pick(c.World, []string{"web", "db"}),
		},
		Profiles: Pick(c.World, [][]string{nil, {"p1"}, {"p2", "p1"}, {"gone"}}),
	}
	if h.InterfaceName == "" || c.IntN(2) == 0 {
		h.ExpectedIPs = []netip.Addr{Pick(c.World, NodeAddrs())}
	}
	u := policy.Update{Key: h.Key(), Resource: h}
	if c.IntN(4) == 0 {
		u.Resource = nil
	}
	c.Update(u)
}

// ForHosts makes p, at random, an apply-on-forward, untracked or pre-DNAT policy, or leaves it
// unchanged. Only host endpoints can have such policies. If p has a namespace, it stays unchanged.
func (c *Cluster) ForHosts(p *policy.Policy) {
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
		// Later base chains test again whether pre-DNAT policy has allowed a packet. If a rule has
		// a named port or a service of the original destination, this test denies the packet.
		for i := range p.Ingress {
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

// Workloads returns the valid endpoints on the node.
func (c *Cluster) Workloads(e *verdict.Evaluator) (out []*policy.WorkloadEndpoint) {
	for _, k := range slices.SortedFunc(maps.Keys(c.Resources), policy.Key.Compare) {
		if w, ok := c.Resources[k].(*policy.WorkloadEndpoint); ok && w.Node == worlds.Node && e.Rejected()[k] == nil {
			out = append(out, w)
		}
	}
	return out
}

// FlowEnd is an end of a flow: a workload, an interface of the host, or the host itself.
type FlowEnd struct {
	Iface string
	Addr  netip.Addr
	Own   bool
}

func (c *Cluster) flowEnd(workloads []*policy.WorkloadEndpoint, like netip.Addr) FlowEnd {
	addr := func() netip.Addr {
		for {
			if a := Pick(c.World, AddrPool()); a.IsGlobalUnicast() && (!like.IsValid() || a.Is4() == like.Is4()) {
				return a
			}
		}
	}
	switch n := c.IntN(6); {
	case n < 3 && len(workloads) > 0:
		w := Pick(c.World, workloads)
		p := FlowEnd{Iface: w.Interface, Addr: addr()}
		if len(w.Addresses) > 0 && c.IntN(6) > 0 {
			if own := Pick(c.World, w.Addresses); !like.IsValid() || own.Is4() == like.Is4() {
				p.Addr = own
			}
		}
		return p
	case n == 3:
		for {
			if a := Pick(c.World, NodeAddrs()); !like.IsValid() || a.Is4() == like.Is4() {
				return FlowEnd{Addr: a, Own: true}
			}
		}
	default:
		return FlowEnd{Iface: Pick(c.World, []string{"eth0", "eth0", "eth1", "eth2"}), Addr: addr()}
	}
}

// Flow returns a random flow through the node.
func (c *Cluster) Flow(workloads []*policy.WorkloadEndpoint) (f verdict.Flow, from, to FlowEnd) {
	for {
		from = c.flowEnd(workloads, netip.Addr{})
		to = c.flowEnd(workloads, from.Addr)
		if !(from.Own && to.Own) {
			break
		}
	}
	f = verdict.Flow{
		Node: worlds.Node, Src: from.Addr, Dst: to.Addr, InInterface: from.Iface, OutInterface: to.Iface,
		Protocol: Pick(c.World, []policy.Protocol{1, 4, 6, 6, 6, 17, 17, 58, 132, 253}),
		State: Pick(c.World, []verdict.State{
			"", "", "", verdict.StateEstablished, verdict.StateRelated, verdict.StateInvalid,
		}),
		Header: c.Header(),
	}
	ports := []uint16{53, 80, 81, 443, 8080}
	switch {
	case f.Protocol.HasPorts():
		f.SrcPort, f.DstPort = Pick(c.World, ports), Pick(c.World, ports)
	default:
		f.ICMPType, f.ICMPCode = Pick(c.World, []uint8{0, 3, 8, 128}), uint8(c.IntN(2))
	}
	if f.State == verdict.StateRelated {
		ends := []netip.Addr{f.Src, f.Dst, c.flowEnd(workloads, f.Src).Addr, c.flowEnd(workloads, f.Src).Addr}
		f.ConnSrc, f.ConnDst = Pick(c.World, ends), Pick(c.World, ends)
	}
	if c.IntN(3) == 0 && f.State != verdict.StateInvalid && f.State != verdict.StateRelated {
		for _, a := range NodeAddrs() {
			if a.Is4() == f.Src.Is4() {
				f.OrigDst = a
			}
		}
		if f.Protocol.HasPorts() {
			f.OrigDstPort = Pick(c.World, ports)
		}
	}
	return f, from, to
}

// InterfacesWith returns interfaces with addresses and no masters.
func InterfacesWith(addresses map[string][]netip.Addr) map[string]render.Interface {
	out := map[string]render.Interface{}
	for name, list := range addresses {
		out[name] = render.Interface{Addresses: list}
	}
	return out
}
