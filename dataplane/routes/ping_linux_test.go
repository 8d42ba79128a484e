// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netns"
)

// errTooBig means that an echo request exceeded an MTU on its path, and that its sender got the
// ICMP error.
var errTooBig = errors.New("packet too big")

const (
	// pingAttempts is more than one, because the first packet may be lost while the underlying
	// network resolves neighbours.
	pingAttempts = 5
	pingTimeout  = 2 * time.Second
)

// ping sends echo requests of size bytes, IP header included, which must not be fragmented, until
// one is answered.
func ping(from *netns.NS, to netip.Addr, size int) error {
	return pingWith(from, to, size, unix.IP_PMTUDISC_DO)
}

// pingWith is ping with a value of the socket option IP_MTU_DISCOVER, which determines what may be
// fragmented.
func pingWith(from *netns.NS, to netip.Addr, size, discovery int) error {
	return from.Do(func() (err error) {
		for range pingAttempts {
			if err = pingOnce(to, size, discovery); err == nil || errors.Is(err, errTooBig) {
				return err
			}
		}
		return err
	})
}

func pingOnce(to netip.Addr, size, discovery int) error {
	family, proto, header, request := unix.AF_INET, unix.IPPROTO_ICMP, 20, byte(8)
	level, discover, errs := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_RECVERR
	var sa unix.Sockaddr
	if to.Is4() {
		sa = &unix.SockaddrInet4{Addr: to.As4()}
	} else {
		family, proto, header, request = unix.AF_INET6, unix.IPPROTO_ICMPV6, 40, 128
		level, discover, errs = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_RECVERR
		sa = &unix.SockaddrInet6{Addr: to.As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(int64(pingTimeout))
	err = errors.Join(unix.SetsockoptInt(fd, level, discover, discovery), // the same number in both families
		unix.SetsockoptInt(fd, level, errs, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	if err != nil {
		return fmt.Errorf("set up socket: %w", err)
	}
	if err := unix.Connect(fd, sa); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	packet := make([]byte, size-header)
	packet[0] = request
	_, err = unix.Write(fd, packet)
	answer := make([]byte, size)
	n := 0
	if err == nil {
		n, err = unix.Read(fd, answer)
	}
	switch {
	case errors.Is(err, unix.EMSGSIZE):
		return errTooBig
	case err != nil:
		return fmt.Errorf("ping %s: %w", to, err)
	case n != size-header:
		return fmt.Errorf("ping %s: an answer of %d bytes", to, n)
	}
	return nil
}
