// SPDX-License-Identifier: Apache-2.0

package nodetraffic

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netns"
)

// captureBuffer is the size of the socket's buffer. It is enough for an exchange with all retries.
const captureBuffer = 4 << 20

// capture is a socket that receives copies of all packets of an interface.
type capture struct{ fd int }

// openCapture starts to capture at an interface of a namespace.
func openCapture(ns *netns.NS, name string) (*capture, error) {
	link, err := ns.Link(name)
	if err != nil {
		return nil, err
	}
	c := &capture{}
	err = ns.Do(func() (err error) {
		// Without a protocol, the socket receives nothing before it is bound to the interface.
		c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	// Where the kernel limits the size, a smaller buffer is good enough.
	_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, captureBuffer)
	address := &unix.SockaddrLinklayer{Protocol: swap(unix.ETH_P_ALL), Ifindex: link.Index}
	if err := unix.Bind(c.fd, address); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// frames returns the packets captured since the last call.
func (c *capture) frames() (list []frame, err error) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(c.fd, buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return list, nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		}
		if link, ok := from.(*unix.SockaddrLinklayer); ok {
			list = append(list, frame{etherType: swap(link.Protocol), data: append([]byte(nil), buf[:n]...)})
		}
	}
}

func (c *capture) close() error { return unix.Close(c.fd) }

// swap converts a number between host and network byte order.
func swap(number uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, number))
}
