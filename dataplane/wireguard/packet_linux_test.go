// SPDX-License-Identifier: Apache-2.0

package wireguard_test

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The UDP ports of the devices.
const firstPort, lastPort = 51820, 51821

// packetTexts returns the different packets, sorted, as "wireguard 51820 > 51820" or, if they are
// not encrypted, as "tcp 10.65.1.1 > 10.65.2.1". A packet between the ports of WireGuard that is
// not one of its messages, or that contains one of the secrets, is "readable 192.0.2.1 >
// 192.0.2.2". Neighbour discovery is omitted.
func packetTexts(packets, secrets [][]byte) (list []string) {
	for _, b := range packets {
		if text := packetText(b, secrets); text != "" {
			list = append(list, text)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// packetText returns the text of an IP packet, or nothing for other packets.
func packetText(b []byte, secrets [][]byte) string {
	p, ok := nstest.ParseIP(b)
	if !ok {
		return ""
	}
	const firstDiscovery, lastDiscovery = 133, 137 // router solicitation, redirect
	kind := ""
	switch p.Protocol {
	case unix.IPPROTO_UDP:
		from, to := binary.BigEndian.Uint16(p.Payload), binary.BigEndian.Uint16(p.Payload[2:])
		kind = "udp"
		if min(from, to) >= firstPort && max(from, to) <= lastPort {
			if encrypted(p.Payload[8:], secrets) {
				return fmt.Sprintf("wireguard %d > %d", from, to)
			}
			kind = "readable"
		}
	case unix.IPPROTO_TCP:
		kind = "tcp"
	case unix.IPPROTO_ICMP:
		kind = "icmp"
	case unix.IPPROTO_ICMPV6:
		if kind = "icmp"; p.Payload[0] >= firstDiscovery && p.Payload[0] <= lastDiscovery {
			return ""
		}
	default:
		return ""
	}
	return fmt.Sprintf("%s %s > %s", kind, p.Src, p.Dst)
}

// encrypted reports whether the payload of a UDP packet begins like a WireGuard message, and
// contains no secret. A WireGuard message begins with its type and three zero bytes, as section 5.4
// of WireGuard's paper has them.
func encrypted(payload []byte, secrets [][]byte) bool {
	const initiation, transport = 1, 4 // the types between them are the response to a handshake and the cookie reply
	return len(payload) > 4 && payload[0] >= initiation && payload[0] <= transport &&
		bytes.Equal(payload[1:4], make([]byte, 3)) &&
		!slices.ContainsFunc(secrets, func(s []byte) bool { return bytes.Contains(payload, s) })
}

// plaintext returns the texts of the packets between pods that are not encrypted, and of readable
// ones.
func plaintext(packets []string) (list []string) {
	for _, p := range packets {
		if strings.Count(p, "10.65.")+strings.Count(p, "fd65:") > 1 || strings.HasPrefix(p, "readable") {
			list = append(list, p)
		}
	}
	return list
}

// secretsOf returns the bytes that encrypted packets between nodes must not contain: the texts, and
// the addresses of pods. One IPv4 address has four bytes, which occur in encrypted data by chance.
// So each secret has two addresses, as in the header.
func secretsOf(pods, others []netip.Addr, texts ...string) (list [][]byte) {
	for _, text := range texts {
		list = append(list, []byte(text))
	}
	for _, a := range pods {
		if a.Is6() {
			list = append(list, a.AsSlice())
			continue
		}
		for _, b := range slices.Concat(pods, others) {
			if b.Is4() {
				list = append(list, slices.Concat(a.AsSlice(), b.AsSlice()), slices.Concat(b.AsSlice(), a.AsSlice()))
			}
		}
	}
	return list
}

// A packet between the ports of WireGuard is encrypted only if it has the form of a message and
// contains no secret.
func TestReadablePacketsAreFound(t *testing.T) {
	node := nstest.New(t)
	peer := nstest.NewPeer(t, node, "eth0", "192.0.2.1/24")
	var listener net.PacketConn
	require.NoError(t, node.Do(func() (err error) {
		listener, err = net.ListenPacket("udp", fmt.Sprintf("192.0.2.1:%d", firstPort))
		return err
	}))
	defer listener.Close()
	var conn net.Conn
	require.NoError(t, peer.Do(func() (err error) {
		from := &net.UDPAddr{Port: lastPort}
		conn, err = (&net.Dialer{LocalAddr: from}).Dial("udp", fmt.Sprintf("192.0.2.1:%d", firstPort))
		return err
	}))
	defer conn.Close()
	noise := make([]byte, 64)
	_, _ = rand.Read(noise) // it never fails
	pods := []netip.Addr{netip.MustParseAddr("10.65.1.1"), netip.MustParseAddr("fd65::1:1")}
	others := []netip.Addr{netip.MustParseAddr("10.65.2.0")}
	secrets := secretsOf(pods, others, "hello from n1")
	wire := nstest.NewCapture(t, node, "eth0")
	for _, tt := range []struct {
		name          string
		header, inner []byte
		readable      bool
	}{
		{"handshake", []byte{1, 0, 0, 0}, nil, false},
		{"data", []byte{4, 0, 0, 0}, nil, false},
		{"type 0", []byte{0, 0, 0, 0}, nil, true},
		{"type 5", []byte{5, 0, 0, 0}, nil, true},
		{"IPv4", []byte{0x45, 0, 0, 84}, nil, true},
		{"reserved bytes", []byte{4, 0, 0, 1}, nil, true},
		{"text", []byte{4, 0, 0, 0}, []byte("hello from n1\n"), true},
		{"to a pod", []byte{4, 0, 0, 0}, []byte{10, 65, 2, 0, 10, 65, 1, 1}, true},
		{"from a pod", []byte{4, 0, 0, 0}, []byte{10, 65, 1, 1, 10, 65, 2, 0}, true},
		{"IPv6", []byte{4, 0, 0, 0}, pods[1].AsSlice(), true},
	} {
		_, err := conn.Write(slices.Concat(tt.header, noise, tt.inner, noise))
		require.NoError(t, err)
		_, _, err = listener.ReadFrom(make([]byte, 1<<11)) // the capture has it, too
		require.NoError(t, err)
		want := "wireguard 51821 > 51820"
		if tt.readable {
			want = "readable 192.0.2.2 > 192.0.2.1"
		}
		got := packetTexts(wire.Packets(), secrets)
		require.Equal(t, []string{want}, got, tt.name)
		require.Equal(t, tt.readable, len(plaintext(got)) == 1, tt.name)
	}
}
