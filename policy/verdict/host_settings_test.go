// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// S105: traffic of a workload to its own host. Rows are the action and the workload's egress policy
// (none, and no profile either; allow; deny). Columns are the normal policy of a host endpoint for
// all interfaces (none, allow, deny), each with the pre-DNAT policy (none, allow, deny). A dot
// means allowed.
func TestWorkloadToHost(t *testing.T) {
	normal := []*policy.Policy{nil, onHost("n", bothWays(onForward), allow()), onHost("n", bothWays(onForward), deny())}
	before := []*policy.Policy{nil, onHost("d", beforeDNAT, allow()), onHost("d", beforeDNAT, deny())}
	out := map[string]*policy.Policy{"allow": egress("e", allow()), "deny": egress("e", deny())}
	for _, c := range []struct {
		action policy.HostAction
		egress string
		want   string
	}{
		{"", "none", "XXX XXX XXX"},
		{"", "allow", "XXX XXX XXX"},
		{"", "deny", "XXX XXX XXX"},
		{policy.HostDrop, "allow", "XXX XXX XXX"},
		{policy.HostDrop, "deny", "XXX XXX XXX"},
		{policy.HostAccept, "none", "XXX XXX XXX"},
		{policy.HostAccept, "allow", "..X ..X ..X"},
		{policy.HostAccept, "deny", "XXX XXX XXX"},
		{policy.HostReturn, "none", "XXX XXX XXX"},
		{policy.HostReturn, "allow", "..X ..X ..X"},
		{policy.HostReturn, "deny", "XXX XXX XXX"},
	} {
		for i, n := range normal {
			for j, d := range before {
				pod := behind("cali1", wep("n/web", "10.0.0.1", "app=web"))
				w := worldOf(onNode(pod, hep("h", "*", "host="))...)
				for _, p := range []*policy.Policy{n, d, out[c.egress]} {
					if p != nil {
						w.Set(p)
					}
				}
				e, err := verdict.NewConfigured(w,
					verdict.Config{Host: policy.HostConfig{EndpointToHostAction: c.action}})
				require.NoError(t, err)
				x := e.Explain(flowOf(t, podToHost))
				want := map[byte]verdict.Outcome{'.': verdict.Allow, 'X': verdict.Deny}[c.want[4*i+j]]
				require.Equal(t, want, x.Result.Combined, "%+v\n%s", c, x)
				require.Equal(t, x.Result, e.Evaluate(flowOf(t, podToHost)))
			}
		}
	}
	// HostReturn leaves ingress to other rules.
	e, err := verdict.NewConfigured(worldOf(onNode()...),
		verdict.Config{Host: policy.HostConfig{EndpointToHostAction: policy.HostReturn}})
	require.NoError(t, err)
	require.Equal(t, verdict.NotApplicable, e.Evaluate(flowOf(t, podToHost)).Ingress)
}

func TestHostToWorkload(t *testing.T) { // S104
	shut := onNode(hep("h", "*", "host="), onHost("p", bothWays(onForward), deny()), ingress("i", deny()))
	set := func(a policy.HostAction) verdict.Config {
		return verdict.Config{Host: policy.HostConfig{HostToEndpointAction: a}}
	}
	runWith(t, set(""), scenario{"default", shut, with("Allow", hostToPod)})
	runWith(t, set(policy.HostAccept), scenario{"Accept", shut, with("Allow", hostToPod)})
	runWith(t, set(policy.HostDrop), scenario{
		"Drop", onNode(), expect(with("Deny", hostToPod), with("Allow", hostToPod+" Established")),
	})
	runWith(t, set(policy.HostReturn), scenario{"Return, policy denies", shut, with("Deny", hostToPod)})
	runWith(t, set(policy.HostReturn), scenario{"Return, policy allows", onNode(), with("Allow", hostToPod)})
}

func TestInvalidConfigIsRefused(t *testing.T) {
	_, err := verdict.NewConfigured(nil, verdict.Config{Host: policy.HostConfig{EndpointToHostAction: "Pass"}})
	require.ErrorContains(t, err, "verdict: new: policy: host config: endpointToHostAction")
}

func TestRulesForPacketsOfWorkloads(t *testing.T) {
	web := behind("cali1", wep("n/web", "10.0.0.1", "app=web", "open"))
	web.AllowSpoofedSourcePrefixes = netsOf("10.7.0.0/16")
	web.IPNATs = []policy.IPNAT{
		{InternalIP: netip.MustParseAddr("10.0.0.1"), ExternalIP: netip.MustParseAddr("203.0.113.7")},
	}
	via := func(src, more string) string {
		return "tcp " + src + " 198.51.100.9:80 @node1 in=cali1 out=eth0" + more
	}
	udp := func(port string) string { return "udp 10.0.0.1 198.51.100.9:" + port + " @node1 out=eth0" }
	const ipip = "4 10.0.0.1 198.51.100.9 @node1 out=eth0"
	run(t, []scenario{
		{"S119 its own address", onNode(web), with("Allow", via("10.0.0.1", ""))},
		{"S119 that of another", onNode(web), with("Deny", via("10.0.0.2", ""), via("198.51.100.7", ""),
			via("192.0.2.1", ""), via("10.0.0.2", " Established"))},
		{"S119 to its host", onNode(web), with("Deny", "tcp 10.0.0.2 192.0.2.1:80 @node1 in=cali1 Established")},
		{"S119 to another workload", onNode(web), with("Deny", "tcp 10.0.0.9 10.0.0.2:80 @node1 in=cali1")},
		{"S119 prefixes that it may use", onNode(web), with("Allow", via("10.7.1.1", ""))},
		{
			"S119 those of the other family", onNode(web),
			with("Deny", "tcp fd00::7 2001:db8::1 @node1 in=cali1 out=eth0"),
		},
		{"S119 not its floating address", onNode(web), with("Deny", via("203.0.113.7", ""))},
		{
			"a floating address as destination", onNode(web, ingress("p", tcpTo(policy.Allow, 80))),
			with("Allow", "tcp 198.51.100.9 10.0.0.1:80 @node1 in=eth0 was=203.0.113.7:80"),
		},
		{"S119 is of the node", onNode(web), with("Allow", "tcp 10.0.0.2 10.0.0.1:80")},
		{"S120 VXLAN", onNode(egress("p", allow())), expect(with("Deny", udp("4789")),
			with("Allow", udp("4790"), "tcp 10.0.0.1 198.51.100.9:4789 @node1 out=eth0"))},
		{
			"S120 IP in IP", onNode(egress("p", allow())),
			with("Deny", ipip, "4 10.0.0.1 192.0.2.1 @node1", "4 10.0.0.1 10.0.0.2 @node1"),
		},
		{
			"S120 to a workload from elsewhere", onNode(),
			with("Allow", "udp 198.51.100.9 10.0.0.1:4789 @node1 in=eth0", "4 198.51.100.9 10.0.0.1 @node1 in=eth0"),
		},
		{
			"S120 the host itself", onNode(hep("h", "*", "", "open")),
			with("Allow", "udp 192.0.2.1 192.0.2.2:4789 @node1 out=eth0"),
		},
	})
	// Without a node, only policy is evaluated.
	run(t, []scenario{
		{"S120 is of the node", onNode(), with("Allow", "udp 10.0.0.1 198.51.100.9:4789", "4 10.0.0.1 198.51.100.9")},
	})
	f := flowOf(t, "tcp 10.0.0.2 198.51.100.9:80")
	f.SrcEndpoint = web.Key()
	require.Equal(t, verdict.Allow, verdict.Evaluate(worldOf(onNode()...), f).Combined)

	set := func(h policy.HostConfig) verdict.Config { return verdict.Config{Host: h} }
	runWith(t, set(policy.HostConfig{AllowVXLANFromWorkloads: true}),
		scenario{"VXLAN allowed", onNode(), expect(with("Allow", udp("4789")), with("Deny", ipip))})
	runWith(t, set(policy.HostConfig{AllowVXLANFromWorkloads: true}),
		scenario{"VXLAN left to policy", onNode(egress("p", deny())), with("Deny", udp("4789"))})
	runWith(t, set(policy.HostConfig{AllowIPIPFromWorkloads: true}),
		scenario{"IP in IP allowed", onNode(), expect(with("Deny", udp("4789")), with("Allow", ipip))})
	runWith(t, set(policy.HostConfig{VXLANPort: 4790}),
		scenario{"another port", onNode(), expect(with("Allow", udp("4789")), with("Deny", udp("4790")))})
}

// S178: encapsulated packets to the node itself are allowed only from addresses of nodes, in every
// state.
func TestEncapsulationFromNodes(t *testing.T) {
	set := func(h policy.HostConfig) verdict.Config { return verdict.Config{Host: h} }
	other := &policy.Node{
		Name: "node2", Addresses: []netip.Prefix{
			netip.MustParsePrefix("192.0.2.2/24"), netip.MustParsePrefix("fd01::2/64"),
		},
		IPv4VXLANTunnelAddr: netip.MustParseAddr("10.0.2.0"),
	}
	received := func(src, dst string) []string {
		return []string{"udp " + src + " " + dst + ":4789 @node1 in=eth0", "4 " + src + " " + dst + " @node1 in=eth0"}
	}
	nodesOnly := policy.HostConfig{VXLANFromNodesOnly: true, IPIPFromNodesOnly: true}
	for _, c := range []struct {
		host policy.HostConfig
		want []string
	}{
		{policy.HostConfig{}, []string{"Allow", "Allow"}},
		{policy.HostConfig{VXLANFromNodesOnly: true}, []string{"Deny", "Allow"}},
		{policy.HostConfig{VXLANFromNodesOnly: true, VXLANPort: 4790}, []string{"Allow", "Allow"}},
		{policy.HostConfig{IPIPFromNodesOnly: true}, []string{"Allow", "Deny"}},
		{nodesOnly, []string{"Deny", "Deny"}},
	} {
		e, err := verdict.NewConfigured(worldOf(onNode(other, hep("h", "*", "", "open"))...), set(c.host))
		require.NoError(t, err)
		for _, src := range []string{"198.51.100.9", "10.0.2.0", "192.0.2.3"} {
			for i, text := range received(src, "192.0.2.1") {
				f := flowOf(t, text)
				require.Equal(t, verdict.Outcome(c.want[i]), e.Evaluate(f).Combined, "%+v: %s", c.host, text)
				f.State = verdict.StateEstablished
				require.Equal(t, verdict.Outcome(c.want[i]), e.Evaluate(f).Combined, "established: %+v: %s",
					c.host, text)
			}
		}
		for _, text := range append(received("192.0.2.2", "192.0.2.1"), "udp 127.0.0.1 192.0.2.1:4789 @node1 in=lo",
			"udp 198.51.100.9 10.0.0.1:4789 @node1 in=eth0", "udp 198.51.100.9 192.0.2.1:4788 @node1 in=eth0",
			"udp 192.0.2.1 198.51.100.9:4789 @node1 out=eth0") {
			require.NotEqual(t, verdict.Deny, e.Evaluate(flowOf(t, text)).Combined, "%+v: %s", c.host, text)
		}
	}
	e, err := verdict.NewConfigured(worldOf(onNode(other)...), set(nodesOnly))
	require.NoError(t, err)
	x := e.Explain(flowOf(t, received("198.51.100.9", "192.0.2.1")[0]))
	require.Equal(t, verdict.ByEncapsulationSource, x.Ingress.Decision.By)
	require.Contains(t, x.String(), "only nodes may send VXLAN")
}

func TestFailsafes(t *testing.T) { // S111
	h := hep("h", "eth0", "host=")
	shut := onNode(h, onHost("p", bothWays(onForward), deny()), onHost("u", bothWays(noTrack), deny()),
		onHost("d", beforeDNAT, deny()))
	in := func(proto, port string) string { return proto + " 198.51.100.9 192.0.2.1:" + port + " @node1 in=eth0" }
	out := func(proto, port string) string { return proto + " 192.0.2.1 198.51.100.9:" + port + " @node1 out=eth0" }
	for _, world := range [][]policy.Resource{shut, onNode(h)} {
		var flows []string
		add := func(want string, of func(proto, port string) string, proto string, ports ...string) {
			for _, p := range ports {
				flows = append(flows, of(proto, p)+" = "+want)
			}
		}
		add("Allow", in, "tcp", "22", "179", "2379", "2380", "5473", "6443", "6666", "6667")
		add("Allow", in, "udp", "68")
		add("Deny", in, "tcp", "68", "80", "21", "23", "2378", "6665")
		add("Deny", in, "udp", "22", "53", "67", "69")
		add("Deny", in, "sctp", "22", "179")
		add("Allow", out, "tcp", "179", "2379", "2380", "5473", "6443", "6666", "6667")
		add("Allow", out, "udp", "53", "67")
		add("Deny", out, "tcp", "22", "53", "80") // S113
		add("Deny", out, "udp", "68", "54")
		run(t, []scenario{{"S111 S113", world, flows}})
	}
	run(t, []scenario{
		{"S111 not for forwarded traffic", shut, with("Deny",
			"tcp 198.51.100.9 10.0.0.1:22 @node1 in=eth0", "tcp 10.0.0.1 198.51.100.9:6443 @node1 out=eth0",
			"tcp 198.51.100.9 203.0.113.9:22 @node1 in=eth0 out=eth1")},
		{"S111 not for workloads", onNode(hep("h", "*", "host="), onHost("d", beforeDNAT, deny()),
			ingress("p", deny())), with("Deny",
			"tcp 10.0.0.2 192.0.2.1:22 @node1", "tcp 10.0.0.2 10.0.0.1:22 @node1")},
		{
			"S111 not for forwarded traffic before NAT", onNode(h, onHost("d", beforeDNAT, deny())),
			with("Deny", "tcp 198.51.100.9 10.0.0.1:22 @node1 in=eth0"),
		},
		{
			"S111 not for forwarded traffic, untracked", onNode(h, onHost("d", noTrack, deny())),
			with("Deny", "tcp 198.51.100.9 10.0.0.1:22 @node1 in=eth0"),
		},
		{
			"S111 not for what others forward in the name of the host",
			onNode(h, hep("h1", "eth1", "host="), onHost("d", outward(onForward), deny())),
			with("Deny", "tcp 192.0.2.1 203.0.113.9:6443 @node1 in=eth0 out=eth1"),
		},
		{"S111 what is addressed to the host before NAT, untracked", onNode(h, onHost("u", noTrack, deny())), expect(
			with("Allow", "tcp 198.51.100.9 10.0.0.1:8055 @node1 in=eth0 was=192.0.2.1:22"),
			with("Deny", "tcp 198.51.100.9 192.0.2.1:22 @node1 in=eth0 was=10.96.0.1:22"))},
		{"S111 what is addressed to the host before NAT, pre-DNAT", onNode(h, onHost("d", beforeDNAT, deny())), expect(
			with("Allow", "tcp 198.51.100.9 10.0.0.1:8055 @node1 in=eth0 was=192.0.2.1:22"),
			with("Deny", "tcp 198.51.100.9 192.0.2.1:22 @node1 in=eth0 was=10.96.0.1:22"))},
		{"S117 comes first", shut, with("Deny", in("tcp", "22")+" Invalid")},
		{"S114 replies from a failsafe port", onNode(h, onHost("u", bothWays(noTrack), deny())), expect(
			with("Allow", "tcp 192.0.2.1:22 198.51.100.9:40000 @node1 out=eth0 Established",
				"udp 198.51.100.9:53 192.0.2.1:40000 @node1 in=eth0 Established"),
			with("Deny", "tcp 192.0.2.1:23 198.51.100.9:40000 @node1 out=eth0 Established",
				"tcp 198.51.100.9:22 192.0.2.1:40000 @node1 in=eth0 Established"))},
		{"S114 in the untracked stage alone", onNode(h, onHost("d", beforeDNAT, deny()),
			onHost("p", outward(plain), deny())), with("Deny",
			"tcp 192.0.2.1:22 198.51.100.9:40000 @node1 out=eth0",
			"udp 198.51.100.9:53 192.0.2.1:40000 @node1 in=eth0")},
	})
	runWith(t, verdict.Config{Host: policy.HostConfig{EndpointToHostAction: policy.HostAccept}}, scenario{
		"S111 not for workloads before NAT", onNode(hep("h", "*", "host="), onHost("d", beforeDNAT, deny())),
		with("Deny", "tcp 10.0.0.1 192.0.2.1:22 @node1"),
	})
	one := policy.Failsafe{Protocol: policy.ProtocolTCP, Port: 22, Net: netip.MustParsePrefix("198.51.100.0/24")}
	of := func(in, out []policy.Failsafe) verdict.Config {
		return verdict.Config{Host: policy.HostConfig{FailsafeInbound: in, FailsafeOutbound: out}}
	}
	runWith(t, of([]policy.Failsafe{one}, []policy.Failsafe{one}), scenario{"S112 peers and family", shut, expect(
		with("Allow", in("tcp", "22"), out("tcp", "22")),
		with("Deny", "tcp 198.51.101.9 192.0.2.1:22 @node1 in=eth0", "tcp 2001:db8::1 [fd00:ff::1]:22 @node1 in=eth0",
			"tcp 192.0.2.1 198.51.101.9:22 @node1 out=eth0"),
		with("Deny", in("tcp", "179"), out("udp", "53")),
	)})
	runWith(t, of([]policy.Failsafe{}, nil),
		scenario{"an empty list is none", shut, expect(with("Deny", in("tcp", "22")), with("Allow", out("udp", "53")))})
	runWith(t, of(nil, []policy.Failsafe{}), scenario{
		"an empty list of outbound is none", shut,
		expect(with("Allow", in("tcp", "22")), with("Deny", out("udp", "53"))),
	})
}

// A host endpoint is a peer by its ExpectedIPs, with its labels, those of its profiles and its
// named ports (S58).
func TestHostEndpointAsPeer(t *testing.T) {
	h := by("192.0.2.1", hep("h", "eth0", "role=node", "zone"))
	h.Ports = []policy.EndpointPort{{Name: "http", Protocol: policy.ProtocolTCP, Port: 8080}}
	zone := profile("zone", "zone=a")
	sees := func(e policy.EntityRule) []policy.Resource { return onNode(h, zone, ingress("p", allowFrom(e))) }
	from := "tcp 192.0.2.1 10.0.0.1:80 @node1 in=eth9"
	named := func(proto policy.Protocol) []policy.Resource {
		return onNode(h, zone,
			egress("p", allowTo(proto, policy.EntityRule{Ports: []policy.Port{policy.PortName("http")}})))
	}
	run(t, []scenario{
		{
			"labels", sees(policy.EntityRule{Selector: `role == "node"`}),
			with("Allow", "tcp 192.0.2.1 10.0.0.1:80", from),
		},
		{
			"labels of a profile", sees(policy.EntityRule{Selector: `zone == "a"`}),
			with("Allow", "tcp 192.0.2.1 10.0.0.1:80"),
		},
		{
			"is in no namespace", sees(policy.EntityRule{NamespaceSelector: "global()"}),
			with("Allow", "tcp 192.0.2.1 10.0.0.1:80"),
		},
		{
			"S129 nor in any", sees(policy.EntityRule{NamespaceSelector: "all()"}),
			with("Deny", "tcp 192.0.2.1 10.0.0.1:80"),
		},
		{
			"S58 named port", named(policy.ProtocolTCP),
			expect(with("Allow", "tcp 10.0.0.1 192.0.2.1:8080"), with("Deny", "tcp 10.0.0.1 192.0.2.1:80")),
		},
		{
			"S58 named port without protocol", named(0),
			expect(with("Allow", "tcp 10.0.0.1 192.0.2.1:8080"), with("Deny", "udp 10.0.0.1 192.0.2.1:8080")),
		},
		{
			"without a node its policy does not count", onNode(h, zone),
			with("NotApplicable", "tcp 192.0.2.1 198.51.100.9:80"),
		},
		{"namespaced policy does not select it", onNode(h, zone,
			&policy.Policy{Namespace: "n", Name: "p", Ingress: []policy.Rule{allow()}}), with("Deny", inHost)},
		{"S58 of the host in its own policy", onNode(h, zone, &policy.Policy{
			Name: "p", Selector: `role == "node"`,
			Ingress: []policy.Rule{
				allowTo(policy.ProtocolTCP, policy.EntityRule{Ports: []policy.Port{policy.PortName("http")}}),
			},
		}), expect(with("Deny", inHost), with("Allow", "tcp 198.51.100.9 192.0.2.1:8080 @node1 in=eth0"))},
	})
}
