// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"errors"
	"fmt"
	"syscall"
)

const (
	// receiveBuffer has room for every answer: acknowledgements do not contain the request. The
	// kernel makes the parts of a dump as large as the first buffer that it fills, up to 32 KB. For
	// each part, it iterates from the start. So with a small buffer, the time of a dump is
	// quadratic.
	receiveBuffer = 64 << 10
	// attempts is the maximum number of attempts of a dump that is interrupted each time. It is
	// also the maximum number of times in a row that reading the queue may fail.
	attempts = 10
)

// ErrInterrupted means that objects changed during a dump. It is an EINTR.
var ErrInterrupted = fmt.Errorf("interrupted dump: %w", syscall.EINTR)

// Lost reports whether the error is EINTR or ENOBUFS. These mean that a part of an answer was lost.
// The next answer can still be read.
func Lost(err error) bool { return errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ENOBUFS) }

// Conn sends requests and receives answers over a socket. It is not safe for concurrent use.
//
// The kernel processes a request within sendmsg, and queues the next part of a dump within recvmsg.
// So a Conn never waits: if the queue is empty, there is no answer.
type Conn struct {
	sock     Socket
	buf      []byte
	request  Messages
	chunk    int    // maximum number of messages that may be answered at once
	sequence uint32 // of the last message
	// pending means that the end of the answer to a request was not read. interrupted means that
	// the kernel marked the answer as interrupted.
	pending, interrupted bool
	// single means that the answer is one message without an end marker.
	single bool
}

// NewConn returns a connection over a socket. Close closes the socket.
func NewConn(sock Socket) *Conn {
	c := &Conn{sock: sock, buf: make([]byte, receiveBuffer), chunk: leastChunk}
	if s, ok := sock.(interface{ Answers() int }); ok {
		c.chunk = min(max(s.Answers(), leastChunk), mostChunk)
	}
	return c
}

// Socket returns the socket.
func (c *Conn) Socket() Socket { return c.sock }

// Close closes the socket. Errors: that of the system call.
func (c *Conn) Close() error { return c.sock.Close() }

// Request begins a request. header is as in Messages.Open. Append attributes to the result. Then
// call Query, Dump or Start to send the request.
func (c *Conn) Request(typ uint16, header ...byte) *Messages {
	c.request.Reset()
	c.request.Open(typ, 0, 0, header...)
	return &c.request
}

// Query sends the request that was begun with Request, and passes every message of the answer to
// the function each(). This function must not keep the data of the message. If the function returns
// an error, Query ends and returns this error.
//
// Other errors: *AckError; ErrMalformed; EAGAIN if there is no answer; those of the system calls.
func (c *Conn) Query(each func(Message) error) error {
	err := c.Start(FlagAck)
	for done := false; err == nil && !done; {
		done, err = c.Next(each)
	}
	return err
}

// Dump sends the request that was begun with Request, as a request for all objects. Dump first
// calls begin(), and then passes every object of the answer to the function each(). If a part of
// the answer was lost, or objects changed during the dump, Dump starts again with a call of
// begin(). So begin() must discard the objects of an earlier attempt.
//
// Errors: as for Query; ErrInterrupted if every attempt was interrupted.
func (c *Conn) Dump(begin func(), each func(Message) error) error {
	for range attempts {
		begin()
		err := c.drain()
		if err == nil {
			if err := c.Start(FlagDump); err != nil {
				return err // also ENOBUFS, because nothing was sent
			}
		}
		for done := false; err == nil && !done; {
			done, err = c.next(each, true)
		}
		if !Lost(err) {
			return err
		}
	}
	return ErrInterrupted
}

// Start sends the request that was begun with Request. flags is FlagAck, FlagDump or 0; with 0, the
// answer is one message. Call Next to read the answer. The caller may do other work between two
// calls of Next.
func (c *Conn) Start(flags uint16) error {
	c.request.Close()
	data, err := c.request.Data()
	if err != nil {
		return err
	}
	c.sequence++
	setSequence(data, c.sequence)
	setFlags(data, flags)
	c.interrupted, c.single = false, flags == 0
	return c.Send(data)
}

// Next reads one datagram of the answer, and passes its messages to the function each(), except for
// the message that ends the answer. The result done means that this was the last datagram of the
// answer.
//
// Errors: as for Query; ErrInterrupted if objects changed during the dump, and then done is true.
func (c *Conn) Next(each func(Message) error) (done bool, err error) { return c.next(each, false) }

// next is Next. With whole, an interrupted answer is discarded.
func (c *Conn) next(each func(Message) error, whole bool) (done bool, err error) {
	datagram, err := c.receive()
	for len(datagram) > 0 && err == nil {
		var m Message
		if datagram, err = m.Read(datagram); err != nil || m.Sequence != c.sequence {
			continue // it belongs to an earlier exchange that failed
		}
		c.interrupted = c.interrupted || m.Flags&FlagInterrupted != 0
		switch {
		case m.Type == TypeError || m.Type == TypeDone:
			c.pending = false
			if refused := m.Refusal(); refused != nil {
				return true, refused
			}
			if c.interrupted {
				return true, ErrInterrupted
			}
			return true, nil
		case m.Type >= leastType && !(whole && c.interrupted):
			if err = each(m); c.single {
				c.pending = false
				return true, err
			}
		}
	}
	return false, err
}

// Send sends complete messages in one system call. If the last answer was not read to its end, Send
// first discards the rest of it. The reason is that the kernel refuses a new dump before the last
// one has been read.
func (c *Conn) Send(data []byte) error {
	if err := c.drain(); err != nil {
		return err
	}
	c.pending = true
	if err := c.sock.Send(data); err != nil {
		return fmt.Errorf("netlink: send %d bytes: %w", len(data), err)
	}
	return nil
}

func (c *Conn) drain() (err error) {
	if c.pending {
		_, err = c.Poll(func(Message) error { return nil })
	}
	return err
}

// Poll reads until the queue is empty, without waiting, and passes every message to the function
// each(). The result missed means that some messages were not handled: the kernel has dropped them,
// they were malformed, or the function returned an error.
//
// Errors: those of the system calls.
func (c *Conn) Poll(each func(Message) error) (missed bool, err error) {
	for failures := 0; ; {
		datagram, err := c.Receive()
		switch {
		case err == nil:
			failures = 0
		case errors.Is(err, syscall.EAGAIN):
			c.pending = false
			return missed, nil
		case Lost(err) || errors.Is(err, ErrMalformed):
			missed = true
			if failures++; failures == attempts {
				return missed, err
			}
		default:
			return missed, err
		}
		for len(datagram) > 0 {
			var m Message
			if datagram, err = m.Read(datagram); err == nil {
				err = each(m)
			}
			missed = missed || err != nil
		}
	}
}

// Receive returns one datagram of the queue, valid until the next call. It never waits, and returns
// EAGAIN if the queue is empty. Other errors: those of the system call; ErrMalformed.
func (c *Conn) Receive() ([]byte, error) {
	n, err := c.sock.Receive(c.buf)
	switch {
	case err == error(syscall.EAGAIN): // the usual case: not wrapped, because that allocates
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("netlink: receive: %w", err)
	case n > len(c.buf) || n == 0:
		return nil, fmt.Errorf("netlink: receive: answer of %d bytes: %w", n, ErrMalformed)
	}
	return c.buf[:n], nil
}

// receive is like Receive, but if the queue is empty, its error says that there is no answer.
func (c *Conn) receive() ([]byte, error) {
	datagram, err := c.Receive()
	if errors.Is(err, syscall.EAGAIN) {
		err = fmt.Errorf("netlink: no answer: %w", err)
	}
	return datagram, err
}
