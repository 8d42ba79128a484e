// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// sides is a sideFinder that knows what it is told.
type sides map[string]side

func (s sides) find(a netip.Addr) []side {
	if one, ok := s[a.String()]; ok {
		return []side{one}
	}
	return nil
}

// outside is a node with an uplink.
func outside() sides {
	return sides{
		"192.0.2.1": {local: true}, "2001:db8::1": {local: true},
		"203.0.113.9": {iface: "eth0"}, "203.0.113.10": {iface: "eth1"}, "10.96.0.1": {iface: "eth0"}, "10.0.0.9": {iface: "way9"},
	}
}

func staleKey(kind policy.Kind, name string) policy.Key {
	k := policy.Key{Kind: kind, Name: name}
	if kind == policy.KindWorkloadEndpoint {
		k.Namespace = "test"
	}
	return k
}

func staleAddrs(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// endpointUpdate is one of an endpoint with the policies of tier "default" that it is given for each direction.
func endpointUpdate(name, iface string, in, out []policy.Key, addresses ...string) *dataplane.EndpointUpdate {
	e := &dataplane.Endpoint{Interface: iface, Addresses: staleAddrs(addresses...), Profiles: []string{"all"}}
	tier := func(keys []policy.Key) []dataplane.TierPolicies {
		if keys == nil {
			return nil
		}
		return []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: keys}}
	}
	e.Ingress, e.Egress = tier(in), tier(out)
	return &dataplane.EndpointUpdate{Key: staleKey(policy.KindWorkloadEndpoint, name), Endpoint: e}
}

// basics are what the worlds of the tests have: web takes TCP to port 80 and pings, guarded sends UDP alone, open does
// as it pleases.
func basics() []dataplane.Event {
	web, udp := staleKey(policy.KindPolicy, "web"), staleKey(policy.KindPolicy, "udp")
	echo := 8
	all := []dataplane.Rule{{ID: "all", Action: policy.Allow}}
	return []dataplane.Event{
		&dataplane.PolicyUpdate{Key: web, Policy: &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
			{ID: "80", Action: policy.Allow, Protocol: policy.ProtocolTCP, Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(80)}}},
			{ID: "ping", Action: policy.Allow, Protocol: policy.ProtocolICMP, ICMP: &policy.ICMP{Type: &echo}},
			{ID: "log", Action: policy.Log},
		}}},
		&dataplane.PolicyUpdate{Key: udp, Policy: &dataplane.Policy{Tier: "default", Egress: []dataplane.Rule{
			{ID: "udp", Action: policy.Allow, Protocol: policy.ProtocolUDP},
		}}},
		&dataplane.ProfileUpdate{Name: "all", Profile: &dataplane.Profile{Ingress: all, Egress: all}},
		endpointUpdate("web", "way1", []policy.Key{web}, nil, "10.0.0.1", "fd00::1"),
		endpointUpdate("guarded", "way2", nil, []policy.Key{udp}, "10.0.0.2", "fd00::2"),
		endpointUpdate("open", "way3", nil, nil, "10.0.0.3", "fd00::3"),
	}
}

// staleWorld returns what the goroutine knows after the events.
func staleWorld(t *testing.T, cfg RendererConfig, events ...dataplane.Event) *world {
	t.Helper()
	r, err := NewRenderer(cfg)
	require.NoError(t, err)
	b := dataplane.Batch{Events: events}
	r.Update(b)
	h := newHoldings()
	h.update(b)
	w := newWorld(r.cfg.Table, outside())
	delta := r.Flush()
	require.Empty(t, r.Errors())
	require.NoError(t, w.apply(&commit{deltas: []*ruleset.Delta{delta}, owners: h.takeChanges()}))
	return w
}

// staleFlow is a flow from source to destination that was sent to requested, or to the destination itself if that is empty.
func staleFlow(protocol uint8, source, destination, requested string) *conntrack.Flow {
	from, to := netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination)
	f := &conntrack.Flow{
		Original: conntrack.Tuple{Protocol: protocol, Source: from, Destination: to},
		Reply:    conntrack.Tuple{Protocol: protocol, Source: to, Destination: from},
		Status:   conntrack.StatusSeenReply | conntrack.StatusAssured | 1<<3 | natSettled,
	}
	if requested != "" {
		f.Original.Destination = netip.MustParseAddrPort(requested)
		f.Status |= conntrack.StatusDestinationNAT
	}
	return f
}

const (
	staleTCP = uint8(policy.ProtocolTCP)
	staleUDP = uint8(policy.ProtocolUDP)
)

func TestJudgeOfWorkloads(t *testing.T) { EachForm(t, testJudgeOfWorkloads) }

func testJudgeOfWorkloads(t *testing.T, classes ClassesConfig) {
	w := staleWorld(t, RendererConfig{Classes: classes, TCPFromSYN: true}, basics()...)
	allowed, denied, unknown := conntrack.Allowed, conntrack.Denied, conntrack.Unknown
	ping := func(typ uint8) *conntrack.Flow {
		f := staleFlow(1, "10.0.0.3:0", "10.0.0.1:0", "")
		f.Original.ICMPType, f.Original.ICMPID = typ, 7
		return f
	}
	masqueraded := staleFlow(staleTCP, "203.0.113.9:4000", "10.0.0.1:80", "192.0.2.1:30080")
	masqueraded.Reply.Destination = netip.MustParseAddrPort("192.0.2.1:61000")
	masqueraded.Status |= conntrack.StatusSourceNAT
	for _, c := range []struct {
		name string
		flow *conntrack.Flow
		want conntrack.Verdict
	}{
		{"ingress allows", staleFlow(staleTCP, "10.0.0.3:4000", "10.0.0.1:80", ""), allowed},
		{"ingress denies the port", staleFlow(staleTCP, "10.0.0.3:4000", "10.0.0.1:81", ""), denied},
		{"over IPv6", staleFlow(staleTCP, "[fd00::3]:4000", "[fd00::1]:81", ""), denied},
		{"the source port is no destination", staleFlow(staleTCP, "10.0.0.3:80", "10.0.0.1:4000", ""), denied},
		{"egress denies", staleFlow(staleTCP, "10.0.0.2:4000", "10.0.0.1:80", ""), denied},
		{"egress allows", staleFlow(staleUDP, "10.0.0.2:4000", "10.0.0.3:80", ""), allowed},
		{"replies are not asked about", staleFlow(staleTCP, "10.0.0.1:4000", "10.0.0.3:80", ""), allowed},
		{"a service", staleFlow(staleTCP, "10.0.0.3:4000", "10.0.0.1:80", "10.96.0.1:8000"), allowed},
		{"policy sees the backend's port", staleFlow(staleTCP, "10.0.0.3:4000", "10.0.0.1:8000", "10.96.0.1:80"), denied},
		{"hairpin: both directions", staleFlow(staleTCP, "10.0.0.2:4000", "10.0.0.2:80", "10.96.0.1:80"), denied},
		{"from outside", staleFlow(staleTCP, "203.0.113.9:4000", "10.0.0.1:80", ""), allowed},
		{"a node port, masqueraded", masqueraded, allowed},
		{"to outside", staleFlow(staleTCP, "10.0.0.2:4000", "203.0.113.9:80", ""), denied},
		{"an echo request", ping(8), allowed},
		{"a timestamp request", ping(13), denied},
		{"workload to its host", staleFlow(staleTCP, "10.0.0.3:4000", "192.0.2.1:22", ""), denied},
		{"host to workload", staleFlow(staleTCP, "192.0.2.1:4000", "10.0.0.1:81", ""), allowed},
		{"host to workload through a service", staleFlow(staleTCP, "192.0.2.1:4000", "10.0.0.1:81", "10.96.0.1:80"), allowed},
		{"an interface of ours without an endpoint", staleFlow(staleTCP, "10.0.0.3:4000", "10.0.0.9:80", ""), denied},
		{"no route to the destination", staleFlow(staleTCP, "10.0.0.3:4000", "198.51.100.1:80", ""), unknown},
		{"no route to the source", staleFlow(staleTCP, "198.51.100.1:80", "10.0.0.3:4000", ""), unknown},
		{"nothing of ours", staleFlow(staleTCP, "203.0.113.9:4000", "203.0.113.10:80", ""), unknown},
		{"of the host alone", staleFlow(staleTCP, "203.0.113.9:4000", "192.0.2.1:80", ""), unknown},
	} {
		require.Equal(t, c.want, w.judge(c.flow), "%s: %s", c.name, c.flow)
	}
}

// An address behind several interfaces is judged for each of them: they have to agree.
func TestJudgeOfAmbiguousAddresses(t *testing.T) { EachForm(t, testJudgeOfAmbiguousAddresses) }

func testJudgeOfAmbiguousAddresses(t *testing.T, classes ClassesConfig) {
	udp := []policy.Key{staleKey(policy.KindPolicy, "udp")}
	gateway := endpointUpdate("gateway", "way4", nil, udp, "10.0.0.4")
	gateway.Endpoint.AllowedSources = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/28")}
	w := staleWorld(t, RendererConfig{Classes: classes}, append(basics(), gateway,
		endpointUpdate("twin1", "way5", nil, nil, "10.0.0.5"), endpointUpdate("twin2", "way6", nil, udp, "10.0.0.5"))...)
	require.Equal(t, conntrack.Allowed, w.judge(staleFlow(staleUDP, "10.0.0.5:4000", "10.0.0.3:80", "")))
	require.Equal(t, conntrack.Unknown, w.judge(staleFlow(staleTCP, "10.0.0.5:4000", "10.0.0.3:80", "")))
	require.Equal(t, conntrack.Denied, w.judge(staleFlow(staleTCP, "10.0.0.5:4000", "10.0.0.1:81", "")), "the receiver denies it in any case")
	require.Equal(t, conntrack.Allowed, w.judge(staleFlow(staleUDP, "203.0.113.9:4000", "10.0.0.3:80", "")))
	require.Equal(t, conntrack.Unknown, w.judge(staleFlow(staleTCP, "203.0.113.9:4000", "10.0.0.3:80", "")), "from the uplink or the gateway")
}

// Policy of host endpoints is judged by the uplink and, before destination NAT, by what the packet was sent to.
func TestJudgeOfHostEndpoints(t *testing.T) { EachForm(t, testJudgeOfHostEndpoints) }

func testJudgeOfHostEndpoints(t *testing.T, classes ClassesConfig) {
	nodePort, ssh := staleKey(policy.KindPolicy, "node-port"), staleKey(policy.KindPolicy, "ssh")
	port := func(p uint16) dataplane.Match { return dataplane.Match{Ports: []policy.Port{policy.PortNumber(p)}} }
	tier := func(action policy.Action, k policy.Key) []dataplane.TierPolicies {
		return []dataplane.TierPolicies{{Tier: "default", DefaultAction: action, Policies: []policy.Key{k}}}
	}
	events := append(basics(),
		&dataplane.PolicyUpdate{Key: nodePort, Policy: &dataplane.Policy{Tier: "default", PreDNAT: true, Ingress: []dataplane.Rule{
			{ID: "deny", Action: policy.Deny, Protocol: policy.ProtocolTCP, Destination: port(30080)},
			{ID: "ssh", Action: policy.Deny, Protocol: policy.ProtocolTCP, Destination: port(22)},
		}}},
		&dataplane.PolicyUpdate{Key: ssh, Policy: &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
			{ID: "ssh", Action: policy.Allow, Protocol: policy.ProtocolTCP, Destination: port(2222)},
		}, Egress: []dataplane.Rule{
			{ID: "out", Action: policy.Allow, Protocol: policy.ProtocolTCP, Destination: port(443)},
		}}},
		&dataplane.HostEndpointUpdate{Key: staleKey(policy.KindHostEndpoint, "eth0"), HostEndpoint: &dataplane.HostEndpoint{
			Interface: "eth0", Ingress: tier(policy.Deny, ssh), Egress: tier(policy.Deny, ssh), PreDNATIngress: tier(policy.Pass, nodePort),
		}})
	w := staleWorld(t, RendererConfig{Classes: classes}, events...)
	for _, c := range []struct {
		name string
		flow *conntrack.Flow
		want conntrack.Verdict
	}{
		{"pre-DNAT policy denies the node port", staleFlow(staleTCP, "203.0.113.9:4000", "10.0.0.1:80", "192.0.2.1:30080"), conntrack.Denied},
		{"another node port", staleFlow(staleTCP, "203.0.113.9:4000", "10.0.0.1:80", "192.0.2.1:30081"), conntrack.Allowed},
		{"a failsafe port of the node", staleFlow(staleTCP, "203.0.113.9:4000", "10.0.0.1:80", "192.0.2.1:22"), conntrack.Allowed},
		{"the same port of another address", staleFlow(staleTCP, "203.0.113.9:4000", "10.0.0.1:80", "10.96.0.1:22"), conntrack.Denied},
		{"by another interface", staleFlow(staleTCP, "203.0.113.10:4000", "10.0.0.1:80", "192.0.2.1:30080"), conntrack.Allowed},
		{"to the host", staleFlow(staleTCP, "203.0.113.9:4000", "192.0.2.1:2222", ""), conntrack.Allowed},
		{"to the host, another port", staleFlow(staleTCP, "203.0.113.9:4000", "192.0.2.1:2223", ""), conntrack.Denied},
		{"to the host by a failsafe port", staleFlow(staleTCP, "203.0.113.9:4000", "192.0.2.1:22", ""), conntrack.Allowed},
		{"from the host", staleFlow(staleTCP, "192.0.2.1:4000", "203.0.113.9:443", ""), conntrack.Allowed},
		{"from the host, another port", staleFlow(staleTCP, "192.0.2.1:4000", "203.0.113.9:444", ""), conntrack.Denied},
		{"from the host, translated", staleFlow(staleTCP, "192.0.2.1:4000", "203.0.113.9:444", "10.96.0.1:443"), conntrack.Denied},
		{"from the host by another interface", staleFlow(staleTCP, "192.0.2.1:4000", "203.0.113.10:444", ""), conntrack.Allowed},
	} {
		require.Equal(t, c.want, w.judge(c.flow), "%s: %s", c.name, c.flow)
	}
}

// Untracked policy: what it lets through faces no other of the host; what the host sends to a service cannot be told.
func TestJudgeOfUntrackedPolicy(t *testing.T) { EachForm(t, testJudgeOfUntrackedPolicy) }

func testJudgeOfUntrackedPolicy(t *testing.T, classes ClassesConfig) {
	raw := staleKey(policy.KindPolicy, "raw")
	port := dataplane.Match{Ports: []policy.Port{policy.PortNumber(7)}}
	tiers := []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Pass, Policies: []policy.Key{raw}}}
	rules := []dataplane.Rule{{ID: "raw", Action: policy.Allow, Protocol: policy.ProtocolUDP, Destination: port}}
	w := staleWorld(t, RendererConfig{Classes: classes}, append(basics(),
		&dataplane.PolicyUpdate{Key: raw, Policy: &dataplane.Policy{Tier: "default", Untracked: true, Ingress: rules, Egress: rules}},
		&dataplane.HostEndpointUpdate{Key: staleKey(policy.KindHostEndpoint, "eth0"), HostEndpoint: &dataplane.HostEndpoint{
			Interface: "eth0", UntrackedIngress: tiers, UntrackedEgress: tiers,
		}})...)
	for _, c := range []struct {
		flow *conntrack.Flow
		want conntrack.Verdict
	}{
		{staleFlow(staleUDP, "203.0.113.9:4000", "192.0.2.1:7", ""), conntrack.Allowed},
		{staleFlow(staleUDP, "203.0.113.9:4000", "192.0.2.1:8", ""), conntrack.Denied},
		{staleFlow(staleUDP, "192.0.2.1:4000", "203.0.113.9:7", ""), conntrack.Allowed},
		{staleFlow(staleUDP, "192.0.2.1:4000", "203.0.113.9:8", ""), conntrack.Denied},
		{staleFlow(staleUDP, "192.0.2.1:4000", "203.0.113.9:8", "10.96.0.1:7"), conntrack.Unknown},
		{staleFlow(staleUDP, "203.0.113.9:4000", "10.0.0.1:7", ""), conntrack.Denied},
	} {
		require.Equal(t, c.want, w.judge(c.flow), c.flow.String())
	}
}

// What a ruleset cannot be asked about, or answers by chance, is not known.
func TestJudgeOfWhatCannotBeTold(t *testing.T) { EachForm(t, testJudgeOfWhatCannotBeTold) }

func testJudgeOfWhatCannotBeTold(t *testing.T, classes ClassesConfig) {
	tcp := staleFlow(staleTCP, "10.0.0.3:4000", "10.0.0.1:80", "")
	marked := *tcp
	marked.Mark = 7
	rules := func(rules ...ruleset.Rule) *world {
		w := staleWorld(t, RendererConfig{Classes: classes}, basics()...)
		table := w.state.Table()
		table.Chains = append(table.Chains, base("more", ruleset.Forward, 5, rules...))
		table.Normalize()
		require.NoError(t, w.apply(&commit{table: table}))
		return w
	}
	limit := ruleset.Limit{Rate: 1, Burst: 1}
	for _, c := range []struct {
		name string
		rule ruleset.Rule
		want conntrack.Verdict
	}{
		{"nothing", always(accept()), conntrack.Allowed},
		{"a limit that drops", always(limit, drop()), conntrack.Unknown},
		{"a limit that logs", always(limit, ruleset.Log{}), conntrack.Allowed},
		{"raw", always(ruleset.Raw{Text: "x", Expressions: [][]byte{{1, 2, 3, 4}}}), conntrack.Unknown},
		{"a mark", when(drop(), equals(ruleset.CtMark, ruleset.Uint32(7))), conntrack.Denied},
	} {
		require.Equal(t, c.want, rules(c.rule).judge(&marked), c.name)
	}
	require.Equal(t, conntrack.Allowed, rules(when(drop(), equals(ruleset.CtMark, ruleset.Uint32(7)))).judge(tcp))
	w := staleWorld(t, RendererConfig{Classes: classes}, basics()...)
	w.state = nil
	require.Equal(t, conntrack.Unknown, w.judge(tcp))
	require.NoError(t, w.apply(&commit{deltas: []*ruleset.Delta{{}}}))
	require.Equal(t, conntrack.Unknown, w.judge(tcp), "a delta is not enough")
}

// A clone stays as it is, and its original goes on: rules, elements of sets and owners of addresses.
func TestWorldsGoTheirOwnWay(t *testing.T) { EachForm(t, testWorldsGoTheirOwnWay) }

func testWorldsGoTheirOwnWay(t *testing.T, classes ClassesConfig) {
	r, err := NewRenderer(RendererConfig{Classes: classes})
	require.NoError(t, err)
	h, w := newHoldings(), newWorld("wayleave", outside())
	apply := func(events ...dataplane.Event) {
		b := dataplane.Batch{Events: events}
		r.Update(b)
		h.update(b)
		require.NoError(t, w.apply(&commit{deltas: []*ruleset.Delta{r.Flush()}, owners: h.takeChanges()}))
	}
	member := func(s string) dataplane.Member { return dataplane.Member{Prefix: netip.MustParsePrefix(s)} }
	from := staleKey(policy.KindPolicy, "from")
	apply(append([]dataplane.Event{
		&dataplane.IPSetUpdate{ID: "s:a", Type: dataplane.IPSetNets, Members: []dataplane.Member{member("10.0.0.3/32"), member("203.0.113.9/32")}},
		&dataplane.PolicyUpdate{Key: from, Policy: &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
			{ID: "from", Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:a"}}},
		}}},
		endpointUpdate("picky", "way7", []policy.Key{from}, nil, "10.0.0.7"),
	}, basics()...)...)
	inside, public := staleFlow(staleTCP, "10.0.0.3:4000", "10.0.0.7:80", ""), staleFlow(staleTCP, "203.0.113.9:4000", "10.0.0.7:80", "")
	both := func(w *world) []conntrack.Verdict { return []conntrack.Verdict{w.judge(inside), w.judge(public)} }
	first := w.clone()
	require.Equal(t, []conntrack.Verdict{conntrack.Allowed, conntrack.Allowed}, both(w))
	apply(&dataplane.IPSetDelta{ID: "s:a", Removed: []dataplane.Member{member("203.0.113.9/32")}})
	second := w.clone()
	require.Equal(t, []conntrack.Verdict{conntrack.Allowed, conntrack.Denied}, both(w))
	apply(endpointUpdate("open", "way3", nil, []policy.Key{staleKey(policy.KindPolicy, "udp")}, "10.0.0.3"))
	require.Equal(t, []conntrack.Verdict{conntrack.Denied, conntrack.Denied}, both(w))
	down := endpointUpdate("picky", "way7", nil, nil, "10.0.0.7")
	apply(down)
	require.Equal(t, []conntrack.Verdict{conntrack.Denied, conntrack.Allowed}, both(w))
	e := *down.Endpoint
	e.Down = true
	apply(&dataplane.EndpointUpdate{Key: down.Key, Endpoint: &e})
	require.Equal(t, []conntrack.Verdict{conntrack.Denied, conntrack.Denied}, both(w))
	apply(&dataplane.EndpointRemove{Key: staleKey(policy.KindWorkloadEndpoint, "picky")})
	require.Equal(t, []conntrack.Verdict{conntrack.Unknown, conntrack.Unknown}, both(w))
	require.Equal(t, []conntrack.Verdict{conntrack.Allowed, conntrack.Denied}, both(second))
	require.Equal(t, []conntrack.Verdict{conntrack.Allowed, conntrack.Allowed}, both(first))
}

func TestAddressesThatChangeHands(t *testing.T) {
	remove := func(name string) dataplane.Event {
		return &dataplane.EndpointRemove{Key: staleKey(policy.KindWorkloadEndpoint, name)}
	}
	put := func(name, iface string, addresses ...string) *dataplane.EndpointUpdate {
		return endpointUpdate(name, iface, nil, nil, addresses...)
	}
	floating := func(name, iface, address, external string) dataplane.Event {
		e := put(name, iface, address)
		e.Endpoint.NATs = []policy.IPNAT{{InternalIP: netip.MustParseAddr(address), ExternalIP: netip.MustParseAddr(external)}}
		return e
	}
	anew := put("a", "way1", "10.0.0.1")
	anew.Endpoint.MAC = "02:00:00:00:00:01"
	start := []dataplane.Event{put("a", "way1", "10.0.0.1"), put("b", "way2", "10.0.0.2", "fd00::2")}
	for _, c := range []struct {
		name   string
		events []dataplane.Event
		lost   []string
	}{
		{"policy alone", []dataplane.Event{endpointUpdate("a", "way1", []policy.Key{}, nil, "10.0.0.1")}, nil},
		{"one more", []dataplane.Event{put("a", "way1", "10.0.0.1", "10.0.0.9")}, nil},
		{"one less", []dataplane.Event{put("b", "way2", "fd00::2")}, []string{"10.0.0.2"}},
		{"removed", []dataplane.Event{remove("b")}, []string{"10.0.0.2", "fd00::2"}},
		{"to another endpoint", []dataplane.Event{put("c", "way3", "10.0.0.2"), remove("b")}, []string{"10.0.0.2", "fd00::2"}},
		{"another interface", []dataplane.Event{put("a", "way9", "10.0.0.1")}, []string{"10.0.0.1"}},
		{"another MAC", []dataplane.Event{anew}, []string{"10.0.0.1"}},
		{"one after, as well", []dataplane.Event{put("c", "way3", "10.0.0.2")}, nil},
		{"one before, as well", []dataplane.Event{put("0", "way3", "10.0.0.2")}, []string{"10.0.0.2"}},
		{"new", []dataplane.Event{put("c", "way3", "10.0.0.3")}, nil},
		{"of nobody", []dataplane.Event{remove("c")}, nil},
		{"floating", []dataplane.Event{floating("a", "way1", "10.0.0.1", "203.0.113.1")}, nil},
	} {
		h := newHoldings()
		h.update(dataplane.Batch{Events: start})
		require.Empty(t, h.lostAddresses())
		h.update(dataplane.Batch{Events: c.events})
		require.Equal(t, staleAddrs(c.lost...), h.lostAddresses(), c.name)
	}
	h := newHoldings()
	h.update(dataplane.Batch{Events: append(start, floating("a", "way1", "10.0.0.1", "203.0.113.1"))})
	h.update(dataplane.Batch{Events: []dataplane.Event{floating("b", "way2", "10.0.0.2", "203.0.113.1"), start[0]}})
	require.Equal(t, staleAddrs("203.0.113.1", "fd00::2"), h.lostAddresses(), "a floating address moved")
	changes := h.takeChanges()
	require.Equal(t, map[netip.Addr][]string{
		netip.MustParseAddr("10.0.0.1"): {"way1"}, netip.MustParseAddr("10.0.0.2"): {"way2"},
		netip.MustParseAddr("fd00::2"): nil, netip.MustParseAddr("203.0.113.1"): nil,
	}, changes.addresses)
	again := h.takeChanges()
	require.True(t, again.empty())
}
