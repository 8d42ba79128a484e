// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// receiveBuffer takes any answer: acknowledgements are capped, so they do not echo the request.
const receiveBuffer = 64 << 10

// readBuffer is asked of the socket for the errors of a large transaction that fails all over.
const readBuffer = 4 << 20

// Config says how to reach nf_tables. It is a plain value.
type Config struct {
	// NetNS is a file descriptor of the network namespace, needed only during Dial. Zero means that of the calling thread.
	NetNS int
}

// Conn is a netlink socket to nf_tables of one network namespace. It is not safe for concurrent use.
//
// The kernel handles a request within sendmsg, and all its answers are queued when sendmsg returns. So nothing here
// waits: no answer in the queue means that there is none.
type Conn struct {
	nl  *netlink.Conn
	raw syscall.RawConn
	buf []byte
	// room is the size of the send buffer as last asked for.
	room int
}

// Dial opens a socket. Errors: those of the system calls.
func Dial(cfg Config) (*Conn, error) {
	nl, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, fmt.Errorf("nfnl: open netlink socket: %w", err)
	}
	raw, err := nl.SyscallConn()
	for _, option := range []netlink.ConnOption{netlink.ExtendedAcknowledge, netlink.CapAcknowledge} {
		if err == nil {
			err = nl.SetOption(option, true)
		}
	}
	if err != nil {
		_ = nl.Close()
		return nil, fmt.Errorf("nfnl: set up netlink socket: %w", err)
	}
	c := &Conn{nl: nl, raw: raw, buf: make([]byte, receiveBuffer)}
	_ = c.setBuffer(unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, readBuffer) // A smaller one only loses details of errors.
	return c, nil
}

// Close closes the socket. Errors: that of the system call.
func (c *Conn) Close() error { return c.nl.Close() }

// Commit sends the batch, which must not be used again, as one transaction. A batch without messages is not sent.
//
// Errors: *CommitError if the kernel refused it and so did nothing; an error that is unix.EMSGSIZE if it is too
// large for the send buffer that this process may have (rootless: net.core.wmem_max), and nothing was done; with any other the outcome is unknown.
func (c *Conn) Commit(b *Batch) error {
	if b.Len() == 0 {
		return nil
	}
	data, err := b.finish()
	if err != nil {
		return err
	}
	if err := c.reserve(len(data)); err != nil {
		return err
	}
	if err := c.send(data); err != nil {
		return fmt.Errorf("nfnl: send transaction of %d bytes: %w", len(data), err)
	}
	return c.outcome(b)
}

// outcome reads the answers to a batch: it was committed if the acknowledgement of the
// last message is there, and no error.
func (c *Conn) outcome(b *Batch) error {
	var failures []Failure
	var acked, overrun bool
	for {
		replies, err := c.receive()
		if errors.Is(err, unix.ENOBUFS) { // Some answers are lost; those before and after count.
			overrun = true
			continue
		}
		if err != nil {
			return err
		}
		if replies == nil {
			break
		}
		for _, r := range replies {
			if r.errno == 0 {
				acked = acked || int(r.sequence) == b.Len()
				continue
			}
			f := Failure{Detail: r.detail, Err: r.errno}
			if i := int(r.sequence); i >= 1 && i <= b.Len() {
				f.Object = b.objects[i-1]
			}
			failures = append(failures, f)
		}
	}
	switch {
	case len(failures) > 0:
		return &CommitError{Failures: failures}
	case overrun:
		return fmt.Errorf("nfnl: read outcome of transaction: %w", unix.ENOBUFS)
	case !acked:
		return errors.New("nfnl: read outcome of transaction: no acknowledgement")
	}
	return nil
}

// Generation returns the number of the ruleset's generation: every transaction in the network namespace, of
// any process and to any table, counts it up by one. Errors: those of the system calls.
func (c *Conn) Generation() (uint32, error) {
	request := appendHeaders(nil, subsystem<<8|unix.NFT_MSG_GETGEN, 0, 1, unix.AF_UNSPEC, 0)
	if err := c.send(request); err != nil {
		return 0, fmt.Errorf("nfnl: get generation: %w", err)
	}
	for {
		replies, err := c.receive()
		if err != nil {
			return 0, fmt.Errorf("nfnl: get generation: %w", err)
		}
		if replies == nil {
			return 0, errors.New("nfnl: get generation: no answer")
		}
		for _, r := range replies {
			if r.errno != 0 {
				return 0, fmt.Errorf("nfnl: get generation: %w", r.errno)
			}
			if r.typ == subsystem<<8|unix.NFT_MSG_NEWGEN {
				return generation(r.data)
			}
		}
	}
}

func generation(data []byte) (uint32, error) {
	attrs, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return 0, fmt.Errorf("nfnl: get generation: %w", err)
	}
	attrs.ByteOrder = binary.BigEndian
	for attrs.Next() {
		if attrs.Type() == unix.NFTA_GEN_ID {
			return attrs.Uint32(), nil
		}
	}
	return 0, errors.Join(errors.New("nfnl: get generation: not in the answer"), attrs.Err())
}

// reserve makes the send buffer large enough for one message of the given size.
func (c *Conn) reserve(size int) error {
	size += 4 << 10 // The kernel wants some room to itself.
	if size <= c.room {
		return nil
	}
	if err := c.setBuffer(unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, size); err != nil {
		return fmt.Errorf("nfnl: send buffer of %d bytes: %w", size, err)
	}
	c.room = size
	return nil
}

// setBuffer sets a socket buffer beyond the system's limit, or up to it where we may not.
func (c *Conn) setBuffer(force, option, size int) error {
	var failed error
	err := c.raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, force, size)
		if errors.Is(failed, unix.EPERM) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, size)
		}
	})
	return errors.Join(err, failed)
}

// send first drops what an earlier request that failed halfway may have left in the queue.
func (c *Conn) send(data []byte) error {
	for {
		replies, err := c.receive()
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return err
		}
		if err == nil && replies == nil {
			break
		}
	}
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		failed = ignoringEINTR(func() error { return unix.Sendto(int(fd), data, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) })
		return !errors.Is(failed, unix.EAGAIN)
	})
	return errors.Join(err, failed)
}

// reply is one message of the kernel's.
type reply struct {
	typ      uint16
	sequence uint32
	errno    syscall.Errno // of an acknowledgement or error
	detail   string
	data     []byte // attributes of anything else
}

// receive returns what is in one datagram of the queue, nil if there is none. The
// data are valid until the next call.
func (c *Conn) receive() ([]reply, error) {
	var n int
	var failed error
	err := c.raw.Control(func(fd uintptr) {
		failed = ignoringEINTR(func() (err error) {
			n, _, err = unix.Recvfrom(int(fd), c.buf, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
			return err
		})
	})
	if errors.Is(failed, unix.EAGAIN) {
		return nil, err
	}
	if err := errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("nfnl: receive: %w", err)
	}
	if n > len(c.buf) {
		return nil, fmt.Errorf("nfnl: receive: answer of %d bytes: %w", n, unix.EMSGSIZE)
	}
	return parseReplies(c.buf[:n])
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
