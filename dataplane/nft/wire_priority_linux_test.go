// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// marking is the mark and priority that a foreign table gives a packet before policy, and the
// priority that the packet must have behind policy.
type marking struct {
	port           uint16 // identifies the packet
	mark           uint32
	priority, want uint16
	dscp           int // code point from which the kernel derives the priority; -1 if the table sets it
}

// markings returns all marks with all priorities, and the priorities that the kernel derives from
// the type of service.
func markings() (out []marking) {
	for _, mark := range []uint32{0, 0x4000, 1337} {
		for _, priority := range []uint16{0, 1, 2, 4, 6, 7} {
			m := marking{port: 1000 + uint16(len(out)), mark: mark, priority: priority, want: priority, dscp: -1}
			if priority == 7 { // it is not one of the kept priorities
				m.want = 0
			}
			out = append(out, m)
		}
	}
	for dscp, priority := range map[int]uint16{0: 0, 2: 2, 6: 4, 4: 6} {
		out = append(out, marking{port: 1100 + uint16(dscp), priority: priority, want: priority, dscp: dscp})
	}
	return out
}

// othersMark returns a foreign table that marks packets before policy in the same hooks. Behind
// policy, it drops packets without their marking.
func othersMark(all []marking) string {
	var before, dscp, behind strings.Builder
	for _, m := range all {
		if m.dscp < 0 {
			fmt.Fprintf(&before, "udp dport %d meta mark set %d meta priority set 0:%x\n", m.port, m.mark, m.priority)
		} else {
			fmt.Fprintf(&dscp, "udp dport %d ip dscp set %d\n", m.port, m.dscp)
		}
		fmt.Fprintf(&behind, "udp dport %d meta mark %d meta priority 0:%x accept\n", m.port, m.mark, m.want)
	}
	text := "table inet others {\nchain tos {\ntype filter hook prerouting priority -200\n" + dscp.String() + "}\n"
	for _, hook := range []string{"input", "forward", "output"} {
		text += "chain before-" + hook + " {\ntype filter hook " + hook + " priority -200\n" + before.String() + "}\n"
	}
	for _, hook := range []string{"input", "postrouting"} {
		text += "chain behind-" + hook + " {\ntype filter hook " + hook + " priority 300\n" + behind.String() +
			"udp dport 1000-1200 drop\n}\n"
	}
	return text + "}\n"
}

// TestWirePriorities: behind policy, a packet has the same mark and priority as before, if it is
// forwarded, sent by the host or received by it. With lookups, a priority that is not one of the
// kept ones becomes zero.
func TestWirePriorities(t *testing.T) { nfttest.EachForm(t, testWirePriorities) }

func testWirePriorities(t *testing.T, classes render.ClassesConfig) {
	own := addrs("192.0.2.1", "2001:db8::1")
	b := newWire(t, []string{"way1", "way2", "eth0"}, map[string][]netip.Addr{"eth0": own})
	all := markings()
	load(t, b.node, othersMark(all))
	d := open(t, b.node, render.Config{
		Classes: classes,
		Host:    policy.HostConfig{HostToEndpointAction: policy.HostReturn, EndpointToHostAction: policy.HostAccept},
	})
	s := shop()
	for i, id := range []dataplane.IPSetID{"s:one", "s:two"} {
		a := workloadAddrs(i)
		s.Sets[id] = nfttest.NetSet(a[0].String()+"/32", a[1].String()+"/128", "192.0.2.1/32", "2001:db8::1/128")
	}
	key := policy.Key{Kind: policy.KindPolicy, Name: "udp"}
	udp := func(id string, m, n dataplane.Match) dataplane.Rule {
		return dataplane.Rule{ID: id, Action: policy.Allow, Protocol: policy.ProtocolUDP, Source: m, Destination: n}
	}
	s.Policies[key] = &dataplane.Policy{
		Tier: "default",
		Ingress: []dataplane.Rule{udp("in", set("s:one"), dataplane.Match{
			Ports: nfttest.PortList(policy.PortRange(1000, 1200)),
		})},
		Egress: []dataplane.Rule{udp("out", dataplane.Match{}, set("s:two"))},
	}
	tiers := []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
	s = edit(s, "way1", func(e *dataplane.Endpoint) { e.Egress = tiers })
	s = edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = tiers })
	require.NoError(t, d.Apply(t.Context(), nfttest.Transition(s)))

	for family := range 2 {
		way1, way2 := endOf("way1", workloadAddrs(0)[family]), endOf("way2", workloadAddrs(1)[family])
		host := nfttest.FlowEnd{Addr: own[family], Own: true}
		for name, way := range map[string][2]nfttest.FlowEnd{
			"forward": {way1, way2}, "input": {way1, host}, "output": {host, way2},
		} {
			for _, m := range all {
				if m.dscp >= 0 && (name != "forward" || family == 1) {
					continue
				}
				f := frame{src: way[0].Addr, dst: way[1].Addr, proto: policy.ProtocolUDP, sport: 2000, dport: m.port}
				require.True(t, b.pass(t, f, way[0], way[1]), "%s %s: %+v", name, f.src, m)
			}
		}
		denied := frame{src: way1.Addr, dst: way2.Addr, proto: policy.ProtocolUDP, sport: 2000, dport: 999}
		require.False(t, b.pass(t, denied, way1, way2), "policy was evaluated")
	}
}
