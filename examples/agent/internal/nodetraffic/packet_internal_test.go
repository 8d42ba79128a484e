// SPDX-License-Identifier: Apache-2.0

package nodetraffic

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// testFlow returns the flow between the pods of the two nodes.
func testFlow() flow {
	addr := netip.MustParseAddr
	return flow{addr("10.65.1.1"), addr("10.65.2.1"), addr("192.0.2.1"), addr("192.0.2.2")}
}

// ipv4 returns a packet whose header has a protocol and addresses.
func ipv4(protocol byte, src, dst netip.Addr, payload []byte) []byte {
	b := make([]byte, ipv4Header)
	b[0], b[9] = 0x45, protocol
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	return append(b, payload...)
}

func udp(port uint16, payload []byte) []byte {
	b := make([]byte, udpHeader)
	binary.BigEndian.PutUint16(b[2:], port)
	return append(b, payload...)
}

// inner is the packet of a pod.
func inner(f flow, text string) []byte {
	return ipv4(protocolUDP, f.from, f.to, udp(port, []byte(text)))
}

// encapsulated is the packet of a pod as the mode sends it between the nodes.
func encapsulated(m Mode, f flow, text string) frame {
	b := inner(f, text)
	switch m.encapsulation {
	case vxlan:
		headers := make([]byte, vxlanHeader+ethernetHeader)
		binary.BigEndian.PutUint16(headers[len(headers)-2:], etherTypeIPv4)
		b = ipv4(protocolUDP, f.fromNode, f.toNode, udp(4789, append(headers, b...)))
	case ipip:
		b = ipv4(protocolIPIP, f.fromNode, f.toNode, b)
	case wireGuard:
		b = ipv4(protocolUDP, f.fromNode, f.toNode, udp(51820, encryptedMessage()))
	}
	return frame{etherTypeIPv4, b}
}

// encryptedMessage returns a WireGuard message with a packet inside.
func encryptedMessage() []byte { return append([]byte{wireguardData}, make([]byte, 80)...) }

func TestCheck(t *testing.T) {
	f := testFlow()
	for _, m := range Modes() {
		t.Run(m.Name, func(t *testing.T) {
			good := []frame{encapsulated(m, f, request), encapsulated(m, f.reversed(), answer)}
			arp := frame{0x0806, make([]byte, 28)}
			wire, faults := m.check(append(good, arp), f)
			require.Empty(t, faults)
			require.Contains(t, wire, m.packet(f))

			_, faults = m.check(good[:1], f)
			require.Equal(t, []string{"not on the wire: " + m.packet(f.reversed())}, faults)
			_, faults = m.check(nil, f)
			require.Len(t, faults, 2)
			if m.encapsulation == direct {
				return
			}
			unencapsulated := frame{etherTypeIPv4, inner(f, request)}
			_, faults = m.check(append(good, unencapsulated, unencapsulated), f)
			require.Len(t, faults, 1, "the same fault is listed once")
			require.Contains(t, faults[0], ": udp 10.65.1.1 > 10.65.2.1")
		})
	}
}

// In the mode WireGuard, every packet in which a pod's address or a payload is readable is a fault.
// In other modes, such a packet is a fault outside of the encapsulation.
func TestCheckReadable(t *testing.T) {
	f := testFlow()
	m := Modes()[3]
	good := []frame{encapsulated(m, f, request), encapsulated(m, f.reversed(), answer)}
	for _, secret := range [][]byte{f.from.AsSlice(), f.to.AsSlice(), []byte(request), []byte(answer)} {
		message := append(encryptedMessage(), secret...)
		readable := frame{etherTypeIPv4, ipv4(protocolUDP, f.fromNode, f.toNode, udp(51820, message))}
		_, faults := m.check(append(good, readable), f)
		require.Equal(t, []string{"readable on the wire: udp 192.0.2.1 > 192.0.2.2 port 51820"}, faults, "%q", secret)
	}
	// Handshakes alone carry no packet.
	handshake := ipv4(protocolUDP, f.fromNode, f.toNode, udp(51820, append([]byte{1}, make([]byte, 147)...)))
	_, faults := m.check([]frame{{etherTypeIPv4, handshake}, good[1]}, f)
	require.Equal(t, []string{"not on the wire: " + m.packet(f)}, faults)
	m = Modes()[1]
	stray := frame{etherTypeIPv4, ipv4(1, f.toNode, f.from, make([]byte, 8))}
	_, faults = m.check([]frame{encapsulated(m, f, request), encapsulated(m, f.reversed(), answer), stray}, f)
	require.Equal(t, []string{"outside of the encapsulation: protocol 1 192.0.2.2 > 10.65.1.1"}, faults)
}

func TestFrameText(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	six := make([]byte, ipv6Header)
	six[6], six[23], six[39] = 58, 1, 2
	for _, row := range []struct {
		want string
		f    frame
	}{
		{"frame of type 0x0806", frame{0x0806, make([]byte, 28)}},
		{"frame of type 0x0800", frame{etherTypeIPv4, nil}},
		{"frame of type 0x86dd", frame{etherTypeIPv6, make([]byte, 39)}},
		{"frame of type 0x0800", frame{etherTypeIPv4, make([]byte, 20)}}, // a header of length 0
		{"protocol 58 ::1 > ::2", frame{etherTypeIPv6, six}},
		{"protocol 17 192.0.2.1 > 192.0.2.2", frame{etherTypeIPv4, ipv4(protocolUDP, a, b, []byte{1})}},
		{"ipip 192.0.2.1 > 192.0.2.2: frame of type 0x0800", frame{etherTypeIPv4, ipv4(protocolIPIP, a, b, nil)}},
		{
			"udp 192.0.2.1 > 192.0.2.2 port 4789: too short",
			frame{etherTypeIPv4, ipv4(protocolUDP, a, b, udp(4789, make([]byte, 21)))},
		},
		{
			"udp 192.0.2.1 > 192.0.2.2 port 4789: frame of type 0x0000",
			frame{etherTypeIPv4, ipv4(protocolUDP, a, b, udp(4789, make([]byte, 22)))},
		},
		{
			"udp 192.0.2.1 > 192.0.2.2 port 51820: no packet inside",
			frame{etherTypeIPv4, ipv4(protocolUDP, a, b, udp(51820, encryptedMessage()[:wireguardEmpty]))},
		},
	} {
		require.Equal(t, row.want, row.f.String())
	}
}

func TestResult(t *testing.T) {
	e := Exchange{From: testFlow().from, To: testFlow().to, Wire: "x", Faults: []string{"no answer", "stray"}}
	r := Result{Mode: "VXLAN", Exchanges: []Exchange{e}}
	require.Equal(t, "VXLAN        10.65.1.1 -> 10.65.2.1 FAILED: no answer; stray\n", r.String())
	require.Equal(t, []string{
		"VXLAN: 10.65.1.1 -> 10.65.2.1: no answer", "VXLAN: 10.65.1.1 -> 10.65.2.1: stray",
	}, r.Failures())
	r = Result{Mode: "IP in IP", Missing: "ipip"}
	require.Equal(t, "IP in IP     not shown: the kernel has no module ipip\n", r.String())
	require.Empty(t, r.Failures())
}
