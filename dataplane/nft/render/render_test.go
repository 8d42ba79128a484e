// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"errors"
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
	"github.com/wayleave/wayleave/policy"
)

func tcpPacket(iif, src, oif, dst string, ct uint32) simPacket {
	return simPacket{
		IIF: iif, OIF: oif, Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst),
		Proto: 6, Transport: nfttest.Ports(1000, 80), CT: ct,
	}
}

func ndPacket(iif, src, oif string, typ uint8) simPacket {
	return simPacket{
		IIF: iif, OIF: oif, Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr("ff02::1"),
		Proto: 58, Transport: nfttest.ICMPHeader(typ, 0), CT: ruleset.CtUntracked,
	}
}

// encapsulated is a packet from way1 to another host.
func encapsulated(proto uint8, port uint16, ct uint32) simPacket {
	p := tcpPacket("way1", "10.0.0.1", "eth0", "8.8.8.8", ct)
	p.Proto, p.Transport = proto, nfttest.Ports(40000, port)
	return p
}

// incompletePacket is a first fragment without a transport header.
func incompletePacket(src, dst string) simPacket {
	p := tcpPacket("way1", src, "eth0", dst, ruleset.CtInvalid)
	p.Fragment, p.Transport = true, []byte{}
	return p
}

// translatedPacket is a packet from the host to a service whose backend is a workload.
func translatedPacket(oif, dst string) simPacket {
	p := tcpPacket("", "10.0.0.254", oif, dst, ruleset.CtNew)
	p.OrigDst, p.OrigPort, p.Local = netip.MustParseAddr("10.96.0.1"), 80, []netip.Addr{p.Src}
	return p
}

// hookCase is a packet at a hook, and whether it passes.
type hookCase struct {
	name   string
	cfg    render.Config
	hook   ruleset.HookPoint
	packet simPacket
	want   bool
}

// forwardCases has forwarded packets.
func forwardCases() []hookCase {
	const fresh, known, invalid = ruleset.CtNew, ruleset.CtEstablished, ruleset.CtInvalid
	keep := render.Config{Host: policy.HostConfig{KeepInvalid: true}}
	plain := render.Config{}
	return []hookCase{
		{"allowed out", plain, ruleset.Forward, tcpPacket("way1", "10.0.0.1", "eth0", "8.8.8.8", fresh), true},
		{"allowed out v6", plain, ruleset.Forward, tcpPacket("way1", "fd00::1", "eth0", "2001:db8::1", fresh), true},
		{"allowed in", plain, ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way1", "10.0.0.1", fresh), true},
		{
			"S142 sender allows, receiver does not", plain, ruleset.Forward,
			tcpPacket("way1", "10.0.0.1", "way2", "10.0.0.2", fresh), false,
		},
		{
			"S142 receiver allows, sender does not", plain, ruleset.Forward,
			tcpPacket("way2", "10.0.0.2", "way1", "10.0.0.1", fresh), false,
		},
		{
			"S103 back in by the same interface", plain, ruleset.Forward,
			tcpPacket("way1", "10.0.0.1", "way1", "10.0.0.1", fresh), true,
		},
		{
			"S116 known connection", plain, ruleset.Forward, tcpPacket("way2", "10.0.0.2", "eth0", "8.8.8.8", known),
			true,
		},
		{"S118 reply", plain, ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way2", "10.0.0.2", known), true},
		{
			"S118 related", plain, ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way2", "10.0.0.2", ruleset.CtRelated),
			true,
		},
		{"S117 invalid out", plain, ruleset.Forward, tcpPacket("way1", "10.0.0.1", "eth0", "8.8.8.8", invalid), false},
		{"S117 invalid in", plain, ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way1", "10.0.0.1", invalid), false},
		{
			"S117 invalid left to policy", keep, ruleset.Forward,
			tcpPacket("way1", "10.0.0.1", "eth0", "8.8.8.8", invalid), true,
		},
		{
			"S117 a fragment without its transport header", keep, ruleset.Forward,
			incompletePacket("fd00::1", "2001:db8::1"), false,
		},
		{"S117 such a fragment of IPv4", keep, ruleset.Forward, incompletePacket("10.0.0.1", "8.8.8.8"), true},
		{
			"S117 invalid of others", plain, ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "eth1", "9.9.9.9", invalid),
			true,
		},
		{"S119 false source", plain, ruleset.Forward, tcpPacket("way1", "10.0.0.2", "eth0", "8.8.8.8", fresh), false},
		{
			"S119 false source v6", plain, ruleset.Forward, tcpPacket("way1", "fd00::2", "eth0", "2001:db8::1", fresh),
			false,
		},
		{
			"S119 false source in a known connection", plain, ruleset.Forward,
			tcpPacket("way1", "10.0.0.2", "eth0", "8.8.8.8", known), false,
		},
		{
			"S119 link-local source", plain, ruleset.Forward,
			tcpPacket("way1", "fe80::1", "eth0", "2001:db8::1", fresh), false,
		},
		{"S35 down out", plain, ruleset.Forward, tcpPacket("way3", "10.0.0.3", "eth0", "8.8.8.8", known), false},
		{"S35 down in", plain, ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way3", "10.0.0.3", known), false},
		{
			"to an unknown workload interface", plain, ruleset.Forward,
			tcpPacket("way9", "10.0.0.9", "eth0", "8.8.8.8", known), false,
		},
		{
			"from an unknown workload interface", plain, ruleset.Forward,
			tcpPacket("eth0", "8.8.8.8", "way9", "10.0.0.9", known), false,
		},
		{"not ours", plain, ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "eth1", "9.9.9.9", fresh), true},
	}
}

// inputCases has packets to the host.
func inputCases() []hookCase {
	const fresh, known, invalid = ruleset.CtNew, ruleset.CtEstablished, ruleset.CtInvalid
	accept := render.Config{Host: policy.HostConfig{EndpointToHostAction: policy.HostAccept}}
	plain := render.Config{}
	return []hookCase{
		{"S105 to the host", plain, ruleset.Input, tcpPacket("way1", "10.0.0.1", "", "10.0.0.254", fresh), false},
		{
			"S105 to the host, accepted", accept, ruleset.Input, tcpPacket("way1", "10.0.0.1", "", "10.0.0.254", fresh),
			true,
		},
		{"S105 policy first", accept, ruleset.Input, tcpPacket("way2", "10.0.0.2", "", "10.0.0.254", fresh), false},
		{"S104 reply to the host", plain, ruleset.Input, tcpPacket("way2", "10.0.0.2", "", "10.0.0.254", known), true},
		{
			"S119 false source to the host", accept, ruleset.Input,
			tcpPacket("way1", "10.0.0.2", "", "10.0.0.254", fresh), false,
		},
		{"S35 down to the host", accept, ruleset.Input, tcpPacket("way3", "10.0.0.3", "", "10.0.0.254", known), false},
		{"unknown to the host", accept, ruleset.Input, tcpPacket("way9", "10.0.0.9", "", "10.0.0.254", known), false},
		{"others to the host", plain, ruleset.Input, tcpPacket("eth0", "8.8.8.8", "", "10.0.0.254", fresh), true},
		{
			"invalid of others to the host", plain, ruleset.Input,
			tcpPacket("eth0", "8.8.8.8", "", "10.0.0.254", invalid), true,
		},

		{"solicitation, link-local", plain, ruleset.Input, ndPacket("way2", "fe80::2", "", 135), true},
		{"solicitation, no source", plain, ruleset.Input, ndPacket("way2", "::", "", 135), true},
		{"advertisement, own address", plain, ruleset.Input, ndPacket("way2", "fd00::2", "", 136), true},
		{"advertisement, false source", accept, ruleset.Input, ndPacket("way2", "fd00::1", "", 136), false},
		{"router advertisement", plain, ruleset.Input, ndPacket("way1", "fe80::1", "", 134), false},
		{"S35 solicitation", plain, ruleset.Input, ndPacket("way3", "fe80::3", "", 135), false},
		{"solicitation, unknown", plain, ruleset.Input, ndPacket("way9", "fe80::9", "", 135), false},
		{"echo from link-local", accept, ruleset.Input, ndPacket("way1", "fe80::1", "", 128), false},
		{"discovery of others", plain, ruleset.Input, ndPacket("eth0", "fe80::9", "", 134), true},

		{"S120 VXLAN", plain, ruleset.Forward, encapsulated(17, 4789, fresh), false},
		{"S120 VXLAN of a known connection", plain, ruleset.Forward, encapsulated(17, 4789, known), true},
		{
			"S120 VXLAN to the host",
			render.Config{Host: policy.HostConfig{EndpointToHostAction: policy.HostAccept}},
			ruleset.Input,
			encapsulated(17, 4789, fresh), false,
		},
		{"S120 IP in IP", plain, ruleset.Forward, encapsulated(4, 0, fresh), false},
		{"S120 not the port", plain, ruleset.Forward, encapsulated(17, 4790, fresh), true},
		{
			"S120 another port",
			render.Config{Host: policy.HostConfig{VXLANPort: 4790}},
			ruleset.Forward,
			encapsulated(17, 4790, fresh), false,
		},
		{
			"S120 VXLAN left to policy",
			render.Config{Host: policy.HostConfig{AllowVXLANFromWorkloads: true}},
			ruleset.Forward, encapsulated(17, 4789, fresh), true,
		},
		{
			"S120 IP in IP left to policy",
			render.Config{Host: policy.HostConfig{AllowIPIPFromWorkloads: true}},
			ruleset.Forward, encapsulated(4, 0, fresh), true,
		},

		{
			"S119 an allowed source", plain, ruleset.Forward,
			tcpPacket("way4", "192.168.7.7", "eth0", "8.8.8.8", fresh), true,
		},
		{
			"S119 an allowed source v6", plain, ruleset.Forward,
			tcpPacket("way4", "fd77::7", "eth0", "2001:db8::1", fresh), true,
		},
		{
			"S119 beside the allowed ones", plain, ruleset.Forward,
			tcpPacket("way4", "192.168.8.7", "eth0", "8.8.8.8", known), false,
		},
		{"S119 its own besides", plain, ruleset.Forward, tcpPacket("way4", "10.0.0.4", "eth0", "8.8.8.8", fresh), true},
		{
			"S119 another's allowed one", plain, ruleset.Forward,
			tcpPacket("way1", "192.168.7.7", "eth0", "8.8.8.8", fresh), false,
		},

		{
			"solicitation, judged",
			render.Config{DenyNeighbourDiscovery: true},
			ruleset.Input,
			ndPacket("way2", "fe80::2", "", 135), false,
		},
	}
}

// outputCases has packets of the host.
func outputCases() []hookCase {
	const fresh, known = ruleset.CtNew, ruleset.CtEstablished
	plain := render.Config{}
	return []hookCase{
		{
			"S104 host to workload, dropped",
			render.Config{Host: policy.HostConfig{HostToEndpointAction: policy.HostDrop}},
			ruleset.Output,
			tcpPacket("", "10.0.0.254", "way1", "10.0.0.1", fresh), false,
		},
		{
			"S104 host to workload, dropped, known",
			render.Config{Host: policy.HostConfig{HostToEndpointAction: policy.HostDrop}},
			ruleset.Output,
			tcpPacket("", "10.0.0.254", "way1", "10.0.0.1", known), true,
		},
		{
			"S104 host to workload, by policy",
			render.Config{Host: policy.HostConfig{HostToEndpointAction: policy.HostReturn}},
			ruleset.Output,
			tcpPacket("", "10.0.0.254", "way1", "10.0.0.1", fresh), true,
		},
		{
			"S104 host to workload, by policy that denies",
			render.Config{Host: policy.HostConfig{HostToEndpointAction: policy.HostReturn}},
			ruleset.Output,
			tcpPacket("", "10.0.0.254", "way2", "10.0.0.2", fresh), false,
		},
		{
			"S104 host to workload by a service", plain, ruleset.Postrouting,
			translatedPacket("way2", "10.0.0.2"), true,
		},
		{
			"S35 host to down by a service", plain, ruleset.Postrouting, translatedPacket("way3", "10.0.0.3"),
			false,
		},
		{
			"host to unknown by a service", plain, ruleset.Postrouting, translatedPacket("way9", "10.0.0.9"),
			false,
		},
		{
			"S104 host to workload by a service, dropped",
			render.Config{Host: policy.HostConfig{HostToEndpointAction: policy.HostDrop}},
			ruleset.Postrouting, translatedPacket("way2", "10.0.0.2"), false,
		},
		{
			"S104 host to workload by a service, by policy",
			render.Config{Host: policy.HostConfig{HostToEndpointAction: policy.HostReturn}},
			ruleset.Postrouting, translatedPacket("way1", "10.0.0.1"), true,
		},
		{"S104 host to workload", plain, ruleset.Output, tcpPacket("", "10.0.0.254", "way2", "10.0.0.2", fresh), true},
		{"S35 host to down", plain, ruleset.Output, tcpPacket("", "10.0.0.254", "way3", "10.0.0.3", known), false},
		{"host to unknown", plain, ruleset.Output, tcpPacket("", "10.0.0.254", "way9", "10.0.0.9", fresh), false},
	}
}

// unknownCases has packets of interfaces with the prefix and without an endpoint, with
// UnknownWorkloads HostAccept.
func unknownCases() []hookCase {
	const fresh, known = ruleset.CtNew, ruleset.CtEstablished
	accept := render.Config{UnknownWorkloads: policy.HostAccept}
	host := func(action policy.HostAction) render.Config {
		return render.Config{
			UnknownWorkloads: policy.HostAccept, Host: policy.HostConfig{HostToEndpointAction: action},
		}
	}
	return []hookCase{
		{
			"S177 unknown out", accept, ruleset.Forward,
			tcpPacket("way9", "10.0.0.9", "eth0", "8.8.8.8", fresh), true,
		},
		{"S177 unknown in", accept, ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way9", "10.0.0.9", fresh), true},
		{
			"S177 unknown, of a known connection", accept, ruleset.Forward,
			tcpPacket("eth0", "8.8.8.8", "way9", "10.0.0.9", known), true,
		},
		{
			"S177 from unknown, receiver's policy allows", accept, ruleset.Forward,
			tcpPacket("way9", "10.0.0.9", "way1", "10.0.0.1", fresh), true,
		},
		{
			"S177 to unknown, sender's policy denies", accept, ruleset.Forward,
			tcpPacket("way2", "10.0.0.2", "way9", "10.0.0.9", fresh), false,
		},
		{
			"S177 from unknown to down", accept, ruleset.Forward,
			tcpPacket("way9", "10.0.0.9", "way3", "10.0.0.3", known), false,
		},
		{
			"S177 down stays down", accept, ruleset.Forward,
			tcpPacket("way3", "10.0.0.3", "eth0", "8.8.8.8", known), false,
		},
		{
			"S177 unknown to the host", accept, ruleset.Input,
			tcpPacket("way9", "10.0.0.9", "", "10.0.0.254", fresh), true,
		},
		{
			"S177 down to the host", accept, ruleset.Input,
			tcpPacket("way3", "10.0.0.3", "", "10.0.0.254", fresh), false,
		},
		{
			"S177 host to unknown", host(policy.HostAccept), ruleset.Output,
			tcpPacket("", "10.0.0.254", "way9", "10.0.0.9", fresh), true,
		},
		{
			"S177 host to unknown, by policy", host(policy.HostReturn), ruleset.Output,
			tcpPacket("", "10.0.0.254", "way9", "10.0.0.9", fresh), true,
		},
		{
			"S177 host to unknown, not to workloads", host(policy.HostDrop), ruleset.Output,
			tcpPacket("", "10.0.0.254", "way9", "10.0.0.9", fresh), true,
		},
		{
			"S177 host to down", host(policy.HostAccept), ruleset.Output,
			tcpPacket("", "10.0.0.254", "way3", "10.0.0.3", fresh), false,
		},
	}
}

// TestHooks runs packets through the rules around policy.
func TestHooks(t *testing.T) { nfttest.EachForm(t, testHooks) }

func testHooks(t *testing.T, classes render.ClassesConfig) {
	for _, c := range slices.Concat(forwardCases(), inputCases(), outputCases(), unknownCases()) {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Classes = classes
			table, errs := nfttest.Rendered(t, c.cfg, nfttest.Transition(hostState()))
			require.Empty(t, errs)
			got, _ := judgePacket(t, table, c.hook, c.packet)
			require.Equal(t, c.want, got, "%s", table)
		})
	}
}

// TestEmptyMaps: while the kernel replaces the table, packets use the old chains with maps that are
// already empty. They pass to no endpoint, whatever the name of its interface.
func TestEmptyMaps(t *testing.T) { nfttest.EachForm(t, testEmptyMaps) }

func testEmptyMaps(t *testing.T, classes render.ClassesConfig) {
	s := hostState()
	s.Endpoints[nfttest.EndpointKey("way2")].Interface = "tap2"
	for _, unknown := range []policy.HostAction{policy.HostDrop, policy.HostAccept} {
		cfg := render.Config{Classes: classes, UnknownWorkloads: unknown}
		table, _ := nfttest.Rendered(t, cfg, nfttest.Transition(s))
		for _, set := range table.Sets {
			if set.Verdicts {
				set.Elements = nil
			}
		}
		for hook, p := range map[ruleset.HookPoint]simPacket{
			ruleset.Forward: tcpPacket("eth0", "8.8.8.8", "tap2", "10.0.0.2", ruleset.CtNew),
			ruleset.Input:   tcpPacket("tap2", "10.0.0.2", "", "10.0.0.254", ruleset.CtNew),
			ruleset.Output:  tcpPacket("", "10.0.0.254", "tap2", "10.0.0.2", ruleset.CtNew),
		} {
			allowed, _ := judgePacket(t, table, hook, p)
			require.Equal(t, hook == ruleset.Output, allowed, "hook %d\n%s", hook, table)
		}
		allowed, _ := judgePacket(
			t, table, ruleset.Forward, tcpPacket("tap2", "10.0.0.2", "eth0", "8.8.8.8", ruleset.CtNew),
		)
		require.False(t, allowed, "%s", table)
	}
}

// TestLogOnce (S28): a packet that matches two alternatives of a Log rule is logged once, and
// continues.
func TestLogOnce(t *testing.T) { nfttest.EachForm(t, testLogOnce) }

func testLogOnce(t *testing.T, classes render.ClassesConfig) {
	table, errs := nfttest.Rendered(
		t, render.Config{Classes: classes}, nfttest.Transition(
			nfttest.RulesState(append(portRules()[9:], nfttest.AllowAll("then"))...),
		),
	)
	require.Empty(t, errs)
	p := tcpPacket("eth0", "8.8.8.8", "way1", "10.0.0.1", ruleset.CtNew)
	p.Transport = nfttest.Ports(1, 8080)
	allowed, logs := judgePacket(t, table, ruleset.Forward, p)
	require.True(t, allowed)
	require.Equal(t, []string{"wayleave S28-log-once: "}, logs)
	p.Transport = nfttest.Ports(1, 8081)
	_, logs = judgePacket(t, table, ruleset.Forward, p)
	require.Empty(t, logs)
}

// TestFaults: packets of an endpoint drop if an object that it uses cannot be rendered. Other
// endpoints are not affected. Each object at fault is reported by its key.
func TestFaults(t *testing.T) { nfttest.EachForm(t, testFaults) }

func testFaults(t *testing.T, classes render.ClassesConfig) {
	pol, minus, big := nfttest.PolicyKey("web"), -1, 256
	withRule := func(r dataplane.Rule) func(dptest.State) {
		return func(s dptest.State) {
			s.Policies[pol] = &dataplane.Policy{Ingress: []dataplane.Rule{nfttest.AllowAll("a"), r}}
		}
	}
	src := func(m dataplane.Match) dataplane.Rule { return dataplane.Rule{Action: policy.Allow, Source: m} }
	for _, c := range []struct {
		name   string
		spoil  func(dptest.State)
		want   string
		policy bool
	}{
		{"policy missing", func(s dptest.State) { delete(s.Policies, pol) }, "does not exist", false},
		{"profile missing", func(s dptest.State) { delete(s.Profiles, "all") }, "profile all does not exist", false},
		{
			"default action",
			func(s dptest.State) { s.Endpoints[nfttest.EndpointKey("bad")].Ingress[0].DefaultAction = "Perhaps" },
			"default action", false,
		},
		{"address", func(s dptest.State) {
			s.Endpoints[nfttest.EndpointKey("bad")].Addresses = []netip.Addr{netip.MustParseAddr("fe80::1%eth0")}
		}, "address", false},
		{"S29 action", withRule(dataplane.Rule{}), "unknown action", true},
		{"IP version", withRule(dataplane.Rule{Action: policy.Allow, IPVersion: 5}), "IP version", true},
		{
			"ICMP type", withRule(dataplane.Rule{HeaderMatch: policy.HeaderMatch{ICMP: &policy.ICMP{Type: &minus}}}),
			"icmp type -1", true,
		},
		{
			"ICMP code", withRule(dataplane.Rule{HeaderMatch: policy.HeaderMatch{NotICMP: &policy.ICMP{Code: &big}}}),
			"icmp code 256", true,
		},
		{"port by name", withRule(
			src(dataplane.Match{Ports: nfttest.PortList(policy.PortName("http"))}),
		), "port", true},
		{"port range", withRule(
			src(dataplane.Match{NotPorts: nfttest.PortList(policy.PortRange(2, 1))}),
		), "port", true},
		{"prefix", withRule(src(dataplane.Match{Nets: []netip.Prefix{{}}})), "prefix", true},
		{
			"set missing", withRule(src(dataplane.Match{NotSets: []dataplane.IPSetID{"s:gone"}})),
			"IP set s:gone does not exist", true,
		},
		{"set type", withRule(src(dataplane.Match{Sets: []dataplane.IPSetID{"p:odd"}})), "type", true},
		{"set member", withRule(src(dataplane.Match{NotPortSets: []dataplane.IPSetID{"p:odd"}})), "members", true},
		{"host bits", withRule(src(dataplane.Match{NotSets: []dataplane.IPSetID{"s:odd"}})), "members", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := hostState()
			s.Sets["p:odd"] = dptest.Set{Type: dataplane.IPSetPorts, Members: []dataplane.Member{{
				Prefix: netip.MustParsePrefix("10.0.0.0/8"), Protocol: 6, Port: 1,
			}}}
			s.Sets["s:odd"] = dptest.Set{Type: dataplane.IPSetNets, Members: []dataplane.Member{{
				Prefix: netip.MustParsePrefix("10.0.0.1/24"),
			}}}
			s.Policies[pol] = &dataplane.Policy{Ingress: []dataplane.Rule{nfttest.AllowAll("a")}}
			s.Profiles["other"] = s.Profiles["all"]
			s.Endpoints[nfttest.EndpointKey("way1")].Profiles = []string{"other"}
			delete(s.Endpoints, nfttest.EndpointKey("way3"))
			delete(s.Endpoints, nfttest.EndpointKey("way4"))
			s.Endpoints[nfttest.EndpointKey("bad")] = &dataplane.Endpoint{
				Interface: "bad0", Addresses: nfttest.Addresses("10.0.0.7"), Profiles: []string{"all"},
				Ingress: []dataplane.TierPolicies{{Tier: "t", DefaultAction: policy.Deny, Policies: []policy.Key{pol}}},
			}
			c.spoil(s)
			table, errs := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(s))
			objects := map[policy.Key]string{}
			for _, err := range errs {
				var e *dataplane.ApplyError
				require.True(t, errors.As(err, &e))
				require.Equal(t, "nft", e.Backend)
				objects[e.Object] = e.Error()
			}
			require.Contains(t, objects[nfttest.EndpointKey("bad")], c.want)
			if c.policy {
				require.Contains(t, objects[pol], c.want)
				delete(objects, pol)
			}
			require.Len(t, objects, 1)
			for _, ct := range []uint32{ruleset.CtNew, ruleset.CtEstablished} {
				for _, p := range []simPacket{
					tcpPacket("bad0", "10.0.0.7", "eth0", "8.8.8.8", ct),
					tcpPacket("eth0", "8.8.8.8", "bad0", "10.0.0.7", ct),
				} {
					allowed, _ := judgePacket(t, table, ruleset.Forward, p)
					require.False(t, allowed, "%s", table)
				}
			}
			allowed, _ := judgePacket(
				t, table, ruleset.Forward, tcpPacket("way1", "10.0.0.1", "eth0", "8.8.8.8", ruleset.CtNew),
			)
			require.True(t, allowed, "%s", table)
		})
	}
}

// TestInterfaceTwice: packets of an interface with two endpoints drop, and both endpoints are at
// fault.
func TestInterfaceTwice(t *testing.T) { nfttest.EachForm(t, testInterfaceTwice) }

func testInterfaceTwice(t *testing.T, classes render.ClassesConfig) {
	s := hostState()
	s.Endpoints[nfttest.EndpointKey("way2")].Interface = "way1"
	s.Endpoints[nfttest.EndpointKey("way3")].Interface = "far/too:long and odd"
	table, errs := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(s))
	require.Len(t, errs, 3)
	require.ErrorContains(
		t, errs[0], "render WorkloadEndpoint/shop/way1: interface way1 also belongs to WorkloadEndpoint/shop/way2",
	)
	require.ErrorContains(
		t, errs[1], "render WorkloadEndpoint/shop/way2: interface way1 also belongs to WorkloadEndpoint/shop/way1",
	)
	require.ErrorContains(t, errs[2], "not an interface name")
	require.NoError(t, table.Validate())
	for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
		allowed, _ := judgePacket(
			t, table, ruleset.Forward, tcpPacket("way1", address, "eth0", "8.8.8.8", ruleset.CtNew),
		)
		require.False(t, allowed)
		allowed, _ = judgePacket(t, table, ruleset.Forward, tcpPacket(
			"eth0", "8.8.8.8", "way1", address, ruleset.CtEstablished,
		))
		require.False(t, allowed)
	}
}

// TestLongNames: names that differ only after the kernel's maximum length have different chains and
// sets.
func TestLongNames(t *testing.T) { nfttest.EachForm(t, testLongNames) }

func testLongNames(t *testing.T, classes render.ClassesConfig) {
	s, long := nfttest.InSync(), strings.Repeat("n", 300)
	for i, end := range []string{"a", "b"} {
		key := policy.Key{Kind: policy.KindPolicy, Name: long + end}
		id := dataplane.IPSetID("s:" + long + end)
		s.Sets[id] = nfttest.NetSet("10.0.0.1/32")
		s.Policies[key] = &dataplane.Policy{Tier: long, Ingress: []dataplane.Rule{
			{ID: long, Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{id}}},
		}}
		s.Profiles[long+end] = &dataplane.Profile{}
		s.Endpoints[nfttest.EndpointKey(long+end)] = &dataplane.Endpoint{
			Interface: []string{"way1", "way2"}[i], Profiles: []string{long + end},
			Ingress: []dataplane.TierPolicies{{Tier: long, DefaultAction: policy.Deny, Policies: []policy.Key{key}}},
		}
	}
	table, errs := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(s)) // the table is valid
	require.Empty(t, errs)
	empty, _ := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(nfttest.InSync()))
	if !classes.TestHook.HasChains() {
		names := map[string]int{}
		for _, c := range table.Chains {
			kind, _, _ := strings.Cut(c.Name, "/")
			names[kind]++
		}
		require.Equal(t, []int{2, 2, 2}, []int{names["from"], names["to"], names["group-ingress"]}, "%s", table)
		return
	}
	require.Len(t, table.Sets, len(empty.Sets)+2, "one family")
	require.Len(t, table.Chains, len(empty.Chains)+2*(2+1+1), "from and to, tier, policy; the profiles have no rules")
}

// TestClone: an update of a clone does not change the original.
func TestClone(t *testing.T) { nfttest.EachForm(t, testClone) }

func testClone(t *testing.T, classes render.ClassesConfig) {
	r, err := render.New(render.Config{Classes: classes})
	require.NoError(t, err)
	r.Update(nfttest.Transition(tiersState()))
	before, _ := r.Table()
	text := before.String()
	c := r.Clone()
	c.Update(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.IPSetDelta{ID: "s:fe", Added: nfttest.NetSet("10.9.0.0/16").Members},
		&dataplane.IPSetDelta{ID: "s:unknown", Added: nfttest.NetSet("10.9.0.0/16").Members},
		&dataplane.EndpointRemove{Key: nfttest.EndpointKey("web2")},
	}})
	changed, errs := c.Table()
	require.Empty(t, errs)
	require.NoError(t, changed.Validate())
	require.Contains(t, changed.String(), "10.9.0.0/16")
	require.NotContains(t, changed.String(), "tap2")
	again, _ := r.Table()
	require.Equal(t, text, again.String())
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  render.Config
		want string
	}{
		{render.Config{Table: "table"}, "Table"},
		{render.Config{Table: "a b"}, "Table"},
		{render.Config{InterfacePrefix: "much-too-long-prefix"}, "InterfacePrefix"},
		{render.Config{InterfacePrefix: "a*"}, "InterfacePrefix"},
		{render.Config{Bridges: []string{""}}, `Bridges: "" is not a bridge name`},
		{render.Config{Bridges: []string{"br*"}}, `Bridges: "br*" is not a bridge name`},
		{render.Config{Bridges: []string{"sixteen-bytes-br"}}, `Bridges: "sixteen-bytes-br" is not a bridge name`},
		{render.Config{Bridges: []string{"lo"}}, `Bridges: "lo" is not a bridge name`},
		{render.Config{Bridges: []string{"way-br"}}, `Bridges: "way-br" begins with InterfacePrefix "way"`},
		{render.Config{Bridges: []string{"br0", "br1", "br0"}}, `Bridges: "br0" is duplicated`},
		{render.Config{EgressPriority: 5}, "EgressPriority"},
		{render.Config{EgressPriority: -200}, "EgressPriority"},
		{render.Config{IngressPriority: 100}, "IngressPriority"},
		{render.Config{Host: policy.HostConfig{EndpointToHostAction: "Maybe"}}, "endpointToHostAction"},
		{render.Config{LogRate: 1 << 30}, "LogRate"},
		{render.Config{NAT: render.NATConfig{Source4: netip.MustParseAddr("fd00::1")}}, "Source4"},
		{render.Config{NAT: render.NATConfig{Source6: netip.MustParseAddr("10.0.0.1")}}, "Source6"},
		{render.Config{NAT: render.NATConfig{FirstPort: 2, LastPort: 1}}, "FirstPort"},
		{
			render.Config{NAT: render.NATConfig{Exclude: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")}}},
			"Exclude",
		},
		{render.Config{LogPrefix: `a"b`}, "LogPrefix"},
		{render.Config{Classes: render.ClassesConfig{Priorities: []uint32{0x40000000}}}, "Priorities"}, // a record
		{render.Config{Classes: render.ClassesConfig{Priorities: []uint32{1, 1}}}, "Priorities"},
		{render.Config{LogPrefix: strings.Repeat("x", 64)}, "LogPrefix"},
	} {
		_, err := render.New(c.cfg)
		require.ErrorContains(t, err, c.want)
	}
}
