// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// backends returns a ServiceBackends of a service, "namespace/service", with ports as in "tcp/80".
func backends(t *testing.T, part, service, addrs, ports string) *policy.ServiceBackends {
	t.Helper()
	b := &policy.ServiceBackends{Name: part}
	b.Namespace, b.Service = split(service)
	for _, a := range strings.Fields(addrs) {
		b.Addresses = append(b.Addresses, netip.MustParseAddr(a))
	}
	for _, port := range strings.Fields(ports) {
		p := withPorts(t, &policy.WorkloadEndpoint{}, "x/"+port).Ports[0]
		b.Ports = append(b.Ports, policy.ServicePort{Protocol: p.Protocol, Port: p.Port})
	}
	return b
}

// Every address of a ServiceBackends serves every port, without a pair for each combination in
// memory.
func TestManyBackends(t *testing.T) {
	const n = 2_000
	part := &policy.ServiceBackends{Namespace: "n", Name: "web-1", Service: "web"}
	for i := range n {
		part.Addresses = append(part.Addresses, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
		part.Ports = append(part.Ports, policy.ServicePort{Protocol: policy.ProtocolTCP, Port: uint16(i + 1)})
	}
	w := worldOf(wep("n/web", "10.0.0.1", ""), part,
		&policy.Policy{Name: "p", Egress: []policy.Rule{{Action: policy.Allow, Destination: of("n/web")}}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	e := verdict.New(w)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(n*1_000), "bytes allocated")
	require.Equal(t, verdict.Allow, e.Evaluate(flowOf(t, "tcp 10.0.0.1 10.1.7.207:2000")).Combined)
	require.Equal(t, verdict.Deny, e.Evaluate(flowOf(t, "tcp 10.0.0.1 10.1.7.207:2001")).Combined)
	require.Equal(t, verdict.Deny, e.Evaluate(flowOf(t, "tcp 10.0.0.1 10.1.7.208:2000")).Combined)
}

func of(service string) policy.EntityRule {
	namespace, name := split(service)
	return policy.EntityRule{Services: &policy.ServiceMatch{Namespace: namespace, Name: name}}
}

func TestServices(t *testing.T) {
	web := wep("n/web", "10.0.0.1", "app=web")
	one := backends(t, "web-1", "n/web", "10.0.1.1 fd00::1", "tcp/80 udp/53")
	two := backends(t, "web-2", "n/web", "10.0.1.1 10.0.1.2", "tcp/81")
	other := backends(t, "web-1", "m/web", "10.0.1.9", "tcp/80")
	bare := backends(t, "bare-1", "n/bare", "10.0.1.7", "")
	to := func(policyName, service string) *policy.Policy {
		return egress(policyName, policy.Rule{Action: policy.Allow, Destination: of(service)})
	}
	run(t, []scenario{
		{"S77 egress: address, protocol and port", []policy.Resource{web, one, two, to("p", "n/web")}, expect(
			with("Allow", "tcp 10.0.0.1 10.0.1.1:80", "udp 10.0.0.1 10.0.1.1:53", "tcp 10.0.0.1 10.0.1.1:81",
				"tcp 10.0.0.1 10.0.1.2:81"),
			with("Deny", "tcp 10.0.0.1 10.0.1.1:53", "tcp 10.0.0.1 10.0.1.2:80", "tcp 10.0.0.1 10.0.1.3:80",
				"sctp 10.0.0.1 10.0.1.1:80", "icmp 10.0.0.1 10.0.1.1 8/0", "253 10.0.0.1 10.0.1.1"))},
		{"S77 ingress: the address alone", []policy.Resource{web, one, two, ingress("p",
			allowFrom(of("n/web")))}, expect(
			with("Allow", "tcp 10.0.1.1:9 10.0.0.1:443", "253 10.0.1.2 10.0.0.1", "icmp 10.0.1.1 10.0.0.1 8/0"),
			with("Deny", "tcp 10.0.1.3 10.0.0.1:80", "tcp 10.0.1.9 10.0.0.1:80"))},
		{"without ports", []policy.Resource{web, bare, to("p", "n/bare")}, with("Deny", "tcp 10.0.0.1 10.0.1.7:80")},
		{"without ports, ingress", []policy.Resource{web, bare, ingress("p", allowFrom(of("n/bare")))}, with("Allow",
			"tcp 10.0.1.7 10.0.0.1:80")},
		{"a service without backends", []policy.Resource{web, one, to("p", "n/gone")}, with("Deny",
			"tcp 10.0.0.1 10.0.1.1:80")},
		{"no namespace is the policy's own", []policy.Resource{web, one, other, to("n/p", "web")}, expect(
			with("Allow", "tcp 10.0.0.1 10.0.1.1:80"), with("Deny", "tcp 10.0.0.1 10.0.1.9:80"))},
		{"another namespace", []policy.Resource{web, one, other, to("n/p", "m/web")}, expect(
			with("Deny", "tcp 10.0.0.1 10.0.1.1:80"), with("Allow", "tcp 10.0.0.1 10.0.1.9:80"))},
		{"S78 both parts", []policy.Resource{web, one, two, ingress("p", allowFrom(of("n/web")))}, with("Allow",
			"tcp 10.0.1.1 10.0.0.1")},
		{"S78 one part gone", []policy.Resource{web, two, ingress("p", allowFrom(of("n/web")))}, with("Allow",
			"tcp 10.0.1.1 10.0.0.1")},
		{"S78 both gone", []policy.Resource{web, ingress("p", allowFrom(of("n/web")))}, with("Deny",
			"tcp 10.0.1.1 10.0.0.1")},
		{"S76 after NAT", []policy.Resource{web, one, to("p", "n/web")}, with("Allow",
			"tcp 10.0.0.1 10.0.1.1:80 was=10.96.0.1:443")},
	})
	p := to("p", "n/web")
	p.Selector = ""
	x := verdict.Explain(worldOf(web, one, p), flowOf(t, "tcp 10.0.0.1 10.0.1.1:81"))
	require.Equal(t, &verdict.Mismatch{
		Field: "destination.services", Reason: "TCP port 81 of 10.0.1.1 is not a backend of service n/web",
	}, x.Egress.Tiers[0].Policies[0].Rules[0].Mismatch)
	x = verdict.Explain(worldOf(web, ingress("p", allowFrom(of("n/web")))), flowOf(t, "tcp 10.0.1.1 10.0.0.1:81"))
	require.Equal(t, &verdict.Mismatch{
		Field: "source.services", Reason: "10.0.1.1 is not a backend of service n/web",
	}, x.Ingress.Tiers[0].Policies[0].Rules[0].Mismatch)
}
