// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// The flows through node1 of most tests of host endpoints.
const (
	inHost    = "tcp 198.51.100.9 192.0.2.1:80 @node1 in=eth0"
	outHost   = "tcp 192.0.2.1 198.51.100.9:80 @node1 out=eth0"
	toPod     = "tcp 198.51.100.9 10.0.0.1:80 @node1 in=eth0"
	fromPod   = "tcp 10.0.0.1 198.51.100.9:80 @node1 out=eth0"
	transit   = "tcp 198.51.100.9 203.0.113.9:80 @node1 in=eth0 out=eth1"
	podToHost = "tcp 10.0.0.1 192.0.2.1:80 @node1"
	hostToPod = "tcp 192.0.2.1 10.0.0.1:80 @node1"
	podToPod  = "tcp 10.0.0.1 10.0.0.2:80 @node1"
	nodePort  = "tcp 198.51.100.9 10.0.0.1:8055 @node1 in=eth0 was=192.0.2.1:30080"
)

func hep(name, iface, labels string, profiles ...string) *policy.HostEndpoint {
	return &policy.HostEndpoint{
		Name: name, Node: "node1", InterfaceName: iface, Labels: labelsOf(labels), Profiles: profiles,
	}
}

func by(addr string, h *policy.HostEndpoint) *policy.HostEndpoint {
	h.ExpectedIPs = append(h.ExpectedIPs, netip.MustParseAddr(addr))
	return h
}

func behind(iface string, w *policy.WorkloadEndpoint) *policy.WorkloadEndpoint {
	w.Interface = iface
	return w
}

// onHost returns a policy for the host endpoints that tests make, of any kind.
func onHost(name string, change func(*policy.Policy), rules ...policy.Rule) *policy.Policy {
	p := &policy.Policy{Name: name, Selector: "has(host)", Types: []policy.Type{policy.Ingress}, Ingress: rules}
	change(p)
	return p
}

func plain(*policy.Policy)           {}
func onForward(p *policy.Policy)     { p.ApplyOnForward = true }
func noTrack(p *policy.Policy)       { p.ApplyOnForward, p.DoNotTrack = true, true }
func beforeDNAT(p *policy.Policy)    { p.ApplyOnForward, p.PreDNAT = true, true }
func stagedForward(p *policy.Policy) { p.ApplyOnForward, p.Staged = true, true }

// outward makes a policy apply to egress.
func outward(change func(*policy.Policy)) func(*policy.Policy) {
	return func(p *policy.Policy) {
		p.Types, p.Egress, p.Ingress = []policy.Type{policy.Egress}, p.Ingress, nil
		change(p)
	}
}

// bothWays makes a policy apply to both directions.
func bothWays(change func(*policy.Policy)) func(*policy.Policy) {
	return func(p *policy.Policy) {
		p.Types, p.Egress = []policy.Type{policy.Egress, policy.Ingress}, p.Ingress
		change(p)
	}
}

func tcpTo(action policy.Action, port uint16) policy.Rule {
	return policy.Rule{Action: action, Protocol: policy.ProtocolTCP, Destination: policy.EntityRule{
		Ports: []policy.Port{policy.PortNumber(port)},
	}}
}

func tcpFrom(action policy.Action, port uint16) policy.Rule {
	return policy.Rule{Action: action, Protocol: policy.ProtocolTCP, Source: policy.EntityRule{
		Ports: []policy.Port{policy.PortNumber(port)},
	}}
}

// onNode returns two nodes, two workloads on the first with profiles that allow everything, and
// more.
func onNode(more ...policy.Resource) []policy.Resource {
	far := behind("cali1", wep("n/far", "10.0.9.9", "", "open"))
	far.Node = "node2"
	return append([]policy.Resource{
		&policy.Node{Name: "node1", Addresses: []netip.Prefix{
			netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("fd00:ff::1/64"),
		}},
		&policy.Node{Name: "node2", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}},
		profile("open", "", allow()),
		behind("cali1", wep("n/web", "10.0.0.1 fd00::1", "app=web", "open")),
		behind("cali2", wep("n/db", "10.0.0.2", "app=db", "open")),
		far,
	}, more...)
}

// with appends outcomes: with("Allow", a, b) is a + " = Allow", b + " = Allow".
func with(want string, flows ...string) []string {
	out := make([]string, len(flows))
	for i, f := range flows {
		out[i] = f + " = " + want
	}
	return out
}

// expect joins the results of with.
func expect(parts ...[]string) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// runWith is run with a Config.
func runWith(t *testing.T, cfg verdict.Config, s scenario) {
	t.Helper()
	t.Run(s.name, func(t *testing.T) {
		e, err := verdict.NewConfigured(worldOf(s.world...), cfg)
		require.NoError(t, err)
		require.Empty(t, e.Rejected())
		for _, line := range s.flows {
			text, want, ok := strings.Cut(line, " = ")
			require.True(t, ok, line)
			x := e.Explain(flowOf(t, text))
			require.Equal(t, want, string(x.Result.Combined), "%s\n%s", line, x)
			require.Equal(t, x.Result, e.Evaluate(flowOf(t, text)), "%s\n%s", line, x)
		}
	})
}

func TestNodeWithoutHostEndpoints(t *testing.T) {
	run(t, []scenario{
		{"no policy applies", onNode(), with("NotApplicable", inHost, outHost, transit)},
		{"workloads keep their policy", onNode(), with("Allow", toPod, fromPod, podToPod, nodePort)},
		{
			"S142 both sides", onNode(ingress("p", deny())),
			expect(with("Deny", toPod, nodePort), with("Allow", fromPod, podToPod)),
		},
		{"S104 the host to its workload", onNode(ingress("p", deny()), egress("q", deny())), with("Allow", hostToPod)},
		{"S105 a workload to its host", onNode(), with("Deny", podToHost)},
		{
			"S103 to itself", onNode(ingress("p", deny()), egress("q", deny())),
			with("NotApplicable", "tcp 10.0.0.1 10.0.0.1:80 @node1"),
		},
		{
			"S103 to itself through a service", onNode(ingress("p", deny())),
			with("Deny", "tcp 10.0.0.1 10.0.0.1:80 @node1 was=10.96.0.1:80"),
		},
		{
			"S103 to itself through a service, egress", onNode(egress("p", deny())),
			with("Deny", "tcp 10.0.0.1 10.0.0.1:80 @node1 was=10.96.0.1:80"),
		},
		{
			"S103 to itself through a service, allowed", onNode(),
			with("Allow", "tcp 10.0.0.1 10.0.0.1:80 @node1 was=10.96.0.1:80"),
		},
		{"the host to itself", onNode(hep("h", "*", "host=")), with("NotApplicable",
			"tcp 192.0.2.1 192.0.2.1:80 @node1", "tcp 127.0.0.1 127.0.0.1:80 @node1",
			"tcp 127.0.0.1 127.0.0.1:80 @node1 in=lo", "tcp ::1 ::1 @node1")},
		{
			"the node of the receiver", onNode(),
			with("Allow", "tcp 10.0.0.1 10.0.9.9:80 @node2 in=vxlan", "tcp 10.0.0.1 10.0.9.9:80 @node1 out=vxlan"),
		},
	})
}

// The addresses of a node are those of its resource, its tunnel devices, its host endpoints, and
// Config.
func TestAddressesOfNodes(t *testing.T) {
	node := &policy.Node{
		Name: "node1", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")},
		IPv4VXLANTunnelAddr: netip.MustParseAddr("10.9.0.1"), IPv6VXLANTunnelAddr: netip.MustParseAddr("fd09::1"),
		IPv4IPIPTunnelAddr: netip.MustParseAddr("10.8.0.1"),
	}
	h := by("192.0.2.77", hep("h", "eth7", ""))
	cfg := verdict.Config{Interfaces: map[string]map[string][]netip.Addr{
		"node1": {"eth0": {netip.MustParseAddr("192.0.2.99")}}, "node2": {"eth0": {netip.MustParseAddr("192.0.2.98")}},
	}}
	runWith(t, cfg, scenario{"to the node", onNode(node, h), expect(
		with("NotApplicable", inHost, "tcp 198.51.100.9 10.9.0.1 @node1 in=eth0",
			"tcp fd00:9::9 fd09::1 @node1 in=eth0", "tcp 198.51.100.9 10.8.0.1 @node1 in=eth0",
			"tcp 198.51.100.9 192.0.2.77 @node1 in=eth0", "tcp 198.51.100.9 192.0.2.99 @node1 in=eth0"),
		with("Deny", "tcp 198.51.100.9 192.0.2.98 @node1 in=eth0", "tcp 198.51.100.9 192.0.2.2 @node1 in=eth0"),
	)})
}

// Two workloads cannot share an interface. It belongs to the one with the smaller key, unless the
// flow names the other.
func TestSharedInterface(t *testing.T) {
	e := verdict.New(worldOf(onNode(behind("cali1", wep("n/alt", "10.0.0.7", "", "open")))...))
	f := flowOf(t, "tcp 10.0.0.7 198.51.100.9:80 @node1 in=cali1 out=eth0")
	require.Equal(t, "alt", e.Explain(f).Egress.Endpoint.Name)
	f = flowOf(t, fromPod+" in=cali1")
	require.Equal(t, verdict.ByFalseSource, e.Explain(f).Egress.Decision.By)
	f.SrcEndpoint = wep("n/web", "", "").Key()
	require.Equal(t, verdict.Allow, e.Evaluate(f).Combined)
}

// A flow whose source or destination is unknown in the world is denied, as is a contradictory one.
func TestFlowsThatCannotExist(t *testing.T) {
	e := verdict.New(worldOf(onNode()...))
	web, far := wep("n/web", "", "").Key(), wep("n/far", "", "").Key()
	for name, f := range map[string]verdict.Flow{
		"no way in":                    flowOf(t, "tcp 198.51.100.9 10.0.0.1:80 @node1"),
		"no way out":                   flowOf(t, "tcp 10.0.0.1 198.51.100.9:80 @node1"),
		"the workload of another node": flowOf(t, "tcp 10.0.0.1 10.0.9.9:80 @node1"),
		"no such node":                 flowOf(t, "tcp 10.0.0.1 10.0.0.2:80 @node3"),
		"interface without node":       flowOf(t, "tcp 10.0.0.1 10.0.0.2:80 in=eth0"),
		"out without node":             flowOf(t, "tcp 10.0.0.1 10.0.0.2:80 out=eth0"),
		"broadcast to the node":        flowOf(t, "udp 192.0.2.254:67 255.255.255.255:68 @node1 in=eth0"),
		"state":                        flowOf(t, "tcp 10.0.0.1 10.0.0.2:80 new"),
		"two families":                 flowOf(t, "tcp 10.0.0.1 10.0.0.2:80 was=[fd00::1]:80"),
		"sender of another node": func() verdict.Flow {
			f := flowOf(t, podToPod)
			f.SrcEndpoint = far
			return f
		}(),
		"sender that is not there": func() verdict.Flow {
			f := flowOf(t, podToPod)
			f.SrcEndpoint.Name = "gone"
			return f
		}(),
		"sender behind another interface": func() verdict.Flow {
			f := flowOf(t, podToPod+" in=cali2")
			f.SrcEndpoint = web
			return f
		}(),
		"receiver behind another interface": func() verdict.Flow {
			f := flowOf(t, "tcp 10.0.0.2 10.0.0.1:80 @node1 out=cali2")
			f.DstEndpoint = web
			return f
		}(),
	} {
		x := e.Explain(f)
		require.Equal(t, verdict.ByInvalidFlow, x.Egress.Decision.By, name)
		require.NotEmpty(t, x.Egress.Decision.Detail, name)
		require.Equal(t, verdict.Result{Egress: verdict.Deny, Ingress: verdict.Deny, Combined: verdict.Deny}, x.Result,
			name)
		require.Equal(t, x.Result, e.Evaluate(f), name)
	}
	f := flowOf(t, podToPod+" in=cali1 out=cali2")
	f.SrcEndpoint, f.DstEndpoint = web, wep("n/db", "", "").Key()
	require.Equal(t, verdict.Allow, e.Evaluate(f).Combined)
}

// The interface of a refused workload is as any other of the node: its policy and its source check
// do not apply.
func TestRejectedWorkload(t *testing.T) {
	bad := behind("cali1", wep("n/web", "10.0.0.1", "app=web"))
	bad.MAC = "none"
	for name, c := range map[string]struct {
		more []policy.Resource
		want verdict.Outcome
	}{
		"no host endpoint":          {nil, verdict.NotApplicable},
		"of that name":              {[]policy.Resource{hep("h", "cali1", "")}, verdict.Deny},
		"for all interfaces":        {[]policy.Resource{hep("h", "*", "")}, verdict.Deny},
		"for all interfaces, open":  {[]policy.Resource{hep("h", "*", "", "open")}, verdict.Allow},
		"of another interface":      {[]policy.Resource{hep("h", "eth0", "")}, verdict.NotApplicable},
		"with policy of a workload": {[]policy.Resource{egress("p", deny())}, verdict.NotApplicable},
	} {
		e := verdict.New(worldOf(onNode(append(c.more, bad)...)...))
		require.Contains(t, e.Rejected(), bad.Key())
		require.Equal(t, c.want, e.Evaluate(flowOf(t, "tcp 10.0.0.77 192.0.2.1:80 @node1 in=cali1")).Combined, name)
	}
	e := verdict.New(worldOf(onNode(bad)...))
	require.Equal(t, verdict.ByInvalidFlow, e.Explain(flowOf(t, "tcp 10.0.0.1 192.0.2.1:80 @node1")).Egress.Decision.By)
}

func TestHostEndpointLists(t *testing.T) {
	h, other := hep("h", "eth0", "host="), tcpTo(policy.Allow, 9)
	run(t, []scenario{
		{"S107 nothing allows", onNode(h), expect(with("Deny", inHost, outHost),
			with("Allow", toPod, fromPod, transit, nodePort))},
		{"profiles of a host endpoint", onNode(hep("h", "eth0", "", "open")), with("Allow", inHost, outHost)},
		{"S34 a profile that is not there", onNode(hep("h", "eth0", "", "gone", "open")), with("Deny", inHost,
			outHost)},
		{"normal policy is for the host's own traffic", onNode(h, onHost("p", bothWays(plain), allow())), with("Allow",
			inHost, outHost, transit)},
		{"S109 and for no other", onNode(h, onHost("p", bothWays(plain), deny())), expect(with("Deny", inHost, outHost),
			with("Allow", toPod, fromPod, transit))},
		{"S109 apply on forward", onNode(h, onHost("p", onForward, deny())), expect(with("Deny", inHost, toPod, transit,
			nodePort), with("Allow", fromPod))},
		{"S109 on the way out", onNode(h, onHost("p", outward(onForward), deny())), expect(with("Deny", outHost,
			fromPod), with("Allow", toPod, transit))},
		{
			"S39 apply on forward applies to the host, too", onNode(h, onHost("p", bothWays(onForward), allow())),
			with("Allow", inHost, outHost, toPod, fromPod, transit),
		},
		{"S26 end of tier on forward", onNode(h, onHost("p", onForward, other)), with("Deny", toPod, transit, inHost)},
		{"S109 passed by all tiers", onNode(h, onHost("p", onForward, pass())), expect(with("Allow", toPod, transit),
			with("Deny", inHost))},
		{"S30 forwarded traffic has no profiles", onNode(hep("h", "eth0", "host=", "none"), profile("none", "", deny()),
			onHost("p", onForward, pass())), with("Allow", toPod)},
		{"S20 staged on forward", onNode(h, onHost("p", stagedForward, deny())), with("Allow", toPod, transit)},
		{"S40 lists of host endpoints are not for workloads", onNode(
			ingress("a", allow()), egress("b", allow()),
			func() policy.Resource { p := in("", -1, ingress("u", deny())); noTrack(p); return p }(),
			func() policy.Resource { p := in("", -1, egress("v", deny())); noTrack(p); return p }(),
			func() policy.Resource { p := in("", -1, ingress("w", deny())); beforeDNAT(p); return p }(),
		), with("Allow", toPod, fromPod, nodePort, "tcp 198.51.100.9 10.0.0.1:80", "tcp 10.0.0.1 198.51.100.9:80")},
		{"S40 nor does one alone end a tier", onNode(
			func() policy.Resource { p := ingress("u"); noTrack(p); return p }(),
		), with("Allow", toPod, "tcp 198.51.100.9 10.0.0.1:80")},
		{
			"a workload's apply-on-forward policy is normal",
			onNode(func() policy.Resource { p := ingress("u"); onForward(p); return p }()), with("Deny", toPod),
		},
		{"S36 untracked policy has no end of tier", onNode(h, onHost("u", noTrack, other),
			onHost("p", plain, allow())), with("Allow", inHost, toPod)},
		{"S36 nor has pre-DNAT policy", onNode(h, onHost("u", beforeDNAT, other),
			onHost("p", plain, allow())), with("Allow", inHost, toPod)},
		{"S36 pass leads to the next tier", onNode(h, tierOf("a", 1, policy.Deny),
			in("a", 1, onHost("u", noTrack, pass(), deny())),
			in("", 1, onHost("v", noTrack, tcpTo(policy.Deny, 80)))), with("Deny", inHost)},
		{"S37 untracked policy has no profiles", onNode(hep("h", "eth0", "host=", "none"), profile("none", "", deny()),
			onHost("u", noTrack, pass())), with("Allow", toPod)},
		{"S122 allowed before connection tracking", onNode(h, onHost("u", noTrack, allow()),
			onHost("p", onForward, deny())), with("Allow", inHost, toPod)},
		{"S122 allowed before NAT", onNode(h, onHost("u", beforeDNAT, allow()),
			onHost("p", onForward, deny())), with("Allow", inHost, toPod, nodePort)},
		{"S122 but not by the workload", onNode(h, onHost("u", beforeDNAT, allow()), ingress("p", deny())), with("Deny",
			toPod, nodePort)},
		{"S122 nor by untracked policy", onNode(h, onHost("u", noTrack, allow()), ingress("p", deny())), with("Deny",
			toPod)},
		{"S122 nor on the way out by another interface", onNode(h, hep("h1", "eth1", "other="),
			onHost("u", beforeDNAT, allow()), &policy.Policy{
				Name: "p", Selector: "has(other)", ApplyOnForward: true, Egress: []policy.Rule{deny()},
			}), with("Deny", transit)},
		{"untracked deny", onNode(h, onHost("u", noTrack, deny()), onHost("p", bothWays(onForward),
			allow())), expect(with("Deny", inHost, toPod, transit), with("Allow", outHost, fromPod))},
		{"untracked allow comes before pre-DNAT deny", onNode(h, onHost("u", noTrack, allow()),
			onHost("d", beforeDNAT, deny())), with("Allow", inHost)},
		{"pre-DNAT deny", onNode(h, onHost("u", beforeDNAT, deny()), onHost("p", bothWays(onForward),
			allow())), expect(with("Deny", inHost, toPod, transit), with("Allow", outHost, fromPod))},
	})
}

func TestPreDNATIgnoresEgress(t *testing.T) { // S38
	p := onHost("u", beforeDNAT, allow())
	p.Types, p.Egress = nil, []policy.Rule{deny()}
	e := verdict.New(worldOf(onNode(hep("h", "eth0", "", "open"), p)...))
	if err := p.Validate(); err != nil {
		require.Contains(t, e.Rejected(), p.Key()) // the whole policy is absent
	}
	require.Equal(t, verdict.Allow, e.Evaluate(flowOf(t, outHost)).Combined)
	require.Equal(t, verdict.Allow, e.Evaluate(flowOf(t, fromPod)).Combined)
}

func TestPreDNATSeesOriginalDestination(t *testing.T) {
	h := hep("h", "eth0", "host=")
	run(t, []scenario{
		{
			"S121 deny on the node port", onNode(h, onHost("u", beforeDNAT, tcpTo(policy.Deny, 30080))),
			with("Deny", nodePort),
		},
		{
			"S121 allowing the service port does not open it",
			onNode(h, onHost("u", beforeDNAT, tcpTo(policy.Allow, 8055), deny())), with("Deny", nodePort),
		},
		{
			"S121 allowing the node port does", onNode(h, onHost("u", beforeDNAT, tcpTo(policy.Allow, 30080), deny())),
			with("Allow", nodePort),
		},
		{
			"S76 the original address", onNode(h, onHost("u", beforeDNAT, policy.Rule{
				Action: policy.Deny, Destination: policy.EntityRule{Nets: netsOf("192.0.2.1/32")},
			})),
			expect(with("Deny", nodePort, inHost), with("Allow", toPod)),
		},
		{
			"S76 in untracked policy", onNode(h, onHost("u", noTrack, tcpTo(policy.Deny, 30080))),
			expect(with("Deny", nodePort), with("Allow", toPod)),
		},
		{
			"S76 the translated one in forward policy", onNode(h, onHost("u", onForward, tcpTo(policy.Allow, 8055))),
			expect(with("Allow", nodePort), with("Deny", toPod)),
		},
		{
			"S76 and in workload policy", onNode(h, ingress("u", tcpTo(policy.Allow, 8055))),
			expect(with("Allow", nodePort), with("Deny", toPod)),
		},
		{
			"S76 a port translated on the host", onNode(h, onHost("p", plain, tcpTo(policy.Allow, 8080))),
			expect(with("Allow", "tcp 198.51.100.9 192.0.2.1:8080 @node1 in=eth0 was=192.0.2.1:80"),
				with("Deny", inHost)),
		},
		{
			"S76 on the way out",
			onNode(h, onHost("u", outward(noTrack), tcpTo(policy.Deny, 81)), onHost("p", outward(plain), allow())),
			expect(with("Deny", outHost+" was=10.96.0.1:81"), with("Allow", outHost)),
		},
		{
			"what is not tracked is not translated", onNode(h, onHost("u", noTrack, allow())),
			expect(with("Deny", nodePort), with("Allow", inHost)),
		},
	})
}

// S115: untracked connections have no state: each direction needs a rule, and if one is removed,
// neither direction works.
func TestUntracked(t *testing.T) {
	h := hep("h", "eth0", "host=")
	back := "tcp 192.0.2.1:80 198.51.100.9:31245 @node1 out=eth0 Invalid"
	in80, out80 := onHost("in", noTrack, tcpTo(policy.Allow, 80)), onHost("out", outward(noTrack),
		tcpFrom(policy.Allow, 80))
	run(t, []scenario{
		{"S115 both directions", onNode(h, in80, out80), with("Allow", inHost, back)},
		{"S115 no way back", onNode(h, in80), expect(with("Allow", inHost), with("Deny", back))},
		{"S115 no way in", onNode(h, out80), expect(with("Deny", inHost), with("Allow", back))},
		{
			"forwarded traffic has no untracked egress", onNode(h, onHost("out", outward(noTrack), deny())),
			expect(with("Allow", fromPod), with("Deny", outHost)),
		},
		{"S117 comes after untracked policy", onNode(h, in80), with("Allow", inHost+" Invalid")},
		{
			"established connections see untracked policy", onNode(h, onHost("in", noTrack, deny())),
			with("Deny", inHost+" Established"),
		},
		{
			"workloads have none", onNode(hep("h", "*", "host="), onHost("in", noTrack, deny())),
			with("Allow", fromPod, podToPod),
		},
	})
	x := verdict.Explain(worldOf(onNode(h, out80)...),
		flowOf(t, "tcp 192.0.2.1:80 198.51.100.9:31245 @node1 out=eth0 was=10.96.0.1:80"))
	require.Equal(t, verdict.ByInvalidFlow, x.Egress.Decision.By)
	require.Equal(t, 1, strings.Count(x.String(), "is not translated"), "%s", x)
	require.Equal(t, "out", x.Egress.Decision.Policy.Name, "the policy that allows it is named")
	require.Contains(t, x.Egress.Decision.String(), "is not translated (by rule "+x.Egress.Decision.RuleID+
		" of Policy/out in tier default)")
	// A connection to a workload that an untracked policy allows has no state.
	x = verdict.Explain(worldOf(onNode(h, in80, ingress("p", deny()))...), flowOf(t, toPod+" Established"))
	require.Equal(t, verdict.Deny, x.Result.Combined, "%s", x)
}

func TestConnectionState(t *testing.T) {
	down := behind("cali1", wep("n/web", "10.0.0.1", "app=web", "open"))
	down.AdminState = policy.AdminDown
	h := hep("h", "eth0", "host=")
	all := []string{
		inHost, outHost, toPod, fromPod, transit, nodePort, podToPod, "tcp 198.51.100.9 10.0.0.1:80",
		"tcp 10.0.0.1 198.51.100.9:80",
	}
	state := func(s string, flows ...string) []string {
		out := make([]string, len(flows))
		for i, f := range flows {
			out[i] = f + " " + s
		}
		return out
	}
	shut := onNode(h, hep("h1", "eth1", "host="), onHost("p", bothWays(onForward), deny()),
		onHost("q", beforeDNAT, deny()), &policy.Policy{
			Name: "r", Selector: "has(app)", Types: []policy.Type{policy.Ingress, policy.Egress},
		})
	open := onNode(h, hep("h1", "eth1", "host="), onHost("p", bothWays(onForward), allow()),
		onHost("q", beforeDNAT, allow()))
	run(t, []scenario{
		{"S116 new connections are refused", shut, with("Deny", all...)},
		{"S116 S118 established ones and replies are not", shut, with("Allow", state("Established", all...)...)},
		{"allowed", open, with("Allow", state("New", all...)...)},
		{"S117 invalid packets", open, with("Deny", state("Invalid", all...)...)},
		{
			"S117 without policy, they are NotApplicable", onNode(),
			with("NotApplicable", state("Invalid", inHost, transit)...),
		},
		{"S109 without apply-on-forward policy", onNode(h), with("Allow", transit+" Invalid")},
		{"S35 an endpoint that is down", onNode(down), with("Deny",
			state("Established", toPod, fromPod, podToPod, podToHost, hostToPod, "tcp 198.51.100.9 10.0.0.1:80")...)},
		{"S35 new", onNode(down), with("Deny", toPod, fromPod, podToHost, hostToPod)},
		{"S105 replies of a workload to its host", onNode(), with("Allow", podToHost+" Established")},
		{"S104 invalid", onNode(), with("Allow", hostToPod+" Invalid")},
		{
			"S169 related to the workloads' own connection", shut,
			with("Allow", state("Related", toPod, fromPod, podToPod, podToHost, hostToPod, transit)...),
		},
		{"S169 its own, seen behind NAT", shut, with("Allow",
			"icmp 203.0.113.1 10.0.0.1 3/4 @node1 in=eth0 of=192.0.2.1>10.0.0.1",
			"icmp 10.0.0.1 203.0.113.1 3/4 @node1 out=eth0 of=10.0.0.1>192.0.2.1")},
		{"S169 related to a connection of others", shut, with("Deny",
			"icmp 10.0.0.1 10.0.0.2 3/4 @node1 of=10.0.0.2>198.51.100.9",
			"icmp 10.0.0.1 198.51.100.9 3/4 @node1 out=eth0 of=10.0.0.2>198.51.100.9", "icmp 198.51.100.9 10.0.0.1 "+
				"3/4 @node1 in=eth0 of=10.0.0.2>198.51.100.9", "icmp 10.0.0.1 10.0.0.2 3/4 of=10.0.0.2>198.51.100.9")},
		{
			"S169 the sender may, the receiver may not", onNode(ingress("p", deny())),
			with("Deny", "icmp 10.0.0.2 10.0.0.1 3/4 @node1 of=10.0.0.1>198.51.100.9"),
		},
		{
			"S169 left to policy that allows it", onNode(),
			with("Allow", "icmp 10.0.0.1 198.51.100.9 3/4 @node1 out=eth0 of=10.0.0.2>198.51.100.9"),
		},
	})
	runWith(t, verdict.Config{Host: policy.HostConfig{KeepInvalid: true}}, scenario{
		"S117 left to policy", open, with("Allow", state("Invalid", all...)...),
	})
	runWith(t, verdict.Config{Host: policy.HostConfig{KeepInvalid: true}}, scenario{
		"S117 left to policy that denies", shut, with("Deny", state("Invalid", all...)...),
	})
}

// S106, S108, S110: the host endpoint that governs each interface.
func TestAllInterfaces(t *testing.T) {
	star, eth1 := hep("z", "*", "host="), hep("a", "eth1", "", "open")
	in1 := "tcp 198.51.100.9 192.0.2.1:80 @node1 in=eth1"
	run(t, []scenario{
		{
			"S108 all other interfaces", onNode(star, eth1),
			expect(with("Deny", inHost, outHost), with("Allow", in1)),
		},
		{"S108 other nodes", onNode(star), with("Allow", "tcp 192.0.2.1 10.0.9.9:80 @node2 in=eth0")},
		{"S106 no effect on workload to host", onNode(hep("h", "cali1", "host="), hep("h0", "eth0", "host="),
			onHost("p", bothWays(onForward), deny())), with("Deny", podToHost)},
		{"S110 on the way in", onNode(star, onHost("p", onForward, deny())), with("Deny", fromPod, toPod, podToPod)},
		{
			"S110 on the way out", onNode(star, onHost("p", outward(onForward), deny())),
			with("Deny", fromPod, toPod, podToPod),
		},
		{"S110 both", onNode(star, onHost("p", bothWays(onForward), allow())), with("Allow", fromPod, toPod, podToPod)},
		{
			"S110 and the workload's own", onNode(star, onHost("p", bothWays(onForward), allow()), egress("e", deny())),
			with("Deny", fromPod),
		},
		{"S110 one on the outer interface, one for all", onNode(star, hep("e", "eth0", "other="),
			onHost("p", onForward, deny())), expect(with("Deny", fromPod), with("Allow", toPod))},
		{"S109 none", onNode(star), with("Allow", fromPod, toPod, podToPod, transit)},
		{
			"S105 pre-DNAT policy for what workloads send", onNode(star, onHost("p", beforeDNAT, deny())),
			with("Deny", fromPod, podToPod, toPod),
		},
		{"S123 the smallest name among those for all", onNode(hep("c", "*", "", "open"), hep("b", "*", "", "none"),
			profile("none", "", deny())), with("Deny", inHost)},
		{"S123 the next one", onNode(hep("c", "*", "", "open")), with("Allow", inHost)},
		{"S123 the smallest name", onNode(hep("c", "eth0", "", "none"), hep("b", "eth0", "", "open"),
			profile("none", "", deny())), with("Allow", inHost)},
		{
			"S102 a host endpoint with neither name nor address is inert",
			onNode(hep("a", "", "", "none"), profile("none", "", deny())), with("NotApplicable", inHost),
		},
	})
	cfg := verdict.Config{Interfaces: map[string]map[string][]netip.Addr{"node1": {
		"eth0": {netip.MustParseAddr("192.0.2.1")}, "eth1": {netip.MustParseAddr("203.0.113.1")}, "lo": nil,
	}}}
	for _, s := range []scenario{
		{
			"S108 a name does not match by address",
			onNode(by("192.0.2.1", hep("a", "eth1", "host=")), onHost("p", plain, deny())),
			expect(with("NotApplicable", inHost), with("Deny", in1)),
		},
		{
			"by address", onNode(by("203.0.113.1", hep("a", "", "", "open"))),
			expect(with("Allow", in1), with("NotApplicable", inHost)),
		},
		{
			"S108 by address is specific", onNode(by("203.0.113.1", hep("a", "", "", "open")), star),
			expect(with("Allow", in1), with("Deny", inHost)),
		},
		{
			"S123 by name or by address", onNode(by("192.0.2.1", hep("b", "", "", "open")), hep("c", "eth0", "")),
			with("Allow", inHost),
		},
		{
			"S123 by name or by address, the other",
			onNode(by("192.0.2.1", hep("c", "", "", "open")), hep("b", "eth0", "")), with("Deny", inHost),
		},
	} {
		runWith(t, cfg, s)
	}
	x := verdict.Explain(worldOf(onNode(by("203.0.113.1", hep("a", "", "", "open")))...), flowOf(t, in1))
	require.Equal(t, verdict.ByInvalidFlow, x.Egress.Decision.By, "unknown addresses")
	require.Contains(t, x.String(), "Config.Interfaces")
}
