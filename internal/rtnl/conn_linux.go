// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

const (
	// receiveBuffer holds the largest message that the kernel makes. Its size decides how much the
	// kernel puts into one message of a dump, and so how often it walks its tables.
	receiveBuffer = 64 << 10
	// dumpAttempts is how often a dump that was interrupted is tried.
	dumpAttempts = 10

	headerLen = unix.SizeofNlMsghdr
)

// Conn is a connection to the kernel. It is not safe for concurrent use.
type Conn struct {
	sock     *netlink.Socket
	buf      []byte
	port     uint32
	sequence uint32 // of the last message
	chunk    int    // how many messages may be answered at once
	single   Batch
	handle   handle
}

// Dial connects. Requests are checked strictly by the kernel, which needs Linux 4.20.
func Dial(cfg Config) (*Conn, error) {
	sock, err := netlink.Open(netlink.Config{Family: unix.NETLINK_ROUTE, NetNS: cfg.Namespace, Strict: true})
	if err != nil {
		return nil, fmt.Errorf("rtnl: dial: %w", err)
	}
	c := &Conn{sock: sock, buf: make([]byte, receiveBuffer), handle: handle{namespace: cfg.Namespace}}
	size, err := sock.GrowReceive(mostChunk * answerSize)
	c.chunk = min(max(size/answerSize, leastChunk), mostChunk)
	if err == nil {
		c.port, err = sock.Port()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rtnl: dial: %w", err), sock.Close())
	}
	return c, nil
}

// Port is the number by which the kernel's announcements name this connection as the one that made
// a change.
func (c *Conn) Port() uint32 { return c.port }

// Close closes the connection.
func (c *Conn) Close() error {
	c.handle.close()
	return c.sock.Close()
}

// do sends a request and hands each message of the answer to each, which must not keep its argument.
func (c *Conn) do(typ uint16, body []byte, each func([]byte) error) error {
	interrupted, err := c.exchange(typ, unix.NLM_F_ACK, body, each)
	if err == nil && interrupted {
		err = ErrInterrupted
	}
	return err
}

// dump lists: collect makes an empty list and the function that adds a message to it, once for each
// attempt.
func (c *Conn) dump(typ uint16, body []byte, collect func() func([]byte) error) error {
	for range dumpAttempts {
		interrupted, err := c.exchange(typ, unix.NLM_F_DUMP, body, collect())
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case !interrupted:
			return nil
		}
	}
	return ErrInterrupted
}

// list returns the objects of a dump that keep accepts.
func list[T any](
	c *Conn, typ uint16, body []byte, parse func([]byte) (T, error), keep func(T) bool,
) (objects []T, err error) {
	err = c.dump(typ, body, func() func([]byte) error {
		objects = nil
		return func(data []byte) error {
			object, err := parse(data)
			if err == nil && keep(object) {
				objects = append(objects, object)
			}
			return err
		}
	})
	return objects, err
}

// exchange sends a request and reads its answer to the end. It reports whether the kernel marked
// the answer as interrupted: nothing in it may be relied on then.
func (c *Conn) exchange(
	typ, flags uint16, body []byte, each func([]byte) error,
) (interrupted bool, err error) {
	c.sequence++
	sequence := c.sequence
	var request Batch
	request.begin(typ, flags)
	request.buf = append(request.buf, body...)
	request.end()
	binary.NativeEndian.PutUint32(request.buf[8:], sequence)
	if err := c.send(request.buf); err != nil {
		return false, err
	}
	var failed error // of each; the answer is read on, or the next exchange would find its rest
	for {
		n, err := c.receive()
		if err != nil {
			return interrupted, err
		}
		for rest := c.buf[:n]; len(rest) > 0; {
			var m message
			if m, rest, err = cutMessage(rest); err != nil {
				return interrupted, err
			}
			if m.seq != sequence {
				continue // the rest of an exchange that failed midway
			}
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			switch m.typ {
			case unix.NLMSG_ERROR:
				return interrupted, errors.Join(failed, m.kernelError(headerLen))
			case unix.NLMSG_DONE:
				return interrupted, errors.Join(failed, m.kernelError(0))
			}
			if failed == nil {
				failed = each(m.data)
			}
		}
	}
}

// receive waits for one datagram of the kernel and reads it into the buffer.
func (c *Conn) receive() (n int, err error) {
	for {
		n, err := c.poll()
		if !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
		if err := c.sock.Wait(); err != nil {
			return 0, fmt.Errorf("rtnl: receive: %w", err)
		}
	}
}

// poll reads one datagram of the kernel into the buffer, or returns EAGAIN.
func (c *Conn) poll() (n int, err error) {
	if n, err = c.sock.Receive(c.buf); err != nil {
		return 0, fmt.Errorf("rtnl: receive: %w", err)
	}
	if n > len(c.buf) {
		return 0, fmt.Errorf("rtnl: receive: message of %d bytes", n)
	}
	return n, nil
}

// message is one netlink message within the buffer.
type message struct {
	typ, flags uint16
	seq        uint32
	data       []byte
}

var errMalformed = errors.New("rtnl: malformed message")

// cutMessage takes the first message off b.
func cutMessage(b []byte) (m message, rest []byte, err error) {
	if len(b) < headerLen {
		return message{}, nil, errMalformed
	}
	length := int(binary.NativeEndian.Uint32(b))
	if length < headerLen || length > len(b) {
		return message{}, nil, errMalformed
	}
	m = message{
		typ:   binary.NativeEndian.Uint16(b[4:]),
		flags: binary.NativeEndian.Uint16(b[6:]),
		seq:   binary.NativeEndian.Uint32(b[8:]),
		data:  b[headerLen:length],
	}
	aligned := (length + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1)
	return m, b[min(aligned, len(b)):], nil
}

// kernelError reads an NLMSG_ERROR or NLMSG_DONE: an errno, skip bytes, and attributes with an
// explanation.
func (m message) kernelError(skip int) error {
	if len(m.data) < 4 {
		if m.typ == unix.NLMSG_DONE {
			return nil
		}
		return errMalformed
	}
	errno := int32(binary.NativeEndian.Uint32(m.data))
	if errno == 0 {
		return nil
	}
	e := &Error{Errno: syscall.Errno(-errno)}
	if m.flags&unix.NLM_F_ACK_TLVS == 0 || len(m.data) < 4+skip {
		return e
	}
	for a := (attrs{rest: m.data[4+skip:]}); a.next(); {
		if a.typ == unix.NLMSGERR_ATTR_MSG {
			e.Detail = unix.ByteSliceToString(a.data)
		}
	}
	return e
}
