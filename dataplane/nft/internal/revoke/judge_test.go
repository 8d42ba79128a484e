// SPDX-License-Identifier: Apache-2.0

package revoke_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/owners"
	"github.com/wayleave/wayleave/dataplane/nft/internal/revoke"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// sides is a Finder that has the side of each address.
type sides map[string]revoke.Side

func (s sides) Find(a netip.Addr) []revoke.Side {
	if one, ok := s[a.String()]; ok {
		return []revoke.Side{one}
	}
	return nil
}

// outside returns the sides of the addresses outside of workloads, on a node with uplinks.
func outside() sides {
	return sides{
		"192.0.2.1": {Local: true}, "2001:db8::1": {Local: true},
		"203.0.113.9": {Interface: "eth0"}, "203.0.113.10": {Interface: "eth1"}, "10.96.0.1": {Interface: "eth0"},
		"10.0.0.9": {Interface: "way9"},
	}
}

// basics returns the first events of all tests. Endpoint web accepts TCP to port 80 and pings,
// guarded may send only UDP, and open has no policy.
func basics() []dataplane.Event {
	web, udp := nfttest.ObjectKey(policy.KindPolicy, "web"), nfttest.ObjectKey(policy.KindPolicy, "udp")
	echo := 8
	all := []dataplane.Rule{{ID: "all", Action: policy.Allow}}
	return []dataplane.Event{
		&dataplane.PolicyUpdate{Key: web, Policy: &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
			{
				ID: "80", Action: policy.Allow, Protocol: policy.ProtocolTCP,
				Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(80)}},
			},
			{ID: "ping", Action: policy.Allow, Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
				ICMP: &policy.ICMP{Type: &echo},
			}},
			{ID: "log", Action: policy.Log},
		}}},
		&dataplane.PolicyUpdate{Key: udp, Policy: &dataplane.Policy{Tier: "default", Egress: []dataplane.Rule{
			{ID: "udp", Action: policy.Allow, Protocol: policy.ProtocolUDP},
		}}},
		&dataplane.ProfileUpdate{Name: "all", Profile: &dataplane.Profile{Ingress: all, Egress: all}},
		nfttest.EndpointUpdate("web", "way1", []policy.Key{web}, nil, "10.0.0.1", "fd00::1"),
		nfttest.EndpointUpdate("guarded", "way2", nil, []policy.Key{udp}, "10.0.0.2", "fd00::2"),
		nfttest.EndpointUpdate("open", "way3", nil, nil, "10.0.0.3", "fd00::3"),
	}
}

// newJudge returns an Evaluator with an empty table.
func newJudge(finder revoke.Finder) *revoke.Evaluator {
	all, untrackedOut := render.HostChains()
	return revoke.NewEvaluator(revoke.EvaluatorConfig{
		Table: "wayleave", Host: revoke.HostChains{All: all, UntrackedOut: untrackedOut}, Finder: finder,
	})
}

// changeOf returns the change since the last call.
func changeOf(r *render.Renderer, o *owners.Tracker) *revoke.Change {
	taken := o.TakeChanges()
	return &revoke.Change{
		Deltas: []*ruleset.Delta{r.Flush()}, Addresses: revoke.AddressChanges{
			Interfaces: taken.Interfaces, Sources: taken.Sources, Bridges: r.TakeBridges(),
		},
	}
}

// judgeAfter returns the Evaluator of a table after events.
func judgeAfter(t *testing.T, cfg render.Config, events ...dataplane.Event) *revoke.Evaluator {
	t.Helper()
	return judgeBridged(t, cfg, nil, events...)
}

// judgeBridged is judgeAfter with the bridges of interfaces.
func judgeBridged(
	t *testing.T, cfg render.Config, bridges map[string]string, events ...dataplane.Event,
) *revoke.Evaluator {
	t.Helper()
	r, err := render.New(cfg)
	require.NoError(t, err)
	for name, bridge := range bridges {
		r.SetMaster(name, render.Master{Name: bridge, Kind: "bridge"})
	}
	b := dataplane.Batch{Events: events}
	r.Update(b)
	o := owners.New()
	o.Update(b)
	w := newJudge(outside())
	change := changeOf(r, o)
	require.Empty(t, r.Errors())
	require.NoError(t, w.Apply(change))
	return w
}

// newFlow returns a flow from source to destination. It was sent to requested, or to the
// destination itself if requested is empty.
func newFlow(protocol uint8, source, destination, requested string) *conntrack.Flow {
	from, to := netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination)
	f := &conntrack.Flow{
		Original: conntrack.Tuple{Protocol: protocol, Source: from, Destination: to},
		Reply:    conntrack.Tuple{Protocol: protocol, Source: to, Destination: from},
		Status:   conntrack.StatusSeenReply | conntrack.StatusAssured | 1<<3 | natDone,
	}
	if requested != "" {
		f.Original.Destination = netip.MustParseAddrPort(requested)
		f.Status |= conntrack.StatusDestinationNAT
	}
	return f
}

const (
	// natDone are the status bits of a connection whose translation is complete (IPS_SRC_NAT_DONE,
	// IPS_DST_NAT_DONE).
	natDone     = 1<<7 | 1<<8
	protocolTCP = uint8(policy.ProtocolTCP)
	protocolUDP = uint8(policy.ProtocolUDP)
)

func TestJudgeOfWorkloads(t *testing.T) { nfttest.EachForm(t, testJudgeOfWorkloads) }

func testJudgeOfWorkloads(t *testing.T, classes render.ClassesConfig) {
	testJudgeOfBridged(t, render.Config{Classes: classes, TCPFromSYN: true}, nil)
}

// S171: the same if the endpoints are ports of bridges.
func TestJudgeOfBridgedWorkloads(t *testing.T) {
	nfttest.EachForm(t, func(t *testing.T, classes render.ClassesConfig) {
		cfg := render.Config{Classes: classes, TCPFromSYN: true, Bridges: []string{"br0", "br1"}}
		testJudgeOfBridged(t, cfg, map[string]string{"way1": "br0"})
		testJudgeOfBridged(t, cfg, map[string]string{"way2": "br0", "way3": "br1"})
		testJudgeOfBridged(t, cfg, map[string]string{"way1": "br0", "way2": "br0", "way3": "br0"})
	})
}

func testJudgeOfBridged(t *testing.T, cfg render.Config, bridges map[string]string) {
	t.Helper()
	w := judgeBridged(t, cfg, bridges, basics()...)
	allowed, denied, unknown := conntrack.Allowed, conntrack.Denied, conntrack.Unknown
	ping := func(typ uint8) *conntrack.Flow {
		f := newFlow(1, "10.0.0.3:0", "10.0.0.1:0", "")
		f.Original.ICMPType, f.Original.ICMPID = typ, 7
		return f
	}
	masqueraded := newFlow(protocolTCP, "203.0.113.9:4000", "10.0.0.1:80", "192.0.2.1:30080")
	masqueraded.Reply.Destination = netip.MustParseAddrPort("192.0.2.1:61000")
	masqueraded.Status |= conntrack.StatusSourceNAT
	for _, c := range []struct {
		name string
		flow *conntrack.Flow
		want conntrack.Verdict
	}{
		{"ingress allows", newFlow(protocolTCP, "10.0.0.3:4000", "10.0.0.1:80", ""), allowed},
		{"ingress denies the port", newFlow(protocolTCP, "10.0.0.3:4000", "10.0.0.1:81", ""), denied},
		{"over IPv6", newFlow(protocolTCP, "[fd00::3]:4000", "[fd00::1]:81", ""), denied},
		{"the source port is no destination", newFlow(protocolTCP, "10.0.0.3:80", "10.0.0.1:4000", ""), denied},
		{"egress denies", newFlow(protocolTCP, "10.0.0.2:4000", "10.0.0.1:80", ""), denied},
		{"egress allows", newFlow(protocolUDP, "10.0.0.2:4000", "10.0.0.3:80", ""), allowed},
		{"replies are not judged", newFlow(protocolTCP, "10.0.0.1:4000", "10.0.0.3:80", ""), allowed},
		{"a service", newFlow(protocolTCP, "10.0.0.3:4000", "10.0.0.1:80", "10.96.0.1:8000"), allowed},
		{
			"policy sees the backend's port", newFlow(protocolTCP, "10.0.0.3:4000", "10.0.0.1:8000", "10.96.0.1:80"),
			denied,
		},
		{"hairpin: both directions", newFlow(protocolTCP, "10.0.0.2:4000", "10.0.0.2:80", "10.96.0.1:80"), denied},
		{"from outside", newFlow(protocolTCP, "203.0.113.9:4000", "10.0.0.1:80", ""), allowed},
		{"a node port, masqueraded", masqueraded, allowed},
		{"to outside", newFlow(protocolTCP, "10.0.0.2:4000", "203.0.113.9:80", ""), denied},
		{"an echo request", ping(8), allowed},
		{"a timestamp request", ping(13), denied},
		{"workload to its host", newFlow(protocolTCP, "10.0.0.3:4000", "192.0.2.1:22", ""), denied},
		{"host to workload", newFlow(protocolTCP, "192.0.2.1:4000", "10.0.0.1:81", ""), allowed},
		{
			"host to workload through a service", newFlow(protocolTCP, "192.0.2.1:4000", "10.0.0.1:81", "10.96.0.1:80"),
			allowed,
		},
		{"a workload interface without an endpoint", newFlow(protocolTCP, "10.0.0.3:4000", "10.0.0.9:80", ""), denied},
		{"no route to the destination", newFlow(protocolTCP, "10.0.0.3:4000", "198.51.100.1:80", ""), unknown},
		{"no route to the source", newFlow(protocolTCP, "198.51.100.1:80", "10.0.0.3:4000", ""), unknown},
		{"no endpoint of this node", newFlow(protocolTCP, "203.0.113.9:4000", "203.0.113.10:80", ""), unknown},
		{"of the host alone", newFlow(protocolTCP, "203.0.113.9:4000", "192.0.2.1:80", ""), unknown},
	} {
		require.Equal(t, c.want, w.Judge(c.flow), "%s: %s", c.name, c.flow)
	}
}

// S171: an endpoint's interface becomes a port of a bridge, and leaves the bridge. The verdict
// stays. The change does not affect a clone from before it.
func TestJudgeWhileBridgesChange(t *testing.T) {
	r, err := render.New(render.Config{Bridges: []string{"br0"}})
	require.NoError(t, err)
	b := dataplane.Batch{Events: basics()}
	r.Update(b)
	o := owners.New()
	o.Update(b)
	w := newJudge(outside())
	require.NoError(t, w.Apply(changeOf(r, o)))
	passes := newFlow(protocolTCP, "10.0.0.3:4000", "10.0.0.1:80", "")
	require.Equal(t, conntrack.Allowed, w.Judge(passes))
	before := w.Clone()
	for _, m := range []render.Master{{Name: "br0", Kind: "bridge"}, {}} {
		r.SetMaster("way1", m)
		r.SetMaster("way3", m)
		require.NoError(t, w.Apply(changeOf(r, o)))
		require.Equal(t, conntrack.Allowed, w.Judge(passes))
		require.Equal(t, conntrack.Denied, w.Judge(newFlow(protocolTCP, "10.0.0.3:4000", "10.0.0.1:81", "")))
		require.Equal(t, conntrack.Allowed, before.Judge(passes))
	}
	require.Empty(t, r.TakeBridges())
}

// If an address is behind several interfaces, the verdicts for all of them must agree.
func TestJudgeOfAmbiguousAddresses(t *testing.T) { nfttest.EachForm(t, testJudgeOfAmbiguousAddresses) }

func testJudgeOfAmbiguousAddresses(t *testing.T, classes render.ClassesConfig) {
	udp := []policy.Key{nfttest.ObjectKey(policy.KindPolicy, "udp")}
	gateway := nfttest.EndpointUpdate("gateway", "way4", nil, udp, "10.0.0.4")
	gateway.Endpoint.AllowedSources = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/28")}
	w := judgeAfter(t, render.Config{Classes: classes}, append(basics(), gateway,
		nfttest.EndpointUpdate("twin1", "way5", nil, nil, "10.0.0.5"),
		nfttest.EndpointUpdate("twin2", "way6", nil, udp, "10.0.0.5"))...)
	require.Equal(t, conntrack.Allowed, w.Judge(newFlow(protocolUDP, "10.0.0.5:4000", "10.0.0.3:80", "")))
	require.Equal(t, conntrack.Unknown, w.Judge(newFlow(protocolTCP, "10.0.0.5:4000", "10.0.0.3:80", "")))
	require.Equal(
		t, conntrack.Denied, w.Judge(newFlow(protocolTCP, "10.0.0.5:4000", "10.0.0.1:81", "")),
		"the receiver denies it in any case",
	)
	require.Equal(t, conntrack.Allowed, w.Judge(newFlow(protocolUDP, "203.0.113.9:4000", "10.0.0.3:80", "")))
	require.Equal(
		t, conntrack.Unknown, w.Judge(newFlow(protocolTCP, "203.0.113.9:4000", "10.0.0.3:80", "")),
		"from the uplink or the gateway",
	)
}

// Policy of host endpoints depends on the uplink and, before destination NAT, on the requested
// destination.
func TestJudgeOfHostEndpoints(t *testing.T) { nfttest.EachForm(t, testJudgeOfHostEndpoints) }

func testJudgeOfHostEndpoints(t *testing.T, classes render.ClassesConfig) {
	nodePort, ssh := nfttest.ObjectKey(policy.KindPolicy, "node-port"), nfttest.ObjectKey(policy.KindPolicy, "ssh")
	eth0 := nfttest.ObjectKey(policy.KindHostEndpoint, "eth0")
	port := func(p uint16) dataplane.Match { return dataplane.Match{Ports: []policy.Port{policy.PortNumber(p)}} }
	tier := func(action policy.Action, k policy.Key) []dataplane.TierPolicies {
		return []dataplane.TierPolicies{{Tier: "default", DefaultAction: action, Policies: []policy.Key{k}}}
	}
	events := append(basics(),
		&dataplane.PolicyUpdate{Key: nodePort, Policy: &dataplane.Policy{
			Tier: "default", PreDNAT: true, Ingress: []dataplane.Rule{
				{ID: "deny", Action: policy.Deny, Protocol: policy.ProtocolTCP, Destination: port(30080)},
				{ID: "ssh", Action: policy.Deny, Protocol: policy.ProtocolTCP, Destination: port(22)},
			},
		}},
		&dataplane.PolicyUpdate{Key: ssh, Policy: &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
			{ID: "ssh", Action: policy.Allow, Protocol: policy.ProtocolTCP, Destination: port(2222)},
		}, Egress: []dataplane.Rule{
			{ID: "out", Action: policy.Allow, Protocol: policy.ProtocolTCP, Destination: port(443)},
		}}},
		&dataplane.HostEndpointUpdate{Key: eth0, HostEndpoint: &dataplane.HostEndpoint{
			Interface: "eth0", Ingress: tier(policy.Deny, ssh), Egress: tier(policy.Deny, ssh),
			PreDNATIngress: tier(policy.Pass, nodePort),
		}})
	w := judgeAfter(t, render.Config{Classes: classes}, events...)
	for _, c := range []struct {
		name string
		flow *conntrack.Flow
		want conntrack.Verdict
	}{
		{
			"pre-DNAT policy denies the node port",
			newFlow(protocolTCP, "203.0.113.9:4000", "10.0.0.1:80", "192.0.2.1:30080"), conntrack.Denied,
		},
		{
			"another node port", newFlow(protocolTCP, "203.0.113.9:4000", "10.0.0.1:80", "192.0.2.1:30081"),
			conntrack.Allowed,
		},
		{
			"a failsafe port of the node", newFlow(protocolTCP, "203.0.113.9:4000", "10.0.0.1:80", "192.0.2.1:22"),
			conntrack.Allowed,
		},
		{
			"the same port of another address", newFlow(protocolTCP, "203.0.113.9:4000", "10.0.0.1:80", "10.96.0.1:22"),
			conntrack.Denied,
		},
		{
			"by another interface", newFlow(protocolTCP, "203.0.113.10:4000", "10.0.0.1:80", "192.0.2.1:30080"),
			conntrack.Allowed,
		},
		{"to the host", newFlow(protocolTCP, "203.0.113.9:4000", "192.0.2.1:2222", ""), conntrack.Allowed},
		{"to the host, another port", newFlow(protocolTCP, "203.0.113.9:4000", "192.0.2.1:2223", ""), conntrack.Denied},
		{
			"to the host by a failsafe port", newFlow(protocolTCP, "203.0.113.9:4000", "192.0.2.1:22", ""),
			conntrack.Allowed,
		},
		{"from the host", newFlow(protocolTCP, "192.0.2.1:4000", "203.0.113.9:443", ""), conntrack.Allowed},
		{
			"from the host, another port", newFlow(protocolTCP, "192.0.2.1:4000", "203.0.113.9:444", ""),
			conntrack.Denied,
		},
		{
			"from the host, translated", newFlow(protocolTCP, "192.0.2.1:4000", "203.0.113.9:444", "10.96.0.1:443"),
			conntrack.Denied,
		},
		{
			"from the host by another interface", newFlow(protocolTCP, "192.0.2.1:4000", "203.0.113.10:444", ""),
			conntrack.Allowed,
		},
	} {
		require.Equal(t, c.want, w.Judge(c.flow), "%s: %s", c.name, c.flow)
	}
}

// Packets that untracked policy allows skip all other policy of the host. The verdict on a packet
// from the host to a service is Unknown.
func TestJudgeOfUntrackedPolicy(t *testing.T) { nfttest.EachForm(t, testJudgeOfUntrackedPolicy) }

func testJudgeOfUntrackedPolicy(t *testing.T, classes render.ClassesConfig) {
	raw := nfttest.ObjectKey(policy.KindPolicy, "raw")
	port := dataplane.Match{Ports: []policy.Port{policy.PortNumber(7)}}
	tiers := []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Pass, Policies: []policy.Key{raw}}}
	rules := []dataplane.Rule{{ID: "raw", Action: policy.Allow, Protocol: policy.ProtocolUDP, Destination: port}}
	eth0 := nfttest.ObjectKey(policy.KindHostEndpoint, "eth0")
	w := judgeAfter(t, render.Config{Classes: classes}, append(basics(),
		&dataplane.PolicyUpdate{Key: raw, Policy: &dataplane.Policy{
			Tier: "default", Untracked: true, Ingress: rules, Egress: rules,
		}},
		&dataplane.HostEndpointUpdate{Key: eth0, HostEndpoint: &dataplane.HostEndpoint{
			Interface: "eth0", UntrackedIngress: tiers, UntrackedEgress: tiers,
		}})...)
	for _, c := range []struct {
		flow *conntrack.Flow
		want conntrack.Verdict
	}{
		{newFlow(protocolUDP, "203.0.113.9:4000", "192.0.2.1:7", ""), conntrack.Allowed},
		{newFlow(protocolUDP, "203.0.113.9:4000", "192.0.2.1:8", ""), conntrack.Denied},
		{newFlow(protocolUDP, "192.0.2.1:4000", "203.0.113.9:7", ""), conntrack.Allowed},
		{newFlow(protocolUDP, "192.0.2.1:4000", "203.0.113.9:8", ""), conntrack.Denied},
		{newFlow(protocolUDP, "192.0.2.1:4000", "203.0.113.9:8", "10.96.0.1:7"), conntrack.Unknown},
		{newFlow(protocolUDP, "203.0.113.9:4000", "10.0.0.1:7", ""), conntrack.Denied},
	} {
		require.Equal(t, c.want, w.Judge(c.flow), c.flow.String())
	}
}

// The verdict is Unknown if it depends on a limit or a Raw, or if the state of the table is
// unknown.
func TestUnknownVerdicts(t *testing.T) { nfttest.EachForm(t, testUnknownVerdicts) }

// base returns a base chain.
func base(name string, point ruleset.HookPoint, priority int, rules ...ruleset.Rule) *ruleset.Chain {
	hook := &ruleset.Hook{Point: point, Priority: priority, Policy: build.Accept()}
	return &ruleset.Chain{Name: name, Hook: hook, Rules: rules}
}

func testUnknownVerdicts(t *testing.T, classes render.ClassesConfig) {
	tcp := newFlow(protocolTCP, "10.0.0.3:4000", "10.0.0.1:80", "")
	marked := *tcp
	marked.Mark = 7
	rules := func(rules ...ruleset.Rule) *revoke.Evaluator {
		w := judgeAfter(t, render.Config{Classes: classes}, basics()...)
		table := w.State().Table()
		table.Chains = append(table.Chains, base("more", ruleset.Forward, 5, rules...))
		table.Normalize()
		require.NoError(t, w.Apply(&revoke.Change{Table: table}))
		return w
	}
	limit := ruleset.Limit{Rate: 1, Burst: 1}
	for _, c := range []struct {
		name string
		rule ruleset.Rule
		want conntrack.Verdict
	}{
		{"nothing", build.Always(build.Accept()), conntrack.Allowed},
		{"a limit that drops", build.Always(limit, build.Drop()), conntrack.Unknown},
		{"a limit that logs", build.Always(limit, ruleset.Log{}), conntrack.Allowed},
		{"raw", build.Always(ruleset.Raw{Text: "x", Expressions: [][]byte{{1, 2, 3, 4}}}), conntrack.Unknown},
		{"a mark", build.When(build.Drop(), build.Equals(ruleset.CtMark, ruleset.Uint32(7))), conntrack.Denied},
	} {
		require.Equal(t, c.want, rules(c.rule).Judge(&marked), c.name)
	}
	require.Equal(
		t, conntrack.Allowed,
		rules(build.When(build.Drop(), build.Equals(ruleset.CtMark, ruleset.Uint32(7)))).Judge(tcp),
	)
	w := judgeAfter(t, render.Config{Classes: classes}, basics()...)
	w.Invalidate()
	require.Equal(t, conntrack.Unknown, w.Judge(tcp))
	require.NoError(t, w.Apply(&revoke.Change{Deltas: []*ruleset.Delta{{}}}))
	require.Equal(t, conntrack.Unknown, w.Judge(tcp), "a delta is insufficient")
}

// A clone does not change with its original: rules, elements of sets and interfaces of addresses.
func TestCloneIsIndependent(t *testing.T) { nfttest.EachForm(t, testCloneIsIndependent) }

func testCloneIsIndependent(t *testing.T, classes render.ClassesConfig) {
	r, err := render.New(render.Config{Classes: classes})
	require.NoError(t, err)
	o, w := owners.New(), newJudge(outside())
	apply := func(events ...dataplane.Event) {
		b := dataplane.Batch{Events: events}
		r.Update(b)
		o.Update(b)
		require.NoError(t, w.Apply(changeOf(r, o)))
	}
	member := func(s string) dataplane.Member { return dataplane.Member{Prefix: netip.MustParsePrefix(s)} }
	from := nfttest.ObjectKey(policy.KindPolicy, "from")
	apply(append([]dataplane.Event{
		&dataplane.IPSetUpdate{ID: "s:a", Type: dataplane.IPSetNets, Members: []dataplane.Member{
			member("10.0.0.3/32"), member("203.0.113.9/32"),
		}},
		&dataplane.PolicyUpdate{Key: from, Policy: &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
			{ID: "from", Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:a"}}},
		}}},
		nfttest.EndpointUpdate("picky", "way7", []policy.Key{from}, nil, "10.0.0.7"),
	}, basics()...)...)
	inside := newFlow(protocolTCP, "10.0.0.3:4000", "10.0.0.7:80", "")
	public := newFlow(protocolTCP, "203.0.113.9:4000", "10.0.0.7:80", "")
	both := func(w *revoke.Evaluator) []conntrack.Verdict {
		return []conntrack.Verdict{w.Judge(inside), w.Judge(public)}
	}
	first := w.Clone()
	require.Equal(t, []conntrack.Verdict{conntrack.Allowed, conntrack.Allowed}, both(w))
	apply(&dataplane.IPSetDelta{ID: "s:a", Removed: []dataplane.Member{member("203.0.113.9/32")}})
	second := w.Clone()
	require.Equal(t, []conntrack.Verdict{conntrack.Allowed, conntrack.Denied}, both(w))
	udp := []policy.Key{nfttest.ObjectKey(policy.KindPolicy, "udp")}
	apply(nfttest.EndpointUpdate("open", "way3", nil, udp, "10.0.0.3"))
	require.Equal(t, []conntrack.Verdict{conntrack.Denied, conntrack.Denied}, both(w))
	down := nfttest.EndpointUpdate("picky", "way7", nil, nil, "10.0.0.7")
	apply(down)
	require.Equal(t, []conntrack.Verdict{conntrack.Denied, conntrack.Allowed}, both(w))
	e := *down.Endpoint
	e.Down = true
	apply(&dataplane.EndpointUpdate{Key: down.Key, Endpoint: &e})
	require.Equal(t, []conntrack.Verdict{conntrack.Denied, conntrack.Denied}, both(w))
	apply(&dataplane.EndpointRemove{Key: nfttest.ObjectKey(policy.KindWorkloadEndpoint, "picky")})
	require.Equal(t, []conntrack.Verdict{conntrack.Unknown, conntrack.Unknown}, both(w))
	require.Equal(t, []conntrack.Verdict{conntrack.Allowed, conntrack.Denied}, both(second))
	require.Equal(t, []conntrack.Verdict{conntrack.Allowed, conntrack.Allowed}, both(first))
}
