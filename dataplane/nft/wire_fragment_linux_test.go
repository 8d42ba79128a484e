// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// The numbers of IPv6 extension headers.
const (
	extRouting  = 43
	extFragment = 44
	extAuth     = 51
	extOptions  = 60
)

// fragmentHeader returns the header of a fragment at an offset in units of eight bytes. Each packet
// has its own id.
func fragmentHeader(next uint8, offset uint16, more bool, id uint32) []byte {
	offset <<= 3
	if more {
		offset |= 1
	}
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16([]byte{next, 0}, offset), id)
}

// options returns a header of destination options, of 16 bytes. The last eight are given.
func options(next uint8, last []byte) []byte {
	return append([]byte{next, 1, 1, 12, 0, 0, 0, 0}, last...)
}

// incomplete returns fragments that the kernel cannot reassemble, by name: an extension header and
// its payload. Each ends in the id. If a fragment has a part of a transport header, the port is in
// another fragment, or denied.
func incomplete(proto uint8, number uint32, id []byte) map[string]struct {
	next uint8
	body []byte
} {
	first := func(next uint8) []byte { return fragmentHeader(next, 0, true, number) }
	whole := func(next uint8) []byte { return fragmentHeader(next, 0, false, number) }
	later := func(next uint8) []byte { return fragmentHeader(next, 9, true, number) }
	none := options(proto, id) // the next fragment would begin with the transport header
	longer := slices.Concat([]byte{proto, 9}, none[2:])
	auth := []byte{extFragment, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}
	routing := []byte{extFragment, 0, 4, 0, 0, 0, 0, 0}
	type packet = struct {
		next uint8
		body []byte
	}
	return map[string]packet{
		"first, options alone": {extFragment, slices.Concat(first(extOptions), none)},
		"first, behind options": {
			extOptions, slices.Concat(options(extFragment, make([]byte, 8)), first(extOptions), none),
		},
		"first, behind routing":        {extRouting, slices.Concat(routing, first(extOptions), none)},
		"first, behind authentication": {extAuth, slices.Concat(auth, first(extOptions), none)},
		"first, options that continue": {extFragment, slices.Concat(first(extOptions), longer)},
		"first within a first": {
			extFragment, slices.Concat(first(extFragment), first(extOptions), none),
		},
		"first within a whole": {
			extFragment, slices.Concat(whole(extFragment), first(extOptions), none),
		},
		"later within a whole": {extFragment, slices.Concat(whole(extFragment), later(proto), id)},
		"whole, options alone": {extFragment, slices.Concat(whole(extOptions), none)},
		"later within a whole, behind whole ones": {extOptions, slices.Concat(
			options(extFragment, make([]byte, 8)), whole(extFragment), later(proto), id,
		)},
	}
}

// portsDenied denies one port of a protocol, or all except one, and allows the rest.
func portsDenied() []dataplane.Rule {
	deny := func(id string, proto policy.Protocol, m dataplane.Match) dataplane.Rule {
		return dataplane.Rule{ID: id, Action: policy.Deny, Protocol: proto, Destination: m}
	}
	port := []policy.Port{policy.PortNumber(22)}
	return []dataplane.Rule{
		deny("tcp", policy.ProtocolTCP, dataplane.Match{Ports: port}),
		deny("udp", policy.ProtocolUDP, dataplane.Match{Ports: port}),
		deny("sctp", policy.ProtocolSCTP, dataplane.Match{NotPorts: []policy.Port{policy.PortNumber(80)}}),
		nfttest.AllowAll("rest"),
	}
}

// S117: with KeepInvalid, policy evaluates invalid packets. Fragments without a transport header
// still drop, from and to the endpoint with the policy. Complete packets in fragments pass.
func TestWireIncompleteFragments(t *testing.T) { nfttest.EachForm(t, testWireIncompleteFragments) }

func testWireIncompleteFragments(t *testing.T, classes render.ClassesConfig) {
	sent := 0
	for _, keep := range []bool{false, true} {
		for _, egress := range []bool{false, true} {
			b := &tracked{wire: shopWire(t), at: dptest.NewState()}
			b.plane = open(t, b.node, render.Config{Classes: classes, Host: policy.HostConfig{KeepInvalid: keep}})
			s, tiers := denied(shop())
			s.Policies[tiers[0].Policies[0]] = &dataplane.Policy{
				Tier: "default", Ingress: portsDenied(), Egress: portsDenied(),
			}
			if egress {
				s = edit(s, "way1", func(e *dataplane.Endpoint) { e.Egress = tiers })
			} else {
				s = edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = tiers })
			}
			b.become(t, s)
			sent += b.fragments(t, endOf("way1", workloadAddrs(0)[1]))
		}
	}
	t.Logf("%d packets sent", sent)
}

// S117: untracked policy is evaluated before connection tracking. Incomplete fragments drop there
// too.
func TestWireIncompleteFragmentsUntracked(t *testing.T) {
	nfttest.EachForm(t, testWireIncompleteFragmentsUntracked)
}

func testWireIncompleteFragmentsUntracked(t *testing.T, classes render.ClassesConfig) {
	b := &tracked{wire: shopWire(t), at: dptest.NewState()}
	b.connect(t, "eth0")
	b.plane = open(t, b.node, render.Config{Classes: classes})
	s, tiers := denied(shop())
	tiers[0].DefaultAction = policy.Pass
	s.Policies[tiers[0].Policies[0]] = &dataplane.Policy{Tier: "default", Untracked: true, Ingress: portsDenied()}
	s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "eth0"}] = &dataplane.HostEndpoint{
		Interface: "eth0", UntrackedIngress: tiers,
	}
	b.become(t, s)
	t.Logf("%d packets sent", b.fragments(t, endOf("eth0", netip.MustParseAddr("2001:db8:1::9"))))
}

// fragments sends incomplete fragments to way2, of which none may arrive, and complete packets in
// fragments. It returns the number of both.
func (b *tracked) fragments(t *testing.T, from nfttest.FlowEnd) (sent int) {
	t.Helper()
	for _, proto := range []policy.Protocol{
		policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolSCTP, policy.ProtocolICMPv6,
	} {
		for name := range incomplete(0, 0, nil) {
			b.last++
			id := b.last
			packet := incomplete(uint8(proto), uint32(id), binary.BigEndian.AppendUint64(nil, id))[name]
			require.NoError(t, b.fragment(from, packet.next, packet.body))
			require.Empty(t, b.drain(t)[id], "%s: %s", proto, name)
			sent++
		}
	}
	require.True(t, b.inFragments(t, from, 53), "an allowed port")
	require.False(t, b.inFragments(t, from, 22), "a denied port")
	return sent + 4
}

// fragment sends a payload behind an IPv6 header to way2.
func (b *tracked) fragment(from nfttest.FlowEnd, next uint8, body []byte) error {
	return b.putRaw(b.links[from.Iface], rawPacket(from.Addr, workloadAddrs(1)[1], next, body))
}

// inFragments sends UDP to way2 in two fragments and reports whether the second arrives, which has
// the id.
func (b *tracked) inFragments(t *testing.T, from nfttest.FlowEnd, port uint16) bool {
	t.Helper()
	b.last++
	id := b.last
	f := frame{
		src: from.Addr, dst: workloadAddrs(1)[1], proto: policy.ProtocolUDP, sport: uint16(id), dport: port, id: id,
	}
	transport := f.bytes()[40:]
	require.NoError(t, b.fragment(from, extFragment, append(
		fragmentHeader(uint8(f.proto), 0, true, uint32(id)), transport[:8]...,
	)))
	require.NoError(t, b.fragment(from, extFragment, append(
		fragmentHeader(uint8(f.proto), 1, false, uint32(id)), transport[8:]...,
	)))
	return b.drain(t)[id] != ""
}
