// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"unsafe"
)

// A server answers from the address that the client has sent to, which need not be the one that the
// kernel selects.

// requestDestination makes the kernel report the destination of IPv6 packets. IPv4 packets come
// with their header.
func requestDestination(conn *net.IPConn, is6 bool) error {
	if !is6 {
		return nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IPV6, syscall.IPV6_RECVPKTINFO, 1)
	})
	return errors.Join(err, failed)
}

// received returns the SCTP packet of a message of a raw socket, and its destination. IPv4 messages
// start with the header; those of IPv6 have a control message instead.
func received(message, control []byte) (payload []byte, destination netip.Addr, ok bool) {
	if len(control) == 0 {
		return receivedIPv4(message)
	}
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return nil, netip.Addr{}, false
	}
	for _, m := range messages {
		if m.Header.Level == syscall.IPPROTO_IPV6 && m.Header.Type == syscall.IPV6_PKTINFO && len(m.Data) >= 16 {
			return message, netip.AddrFrom16([16]byte(m.Data[:16])), true
		}
	}
	return nil, netip.Addr{}, false
}

func receivedIPv4(message []byte) (payload []byte, destination netip.Addr, ok bool) {
	const header = 20
	if len(message) < header {
		return nil, netip.Addr{}, false
	}
	length := int(message[0]&0xf) * 4
	if length < header || length > len(message) {
		return nil, netip.Addr{}, false
	}
	return message[length:], netip.AddrFrom4([4]byte(message[16:20])), true
}

// sendFrom returns the control message that sets the source of a packet.
func sendFrom(addr netip.Addr) []byte {
	if addr.Is4() {
		info := syscall.Inet4Pktinfo{Spec_dst: addr.As4()}
		return controlMessage(syscall.IPPROTO_IP, syscall.IP_PKTINFO,
			unsafe.Slice((*byte)(unsafe.Pointer(&info)), syscall.SizeofInet4Pktinfo))
	}
	info := syscall.Inet6Pktinfo{Addr: addr.As16()}
	return controlMessage(syscall.IPPROTO_IPV6, syscall.IPV6_PKTINFO,
		unsafe.Slice((*byte)(unsafe.Pointer(&info)), syscall.SizeofInet6Pktinfo))
}

func controlMessage(level, kind int32, data []byte) []byte {
	b := make([]byte, syscall.CmsgSpace(len(data)))
	header := syscall.Cmsghdr{Level: level, Type: kind}
	header.SetLen(syscall.CmsgLen(len(data)))
	copy(b, unsafe.Slice((*byte)(unsafe.Pointer(&header)), syscall.SizeofCmsghdr))
	copy(b[syscall.CmsgLen(0):], data)
	return b
}
