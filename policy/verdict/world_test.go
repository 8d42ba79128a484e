// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// The functions below make worlds from short texts: names are "namespace/name", labels "a=b c=d".

func split(name string) (namespace, rest string) {
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		return namespace, rest
	}
	return "", name
}

func labelsOf(text string) map[string]string {
	labels := map[string]string{}
	for _, pair := range strings.Fields(text) {
		k, v, _ := strings.Cut(pair, "=")
		labels[k] = v
	}
	return labels
}

func netsOf(text string) policy.Nets {
	var nets policy.Nets
	for _, s := range strings.Fields(text) {
		nets = append(nets, netip.MustParsePrefix(s).Masked())
	}
	return nets
}

func wep(name, addrs, labels string, profiles ...string) *policy.WorkloadEndpoint {
	w := &policy.WorkloadEndpoint{Node: "node1", Interface: "cali0", Labels: labelsOf(labels), Profiles: profiles}
	w.Namespace, w.Name = split(name)
	for _, a := range strings.Fields(addrs) {
		w.Addresses = append(w.Addresses, netip.MustParseAddr(a))
	}
	return w
}

// withPorts gives an endpoint named ports, as in "http/tcp/80 dns/udp/53".
func withPorts(t *testing.T, w *policy.WorkloadEndpoint, ports string) *policy.WorkloadEndpoint {
	t.Helper()
	for _, s := range strings.Fields(ports) {
		f := strings.Split(s, "/")
		proto, err := policy.ParseProtocol(f[1])
		require.NoError(t, err)
		n, err := strconv.ParseUint(f[2], 10, 16)
		require.NoError(t, err)
		w.Ports = append(w.Ports, policy.EndpointPort{Name: f[0], Protocol: proto, Port: uint16(n)})
	}
	return w
}

func set(name, nets, labels string) *policy.NetworkSet {
	s := &policy.NetworkSet{Nets: netsOf(nets), Labels: labelsOf(labels)}
	s.Namespace, s.Name = split(name)
	return s
}

// ingress returns an ingress policy for app == "web", the endpoint of most tests.
func ingress(name string, rules ...policy.Rule) *policy.Policy {
	p := &policy.Policy{Selector: `app == "web"`, Types: []policy.Type{policy.Ingress}, Ingress: rules}
	p.Namespace, p.Name = split(name)
	return p
}

func egress(name string, rules ...policy.Rule) *policy.Policy {
	p := &policy.Policy{Selector: `app == "web"`, Types: []policy.Type{policy.Egress}, Egress: rules}
	p.Namespace, p.Name = split(name)
	return p
}

// in adds a policy to a tier, with an order.
func in(tier string, order float64, p *policy.Policy) *policy.Policy {
	p.Tier, p.Order = tier, &order
	return p
}

func staged(p *policy.Policy) *policy.Policy {
	p.Staged = true
	return p
}

func tierOf(name string, order float64, action policy.Action) *policy.Tier {
	return &policy.Tier{Name: name, Order: &order, DefaultAction: action}
}

func profile(name, labels string, rules ...policy.Rule) *policy.Profile {
	return &policy.Profile{Name: name, LabelsToApply: labelsOf(labels), Ingress: rules, Egress: rules}
}

func allow() policy.Rule { return policy.Rule{Action: policy.Allow} }
func deny() policy.Rule  { return policy.Rule{Action: policy.Deny} }
func pass() policy.Rule  { return policy.Rule{Action: policy.Pass} }
func log() policy.Rule   { return policy.Rule{Action: policy.Log} }

func allowFrom(e policy.EntityRule) policy.Rule { return policy.Rule{Action: policy.Allow, Source: e} }

func allowTo(proto policy.Protocol, e policy.EntityRule) policy.Rule {
	return policy.Rule{Action: policy.Allow, Protocol: proto, Destination: e}
}

// flowOf parses "tcp 10.0.0.9 10.0.0.1:80". In any order, these can follow:
//
//   - "8/0": ICMP type and code
//   - "@node1": a node
//   - "in=eth0" and "out=eth0": interfaces
//   - "was=192.0.2.1:30080": the destination before NAT
//   - "of=10.0.0.1>10.0.0.2": the connection that the packet is related to
//   - "dscp=46": a DSCP
//   - "Established" or another state
func flowOf(t *testing.T, text string) verdict.Flow {
	t.Helper()
	f := strings.Fields(text)
	proto, err := policy.ParseProtocol(f[0])
	require.NoError(t, err)
	flow := verdict.Flow{Protocol: proto}
	flow.Src, flow.SrcPort = addrPort(t, f[1], 31245)
	flow.Dst, flow.DstPort = addrPort(t, f[2], 80)
	for _, more := range f[3:] {
		key, value, _ := strings.Cut(more, "=")
		switch {
		case key == "in":
			flow.InInterface = value
		case key == "out":
			flow.OutInterface = value
		case key == "dscp":
			n, err := strconv.ParseUint(value, 10, 8)
			require.NoError(t, err)
			flow.DSCP = policy.DSCP(n)
		case key == "of":
			src, dst, _ := strings.Cut(value, ">")
			flow.State, flow.ConnSrc, flow.ConnDst = verdict.StateRelated, netip.MustParseAddr(src),
				netip.MustParseAddr(dst)
		case key == "was":
			flow.OrigDst, flow.OrigDstPort = addrPort(t, value, 0)
		case more[0] == '@':
			flow.Node = more[1:]
		case strings.Contains(more, "/"):
			icmpType, code, _ := strings.Cut(more, "/")
			n, err := strconv.ParseUint(icmpType, 10, 8)
			require.NoError(t, err)
			flow.ICMPType = uint8(n)
			n, err = strconv.ParseUint(code, 10, 8)
			require.NoError(t, err)
			flow.ICMPCode = uint8(n)
		default:
			flow.State = verdict.State(more)
		}
	}
	return flow
}

func addrPort(t *testing.T, text string, port uint16) (netip.Addr, uint16) {
	t.Helper()
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr, port
	}
	ap, err := netip.ParseAddrPort(text)
	require.NoError(t, err)
	return ap.Addr(), ap.Port()
}

func worldOf(resources ...policy.Resource) verdict.World {
	w := verdict.World{}
	w.Set(resources...)
	return w
}

// scenario is a world and its verdicts of flows: "tcp 10.0.0.9 10.0.0.1:80 = Allow". The outcome is
// the combined one.
type scenario struct {
	name  string
	world []policy.Resource
	flows []string
}

func run(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			e := verdict.New(worldOf(s.world...))
			require.Empty(t, e.Rejected())
			for _, line := range s.flows {
				text, want, ok := strings.Cut(line, " = ")
				require.True(t, ok, line)
				x := e.Explain(flowOf(t, text))
				require.Equal(t, want, string(x.Result.Combined), "%s\n%s", line, x)
				require.Equal(t, x.Result, e.Evaluate(flowOf(t, text)))
			}
		})
	}
}

// runIngress is run for the ingress outcome only.
func runIngress(t *testing.T, s scenario) {
	t.Helper()
	e := verdict.New(worldOf(s.world...))
	require.Empty(t, e.Rejected())
	for _, line := range s.flows {
		text, want, _ := strings.Cut(line, " = ")
		x := e.Explain(flowOf(t, text))
		require.Equal(t, want, string(x.Result.Ingress), "%s: %s\n%s", s.name, line, x)
		require.Equal(t, x.Result, e.Evaluate(flowOf(t, text)))
	}
}
