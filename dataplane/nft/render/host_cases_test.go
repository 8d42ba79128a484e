// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

// The parts of the cases below. The node n1 has the addresses of nodeAddrs, the interfaces eth0 and
// eth1, and a workload way1 to which policy allows everything.

func hostEndpoint(name, iface string, profiles ...string) policy.Resource {
	return &policy.HostEndpoint{
		Name: name, Node: worlds.Node, InterfaceName: iface, Labels: map[string]string{"host": name},
		Profiles: profiles,
	}
}

// hostPolicy returns a policy that selects only host endpoints, unless a change sets another
// selector.
func hostPolicy(name string, change func(p *policy.Policy)) policy.Resource {
	p := &policy.Policy{Name: name, Selector: "has(host)", Types: []policy.Type{policy.Ingress, policy.Egress}}
	change(p)
	return p
}

func portsRule(action policy.Action, proto policy.Protocol, ports ...uint16) policy.Rule {
	r := policy.Rule{Action: action, Protocol: proto}
	for _, p := range ports {
		r.Destination.Ports = append(r.Destination.Ports, policy.PortNumber(p))
	}
	return r
}

func forwarded(in, out []policy.Rule) func(*policy.Policy) {
	return func(p *policy.Policy) { p.ApplyOnForward, p.Ingress, p.Egress = true, in, out }
}

func untrackedRules(in, out []policy.Rule) func(*policy.Policy) {
	return func(p *policy.Policy) { p.ApplyOnForward, p.DoNotTrack, p.Ingress, p.Egress = true, true, in, out }
}

func beforeDNAT(in ...policy.Rule) func(*policy.Policy) {
	return func(p *policy.Policy) {
		p.ApplyOnForward, p.PreDNAT, p.Types, p.Ingress = true, true, []policy.Type{policy.Ingress}, in
	}
}

func normal(in, out []policy.Rule) func(*policy.Policy) {
	return func(p *policy.Policy) { p.Ingress, p.Egress = in, out }
}

func only(r ...policy.Rule) []policy.Rule { return r }

// The flows: to the host, from it, and forwarded.

func tcpFlow(src, dst string, sport, dport uint16) verdict.Flow {
	return verdict.Flow{
		Node: worlds.Node, Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst),
		Protocol: policy.ProtocolTCP, SrcPort: sport, DstPort: dport,
	}
}

const outsider, hostAddr, podAddr = "203.0.113.7", "198.51.100.1", "10.0.0.1"

func toHost(port uint16) verdict.Flow {
	f := tcpFlow(outsider, hostAddr, 40000, port)
	f.InInterface = "eth0"
	return f
}

func fromHost(port uint16) verdict.Flow {
	f := tcpFlow(hostAddr, outsider, 40000, port)
	f.OutInterface = "eth0"
	return f
}

func podToHost(port uint16) verdict.Flow { return tcpFlow(podAddr, hostAddr, 40000, port) }

func podOut(port uint16) verdict.Flow {
	f := tcpFlow(podAddr, outsider, 40000, port)
	f.OutInterface = "eth0"
	return f
}

func intoPod(port uint16) verdict.Flow {
	f := tcpFlow(outsider, podAddr, 40000, port)
	f.InInterface = "eth0"
	return f
}

// nodePort returns a flow to a port of the node that is translated to the pod.
func nodePort(port, target uint16) verdict.Flow {
	f := intoPod(target)
	f.OrigDst, f.OrigDstPort = netip.MustParseAddr(hostAddr), port
	return f
}

// through returns a flow that arrives at one interface and leaves by another.
func through(in, out string) verdict.Flow {
	f := tcpFlow(outsider, "203.0.113.99", 40000, 80)
	f.InInterface, f.OutInterface = in, out
	return f
}

func whose(s verdict.State, f verdict.Flow) verdict.Flow {
	f.State = s
	return f
}

// hostCase is a world, with flows that must pass and flows that must drop.
type hostCase struct {
	name       string
	host       policy.HostConfig
	resources  []policy.Resource
	pass, drop []verdict.Flow
}

func flows(f ...verdict.Flow) []verdict.Flow { return f }

func hostCases() []hostCase {
	return slices.Concat(governedCases(), untrackedCases(), preDNATCases(), doubtCases(), tunnelCases())
}

// tunnelCases have encapsulated packets of other nodes, which are traffic of the host.
func tunnelCases() []hostCase {
	encapsulated := func(proto policy.Protocol, port uint16, src string) verdict.Flow {
		f := toHost(port)
		f.Protocol, f.Src = proto, netip.MustParseAddr(src)
		if !proto.HasPorts() {
			f.SrcPort = 0
		}
		return f
	}
	fromOutsider := func(proto policy.Protocol, ports ...uint16) policy.Rule {
		r := portsRule(policy.Allow, proto, ports...)
		r.Source.Nets = []netip.Prefix{netip.MustParsePrefix(outsider + "/32")}
		return r
	}
	return []hostCase{
		{
			"S107 tunnels between nodes are the host's traffic, whatever their encapsulation",
			policy.HostConfig{},
			[]policy.Resource{hostEndpoint("eth0", "eth0"), hostPolicy("tunnels", normal(
				only(fromOutsider(policy.ProtocolUDP, 4789), fromOutsider(4)), nil,
			))},
			flows(encapsulated(policy.ProtocolUDP, 4789, outsider), encapsulated(4, 0, outsider)),
			flows(
				encapsulated(policy.ProtocolUDP, 4789, "203.0.113.8"), encapsulated(4, 0, "203.0.113.8"),
				encapsulated(policy.ProtocolUDP, 4790, outsider), encapsulated(47, 0, outsider),
			),
		},
	}
}

// governedCases test which host endpoint governs an interface, and which traffic it governs.
func governedCases() []hostCase {
	tcp80, denyTCP := portsRule(policy.Allow, policy.ProtocolTCP, 80), portsRule(policy.Deny, policy.ProtocolTCP)
	accepts := policy.HostConfig{EndpointToHostAction: policy.HostAccept}
	byAddress := &policy.HostEndpoint{
		Name: "a", Node: worlds.Node, ExpectedIPs: nfttest.Addresses("198.51.100.1"), Profiles: []string{"all"},
	}
	unseen := toHost(80)
	unseen.InInterface = "eth9"
	return []hostCase{
		{
			"S104 the host reaches its workloads, S105 workloads reach the host if the setting allows it, S106",
			accepts,
			[]policy.Resource{hostEndpoint("eth0", "eth0")},
			flows(podToHost(80)), flows(toHost(80)),
		},
		{
			"S105 no normal policy for all interfaces changes that", accepts,
			[]policy.Resource{hostEndpoint("all", "*"), hostPolicy("deny", normal(only(denyTCP), nil))},
			flows(podToHost(80)), flows(toHost(80)),
		},
		{
			"S105 pre-DNAT policy for all interfaces denies", accepts,
			[]policy.Resource{hostEndpoint("all", "*", "all"), hostPolicy(
				"deny", beforeDNAT(portsRule(policy.Deny, policy.ProtocolTCP, 80)),
			)},
			flows(podToHost(81), toHost(81)), flows(podToHost(80), toHost(80)),
		},
		{
			"S105 pre-DNAT policy cannot override Drop",
			policy.HostConfig{},
			[]policy.Resource{hostEndpoint("all", "*"), hostPolicy("allow", beforeDNAT(tcp80))},
			flows(toHost(80), whose(verdict.StateEstablished, podToHost(80))), flows(podToHost(80), toHost(81)),
		},
		{
			"S107 nothing allowed but failsafe ports; S111, S113 not outbound ssh",
			policy.HostConfig{},
			[]policy.Resource{hostEndpoint("eth0", "eth0")},
			flows(
				toHost(22), toHost(6443), fromHost(6443), podOut(80), intoPod(80), through("eth0", "eth1"),
				whose(verdict.StateEstablished, toHost(80)),
			),
			flows(toHost(80), fromHost(80), fromHost(22)),
		},
		{
			"S108 interfaces without a host endpoint of their own",
			policy.HostConfig{},
			[]policy.Resource{hostEndpoint("all", "*"), hostEndpoint("eth1", "eth1", "all")},
			flows(func() verdict.Flow { f := toHost(80); f.InInterface = "eth1"; return f }()), flows(toHost(80)),
		},
		{
			"S108 not by address if an interface is named",
			policy.HostConfig{},
			[]policy.Resource{&policy.HostEndpoint{
				Name: "a", Node: worlds.Node, InterfaceName: "eth1", ExpectedIPs: nfttest.Addresses("198.51.100.1"),
			}},
			flows(toHost(80)), nil,
		},
		{
			"by address",
			policy.HostConfig{},
			[]policy.Resource{byAddress, hostEndpoint("b", "eth0")},
			flows(toHost(80), fromHost(80)), flows(unseen),
		},
		{
			"S109 forwarded traffic only by apply-on-forward policy",
			policy.HostConfig{},
			[]policy.Resource{hostEndpoint("eth0", "eth0"), hostPolicy("p", normal(only(denyTCP), only(denyTCP)))},
			flows(podOut(80), intoPod(80), through("eth0", "eth1")), flows(toHost(80)),
		},
		{
			"S110 out of a pod by both directions of the one for all interfaces",
			policy.HostConfig{},
			[]policy.Resource{hostEndpoint("all", "*"), hostPolicy("p", forwarded(
				only(portsRule(policy.Allow, policy.ProtocolTCP, 80, 81)),
				only(portsRule(policy.Allow, policy.ProtocolTCP, 80, 82)),
			))},
			flows(podOut(80)), flows(podOut(81), podOut(82), intoPod(443)),
		},
	}
}

// untrackedCases have failsafe ports and policy before connection tracking.
func untrackedCases() []hostCase {
	tcp80, denyTCP := portsRule(policy.Allow, policy.ProtocolTCP, 80), portsRule(policy.Deny, policy.ProtocolTCP)
	back := policy.Rule{
		Action: policy.Allow, Protocol: policy.ProtocolTCP,
		Source: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80)}},
	}
	return []hostCase{
		{
			"S111 failsafe ports are only for the host",
			policy.HostConfig{},
			[]policy.Resource{hostEndpoint("eth0", "eth0"), hostPolicy("p", forwarded(only(denyTCP), only(denyTCP)))},
			flows(toHost(22)), flows(intoPod(22), podOut(6443)),
		},
		{
			"S112 failsafe ports of some peers",
			policy.HostConfig{
				FailsafeInbound: []policy.Failsafe{
					{Protocol: policy.ProtocolTCP, Port: 22, Net: netip.MustParsePrefix("203.0.113.0/24")},
					{Protocol: policy.ProtocolTCP, Port: 23, Net: netip.MustParsePrefix("::/0")},
				},
				FailsafeOutbound: []policy.Failsafe{{
					Protocol: policy.ProtocolTCP, Port: 24, Net: netip.MustParsePrefix("192.0.2.0/24"),
				}},
			},
			[]policy.Resource{hostEndpoint("eth0", "eth0")},
			flows(toHost(22)), flows(toHost(23), fromHost(24)),
		},
		{
			"S114 replies of failsafe ports without connection tracking",
			policy.HostConfig{},
			[]policy.Resource{
				hostEndpoint("eth0", "eth0"), hostPolicy("p", untrackedRules(only(denyTCP), only(denyTCP))),
			},
			flows(toHost(22), fromHost(6443), whose(verdict.StateEstablished, func() verdict.Flow {
				f := tcpFlow(hostAddr, outsider, 22, 40000)
				f.OutInterface = "eth0"
				return f
			}()), whose(verdict.StateEstablished, func() verdict.Flow {
				f := tcpFlow(outsider, hostAddr, 6443, 40000)
				f.InInterface = "eth0"
				return f
			}())), flows(toHost(80), fromHost(80)),
		},
		{
			"S115 each direction of untracked packets must be allowed",
			policy.HostConfig{},
			[]policy.Resource{hostEndpoint("eth0", "eth0"), hostPolicy("p", untrackedRules(only(tcp80), only(back)))},
			flows(toHost(80), func() verdict.Flow {
				f := tcpFlow(hostAddr, outsider, 80, 40000)
				f.OutInterface = "eth0"
				return f
			}()), flows(fromHost(80)),
		},
		{
			"S36 untracked policy has no end of tier",
			policy.HostConfig{},
			[]policy.Resource{hostEndpoint("eth0", "eth0", "all"), hostPolicy(
				"p", untrackedRules(only(portsRule(policy.Deny, policy.ProtocolTCP, 81)), nil),
			)},
			flows(toHost(80), fromHost(80)), flows(toHost(81)),
		},
	}
}

// preDNATCases have policy before destination NAT.
func preDNATCases() []hostCase {
	tcp80, denyTCP := portsRule(policy.Allow, policy.ProtocolTCP, 80), portsRule(policy.Deny, policy.ProtocolTCP)
	allowPort := func(p uint16) policy.Rule { return portsRule(policy.Allow, policy.ProtocolTCP, p) }
	return []hostCase{
		{
			"S121 a node port",
			policy.HostConfig{},
			[]policy.Resource{
				hostEndpoint("eth0", "eth0"),
				hostPolicy("a", beforeDNAT(allowPort(30081), allowPort(8055), denyTCP)),
			},
			flows(nodePort(30081, 8055)), flows(nodePort(30080, 8055), nodePort(8056, 8055)),
		},
		{
			"S122 packets that pre-DNAT policy allowed skip other policy except the workload's",
			policy.HostConfig{},
			[]policy.Resource{
				hostEndpoint("eth0", "eth0"), hostPolicy("a", beforeDNAT(allowPort(30080), allowPort(81))),
				hostPolicy("p", forwarded(only(denyTCP), nil)),
				&policy.Policy{
					Name: "pod", Selector: "has(pod)", Types: []policy.Type{policy.Ingress},
					Ingress: only(allowPort(8055)),
				},
			},
			flows(toHost(81), nodePort(30080, 8055)), flows(nodePort(30080, 8056), nodePort(30081, 8055), toHost(82)),
		},
		{
			"S122 packets that untracked policy allowed skip other policy",
			policy.HostConfig{},
			[]policy.Resource{
				hostEndpoint("eth0", "eth0"), hostPolicy("a", untrackedRules(only(tcp80), nil)),
				hostPolicy("b", beforeDNAT(denyTCP)), hostPolicy("p", forwarded(only(denyTCP), nil)),
			},
			flows(toHost(80), through("eth0", "eth1")), flows(toHost(81)),
		},
		{
			"S123 the smallest name governs",
			policy.HostConfig{},
			[]policy.Resource{
				hostEndpoint("b", "eth0"), hostEndpoint("a", "eth0", "all"), hostEndpoint("y", "*"),
				hostEndpoint("x", "*", "all"),
			},
			flows(toHost(80), func() verdict.Flow { f := toHost(80); f.InInterface = "eth1"; return f }()), nil,
		},
	}
}

// cluster makes the node of a case.
func (h hostCase) cluster(t *testing.T, classes render.ClassesConfig) *nfttest.Cluster {
	t.Helper()
	c := nfttest.NewNode(t, render.Config{Classes: classes, Host: h.host})
	c.Set(
		&policy.Node{Name: worlds.Node, Addresses: nfttest.Nets("198.51.100.1/24", "fdff::1/64", "198.51.100.9/24")},
	)
	all := only(policy.Rule{Action: policy.Allow})
	c.Set(&policy.Profile{Name: "all", Ingress: all, Egress: all})
	c.Set(&policy.WorkloadEndpoint{
		Name: "pod", Node: worlds.Node, Interface: "way1",
		Addresses: nfttest.Addresses(podAddr), Profiles: []string{"all"},
		Labels: map[string]string{"pod": ""},
	})
	for _, r := range h.resources {
		c.Set(r)
	}
	return c
}

// TestHostCases compares the verdicts of the rendered table and of the reference evaluator on the
// numbered cases of host endpoints.
func TestHostCases(t *testing.T) { nfttest.EachForm(t, testHostCases) }

func testHostCases(t *testing.T, classes render.ClassesConfig) {
	for _, h := range hostCases() {
		t.Run(h.name, func(t *testing.T) {
			c := h.cluster(t, classes)
			c.Renderer.Update(c.Graph.Flush())
			table, errs := c.Renderer.Table()
			require.Empty(t, errs)
			require.NoError(t, table.Validate())
			e, err := verdict.NewConfigured(c.Resources, c.Settings)
			require.NoError(t, err)
			require.Empty(t, e.Rejected())
			check := func(f verdict.Flow, want bool) {
				require.Equal(t, want, e.Evaluate(f).Combined != verdict.Deny, "the evaluator\n%s", e.Explain(f))
				from, to := endsOf(f)
				got, _ := simulateFlow(t, newSimTable(t, table), f, from, to)
				require.Equal(t, want, got, "%s\n%s", f, table)
			}
			for _, f := range h.pass {
				check(f, true)
			}
			for _, f := range h.drop {
				check(f, false)
			}
		})
	}
}

// endsOf returns the two ends of a flow of the cases.
func endsOf(f verdict.Flow) (from, to nfttest.FlowEnd) {
	end := func(iface string, a netip.Addr) nfttest.FlowEnd {
		switch {
		case iface != "":
			return nfttest.FlowEnd{Iface: iface, Addr: a}
		case a == netip.MustParseAddr(podAddr):
			return nfttest.FlowEnd{Iface: "way1", Addr: a}
		default:
			return nfttest.FlowEnd{Addr: a, Own: true}
		}
	}
	return end(f.InInterface, f.Src), end(f.OutInterface, f.Dst)
}

// TestNextHostEndpointGoverns (S123): when the host endpoint that governs an interface is removed,
// the next one governs it. If a workload gets the interface, no host endpoint governs it.
func TestNextHostEndpointGoverns(t *testing.T) { nfttest.EachForm(t, testNextHostEndpointGoverns) }

func testNextHostEndpointGoverns(t *testing.T, classes render.ClassesConfig) {
	c := hostCase{resources: []policy.Resource{hostEndpoint("a", "eth0", "all"), hostEndpoint("b", "eth0")}}.cluster(
		t, classes,
	)
	passes := func(f verdict.Flow) bool {
		c.Renderer.Update(c.Graph.Flush())
		table, errs := c.Renderer.Table()
		require.Empty(t, errs)
		from, to := endsOf(f)
		got, _ := simulateFlow(t, newSimTable(t, table), f, from, to)
		return got
	}
	require.True(t, passes(toHost(80)))
	c.Update(policy.Update{Key: hostEndpoint("a", "eth0").Key()})
	require.False(t, passes(toHost(80)))
	c.Update(policy.Update{Key: hostEndpoint("b", "eth0").Key()})
	require.True(t, passes(toHost(80)))

	c.Set(hostEndpoint("tap", "tap9"))
	fromTap := toHost(80)
	fromTap.InInterface = "tap9"
	require.False(t, passes(fromTap))
	c.Set(&policy.WorkloadEndpoint{
		Name: "tap", Node: worlds.Node, Interface: "tap9",
		Addresses: nfttest.Addresses(outsider), Profiles: []string{"all"},
	})
	require.False(t, passes(fromTap), "workloads may not send to their host")
	require.True(t, passes(whose(verdict.StateEstablished, fromTap)))
	c.Update(policy.Update{Key: (&policy.WorkloadEndpoint{Name: "tap", Node: worlds.Node}).Key()})
	c.Update(policy.Update{Key: hostEndpoint("tap", "tap9").Key()})
	require.True(t, passes(fromTap))
}

// TestInterfacesOfHost: if a host endpoint has addresses, it governs an interface once the
// interface has one of them, and no longer when the address moves.
func TestInterfacesOfHost(t *testing.T) {
	byAddress := &policy.HostEndpoint{Name: "a", Node: worlds.Node, ExpectedIPs: nfttest.Addresses("198.51.100.1")}
	c := hostCase{resources: []policy.Resource{byAddress}}.cluster(t, render.ClassesConfig{})
	require.False(t, c.Renderer.NeedsInterfaces())
	c.Renderer.Update(c.Graph.Flush())
	require.True(t, c.Renderer.NeedsInterfaces())
	passes := func(iface string) bool {
		table, errs := c.Renderer.Table()
		require.Empty(t, errs)
		f := toHost(80)
		f.InInterface = iface
		from, to := endsOf(f)
		got, _ := simulateFlow(t, newSimTable(t, table), f, from, to)
		return got
	}
	require.False(t, passes("eth0"))
	require.True(t, passes("eth1"))
	require.False(t, passes("eth2"), "its addresses are unknown")
	c.Renderer.SetInterfaces(nfttest.InterfacesWith(map[string][]netip.Addr{
		"eth0": nil, "eth1": nfttest.Addresses("198.51.100.9"), "eth2": nfttest.Addresses("198.51.100.1"),
	}))
	require.True(t, passes("eth0"))
	require.True(t, passes("eth1"))
	require.False(t, passes("eth2"))
}
