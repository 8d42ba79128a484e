// SPDX-License-Identifier: Apache-2.0

package nodetraffic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/dataplane/wireguard"
)

// Numbers of protocols in packets.
const (
	etherTypeIPv4 = 0x0800
	etherTypeIPv6 = 0x86dd
	protocolIPIP  = 4
	protocolUDP   = 17
)

// Lengths of headers, in bytes.
const (
	ipv4Header     = 20 // minimum
	ipv6Header     = 40
	udpHeader      = 8
	vxlanHeader    = 8
	ethernetHeader = 14
)

const (
	// wireguardData is the type of WireGuard messages that contain packets.
	wireguardData = 4
	// wireguardEmpty is the length of such a message without a packet, which is a keepalive.
	wireguardEmpty = 32
)

// frame is a captured packet, without the header of its link.
type frame struct {
	etherType uint16
	data      []byte
}

// String describes the headers of the frame, the outermost first, for example "udp 192.0.2.1 >
// 192.0.2.2 port 4789: udp 10.65.1.1 > 10.65.2.1".
func (f frame) String() string {
	h, ok := f.header()
	if !ok {
		return fmt.Sprintf("frame of type 0x%04x", f.etherType)
	}
	ends := fmt.Sprintf("%s > %s", h.src, h.dst)
	switch {
	case h.protocol == protocolIPIP:
		return "ipip " + ends + ": " + frame{etherTypeIPv4, h.payload}.String()
	case h.protocol != protocolUDP || len(h.payload) < udpHeader:
		return fmt.Sprintf("protocol %d %s", h.protocol, ends)
	}
	message := h.payload[udpHeader:]
	switch port := binary.BigEndian.Uint16(h.payload[2:]); port {
	case routes.DefaultPort:
		if len(message) < vxlanHeader+ethernetHeader {
			return fmt.Sprintf("udp %s port %d: too short", ends, port)
		}
		inner := message[vxlanHeader:]
		etherType := binary.BigEndian.Uint16(inner[ethernetHeader-2:])
		return fmt.Sprintf("udp %s port %d: %s", ends, port, frame{etherType, inner[ethernetHeader:]})
	case wireguard.DefaultPort:
		text := fmt.Sprintf("udp %s port %d", ends, port)
		if len(message) <= wireguardEmpty || message[0] != wireguardData {
			text += ": no packet inside" // a handshake, for example
		}
		return text
	}
	return "udp " + ends
}

// header has some fields of an IP header, and the payload after it.
type header struct {
	protocol byte
	src, dst netip.Addr
	payload  []byte
}

// header returns the IP header of the frame, if it has one.
func (f frame) header() (h header, ok bool) {
	b := f.data
	switch {
	case f.etherType == etherTypeIPv4 && len(b) >= ipv4Header:
		length := 4 * int(b[0]&15)
		if length < ipv4Header || len(b) < length {
			return h, false
		}
		src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
		return header{protocol: b[9], src: src, dst: dst, payload: b[length:]}, true
	case f.etherType == etherTypeIPv6 && len(b) >= ipv6Header:
		src, dst := netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
		return header{protocol: b[6], src: src, dst: dst, payload: b[ipv6Header:]}, true
	}
	return h, false
}

// flow has the addresses of the sending and the receiving pod, and of their nodes.
type flow struct{ from, to, fromNode, toNode netip.Addr }

func (f flow) reversed() flow { return flow{f.to, f.from, f.toNode, f.fromNode} }

// packet describes the packets that a flow should cause between the nodes.
func (m Mode) packet(f flow) string {
	inner := fmt.Sprintf("udp %s > %s", f.from, f.to)
	outer := fmt.Sprintf("%s > %s", f.fromNode, f.toNode)
	switch m.encapsulation {
	case vxlan:
		return fmt.Sprintf("udp %s port %d: %s", outer, routes.DefaultPort, inner)
	case ipip:
		return fmt.Sprintf("ipip %s: %s", outer, inner)
	case wireGuard:
		return fmt.Sprintf("udp %s port %d", outer, wireguard.DefaultPort)
	}
	return inner
}

// check compares captured frames with the expected ones. It returns a description of the frame that
// carries the request, and all faults. A frame in which a payload or a pod's address is readable
// must have the encapsulation of the mode. In the mode WireGuard, there must be no such frame.
func (m Mode) check(frames []frame, f flow) (wire string, faults []string) {
	wanted := map[string]string{m.packet(f): request, m.packet(f.reversed()): answer}
	seen := map[string]bool{}
	hidden := m.encapsulation == wireGuard
	for _, captured := range frames {
		description := captured.String()
		text, known := wanted[description]
		readable := captured.shows([]byte(request), []byte(answer), f.from.AsSlice(), f.to.AsSlice())
		switch {
		case readable && hidden:
			faults = append(faults, "readable on the wire: "+description)
		case readable && !known:
			faults = append(faults, "outside of the encapsulation: "+description)
		case known && (hidden || captured.shows([]byte(text))):
			seen[description] = true
		}
	}
	for _, description := range []string{m.packet(f), m.packet(f.reversed())} {
		if !seen[description] {
			faults = append(faults, "not on the wire: "+description)
		}
	}
	slices.Sort(faults)
	wire = m.packet(f)
	if hidden {
		wire += ": not readable"
	}
	return wire, slices.Compact(faults)
}

// shows reports whether the frame contains any of the texts.
func (f frame) shows(texts ...[]byte) bool {
	return slices.ContainsFunc(texts, func(text []byte) bool { return bytes.Contains(f.data, text) })
}
