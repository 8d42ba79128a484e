// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

func portGroups(worlds ...verdict.World) string {
	var out []string
	for _, p := range probe.NewPartition(worlds...).Ports() {
		out = append(out, p.String())
	}
	return strings.Join(out, " ")
}

func world(resources ...policy.Resource) verdict.World {
	w := verdict.World{}
	w.Set(resources...)
	return w
}

func with(rules ...policy.Rule) verdict.World {
	return world(&policy.Policy{Name: "p", Ingress: rules})
}

func ports(protocol policy.Protocol, list ...policy.Port) policy.Rule {
	return policy.Rule{Action: policy.Allow, Protocol: protocol, Destination: policy.EntityRule{Ports: list}}
}

func icmp(protocol policy.Protocol, typ int, code ...int) policy.Rule {
	r := policy.Rule{Action: policy.Allow, Protocol: protocol, HeaderMatch: policy.HeaderMatch{
		ICMP: &policy.ICMP{Type: &typ},
	}}
	if len(code) > 0 {
		r.ICMP.Code = &code[0]
	}
	return r
}

func TestPorts(t *testing.T) {
	const none = "tcp/other udp/other icmp ip/other"
	tcp, udp := policy.ProtocolTCP, policy.ProtocolUDP
	for _, row := range []struct {
		name  string
		world verdict.World
		want  string
	}{
		{"nothing", with(), none},
		{
			"numbers", with(ports(tcp, policy.PortNumber(80), policy.PortNumber(443))),
			"tcp/80 tcp/443 tcp/other udp/other icmp ip/other",
		},
		{
			"range", with(ports(tcp, policy.PortRange(8000, 8999), policy.PortNumber(8080))),
			"tcp/8000-8079 tcp/8080 tcp/8081-8999 tcp/other udp/other icmp ip/other",
		},
		{
			"overlap", with(ports(udp, policy.PortRange(10, 20)), ports(udp, policy.PortRange(15, 30))),
			"tcp/other udp/10-14 udp/15-20 udp/21-30 udp/other icmp ip/other",
		},
		{"all", with(ports(tcp, policy.PortRange(1, 65535))), "tcp/1-65535 udp/other icmp ip/other"},
		{
			"ends", with(ports(tcp, policy.PortNumber(1), policy.PortNumber(65535))),
			"tcp/1 tcp/65535 tcp/other udp/other icmp ip/other",
		},
		{"negated", with(policy.Rule{
			Action: policy.Allow, Protocol: policy.ProtocolSCTP,
			Destination: policy.EntityRule{NotPorts: []policy.Port{policy.PortNumber(9)}},
		}), "tcp/other udp/other sctp/9 sctp/other icmp ip/other"},
		{"names alone", with(ports(tcp, policy.PortName("http"))), none},
		{"named by a pod", world(&policy.WorkloadEndpoint{
			Name: "w", Ports: []policy.EndpointPort{{Name: "http", Protocol: tcp, Port: 8080}},
		}), "tcp/8080 tcp/other udp/other icmp ip/other"},
		{
			"service",
			world(&policy.ServiceBackends{Name: "s", Ports: []policy.ServicePort{{Protocol: udp, Port: 53}}}),
			"tcp/other udp/53 udp/other icmp ip/other",
		},
		{
			"profile", world(&policy.Profile{Name: "p", Egress: []policy.Rule{ports(tcp, policy.PortNumber(7))}}),
			"tcp/7 tcp/other udp/other icmp ip/other",
		},
		{
			"staged",
			world(&policy.Policy{Name: "p", Staged: true, Egress: []policy.Rule{ports(tcp, policy.PortNumber(7))}}),
			none,
		},
		{"protocols", with(policy.Rule{Protocol: 47, Action: policy.Deny},
			policy.Rule{NotProtocol: 253, Action: policy.Deny}), "tcp/other udp/other icmp ip/47 ip/253 ip/other"},
		{"ICMP type", with(icmp(policy.ProtocolICMP, 3)), "tcp/other udp/other icmp icmp/3 icmp/other ip/other"},
		{
			"ICMP code", with(icmp(policy.ProtocolICMP, 3, 0)),
			"tcp/other udp/other icmp icmp/3 icmp/3/1 icmp/other ip/other",
		},
		{
			"ping's code", with(icmp(policy.ProtocolICMPv6, 128, 0)),
			"tcp/other udp/other icmp icmpv6/128/1 icmpv6/other ip/other",
		},
		{
			"ping's other code", with(icmp(policy.ProtocolICMP, 8, 1)),
			"tcp/other udp/other icmp icmp/8/1 icmp/other ip/other",
		},
	} {
		require.Equal(t, row.want, portGroups(row.world), row.name)
	}
	require.Equal(t, "tcp/80 tcp/81 tcp/other udp/other icmp ip/other",
		portGroups(with(ports(tcp, policy.PortNumber(80))), with(ports(tcp, policy.PortNumber(81)))), "of both worlds")
}

func TestSourcePorts(t *testing.T) {
	r := policy.Rule{Action: policy.Allow, Source: policy.EntityRule{NotPorts: []policy.Port{policy.PortName("x")}}}
	require.True(t, probe.NewPartition(with(r)).SourcePorts())
	require.False(t, probe.NewPartition(with(ports(policy.ProtocolTCP, policy.PortNumber(1)))).SourcePorts())
}
