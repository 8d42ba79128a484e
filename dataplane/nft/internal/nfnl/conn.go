// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"errors"
	"fmt"
	"syscall"
)

const (
	// receiveBuffer takes any answer: acknowledgements are capped, so they do not echo the request.
	// The kernel makes the parts of a dump as large as the first buffer that it is asked to fill,
	// up to 32 KB, and walks from the start for each: a small one makes a dump quadratic.
	receiveBuffer = 64 << 10
	// interrupts is how often a dump that the ruleset changed under is begun again.
	interrupts = 20
)

// The types of messages that this file knows by name.
const (
	msgNewGen = 15
	msgGetGen = 16

	attrGenID   = 1
	attrGenPID  = 2
	attrGenName = 3
)

// Conn talks to nf_tables of one network namespace. It is not safe for concurrent use.
//
// The kernel handles a request within sendmsg, and all its answers are queued when sendmsg returns. So nothing here
// waits: no answer in the queue means that there is none.
type Conn struct {
	sock Socket
	buf  []byte
	// sequence of the last request that is not a batch.
	sequence uint32
	port     uint32
	request  Messages
}

// Dial opens a socket and returns a connection over it. Errors: those of Open.
func Dial(cfg Config) (*Conn, error) {
	sock, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	return NewConn(sock), nil
}

// NewConn returns a connection over a socket, which Close closes.
func NewConn(sock Socket) *Conn {
	return &Conn{sock: sock, buf: make([]byte, receiveBuffer), sequence: 1 << 31}
}

// Close closes the socket. Errors: that of the system call.
func (c *Conn) Close() error { return c.sock.Close() }

// Port is the socket's netlink port, by which notifications tell who changed the ruleset. It is
// zero before the first Generation.
func (c *Conn) Port() uint32 { return c.port }

// Commit sends the batch as one transaction. A batch without messages is not sent. If each is not nil,
// it gets the answers to messages that request an echo (NLM_F_ECHO), and the new generation if the
// first message requests one.
//
// Errors: *CommitError if the kernel refused it and so did nothing; *SizeError if it is too large
// for the send buffer that this process may have (rootless: net.core.wmem_max), and nothing was
// done; with any other the outcome is unknown.
func (c *Conn) Commit(b *Batch, each func(Message)) error {
	whole, _, err := b.finish()
	if err != nil || b.Len() == 0 {
		return err
	}
	return c.transact(b, whole, each)
}

// Check has the kernel go through the batch without doing any of it. It can be committed afterwards.
//
// Errors as for Commit.
func (c *Conn) Check(b *Batch) error {
	_, check, err := b.finish()
	if err != nil || b.Len() == 0 {
		return err
	}
	return c.transact(b, check, nil)
}

func (c *Conn) transact(b *Batch, data []byte, each func(Message)) error {
	if err := c.send(data); err != nil {
		return fmt.Errorf("nfnl: send transaction of %d bytes: %w", len(data), err)
	}
	return c.outcome(b, each)
}

// outcome reads the answers to a batch: it was committed if the acknowledgement of the
// last message is there, and no error.
func (c *Conn) outcome(b *Batch, each func(Message)) error {
	var failures []Failure
	var acked, overrun bool
	for {
		datagram, err := c.receive()
		if errors.Is(err, syscall.ENOBUFS) { // Some answers are lost; those before and after count.
			overrun = true
			continue
		}
		if err != nil {
			return err
		}
		if datagram == nil {
			break
		}
		for len(datagram) > 0 {
			var m Message
			if m, datagram, err = NextMessage(datagram); err != nil {
				return err
			}
			switch {
			case m.Kind != KindError:
				if each != nil {
					each(m)
				}
			case m.Errno == 0:
				acked = acked || int(m.Sequence) == b.Len()
			default:
				f := Failure{Detail: m.detail, Err: m.Errno}
				if i := int(m.Sequence); i >= 1 && i <= b.Len() {
					f.Object = b.objects[i-1]
				}
				failures = append(failures, f)
			}
		}
	}
	switch {
	case len(failures) > 0:
		return &CommitError{Failures: failures}
	case overrun && !acked:
		return fmt.Errorf("nfnl: read outcome of transaction: %w", syscall.ENOBUFS)
	case !acked:
		return errNoAck
	}
	return nil
}

// Generation returns the number of the ruleset's generation: every transaction in the network namespace, of
// any process and to any table, counts it up by one. Errors: those of the system calls.
func (c *Conn) Generation() (uint32, error) {
	var generation uint32
	err := c.ask(msgGetGen, 0, 0, nil, func(m Message) error {
		if m.is(msgNewGen) {
			c.port = m.Port
			generation = Number32(FindAttr(m.Attrs, attrGenID))
		}
		return nil
	})
	if err == nil && generation == 0 {
		err = errors.New("not in the answer")
	}
	if err != nil {
		return 0, fmt.Errorf("nfnl: get generation: %w", err)
	}
	return generation, nil
}

// Dump has the kernel list objects: typ is the type of the request (NFT_MSG_GET...), attrs narrow
// it down. begin, which may be nil, is called before the first object, and again whenever the
// ruleset changed meanwhile, so that what was listed does not count.
//
// Errors: those of each and of the system calls; one that is unix.ENOENT if what attrs name does
// not exist; one that is unix.EINTR if the ruleset keeps changing.
func (c *Conn) Dump(typ uint16, family uint8, attrs []byte, begin func(), each func(Message) error) error {
	for range interrupts {
		if begin != nil {
			begin()
		}
		broken := false
		err := c.ask(typ, FlagDump, family, attrs, func(m Message) error {
			broken = broken || m.Flags&FlagInterrupted != 0
			if broken || m.Kind == KindDone {
				return nil
			}
			return each(m)
		})
		if err == nil && !broken {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("nfnl: dump: %w", err)
		}
	}
	return fmt.Errorf("nfnl: dump: %w", syscall.EINTR)
}

// Get asks for one object. Errors as for Dump.
func (c *Conn) Get(typ uint16, family uint8, attrs []byte, each func(Message) error) error {
	if err := c.ask(typ, 0, family, attrs, each); err != nil {
		return fmt.Errorf("nfnl: get: %w", err)
	}
	return nil
}

// ask sends a request and hands over the answers, until the end of a dump or the acknowledgement of anything else.
func (c *Conn) ask(typ, flags uint16, family uint8, attrs []byte, each func(Message) error) error {
	if flags&FlagDump == 0 {
		flags |= FlagAck
	}
	c.sequence++
	c.request.Reset()
	c.request.Open(subsystem<<8|typ, flags, c.sequence, family, 0)
	c.request.Raw(attrs)
	c.request.Close()
	if err := c.send(c.request.buf); err != nil {
		return err
	}
	for {
		datagram, err := c.receive()
		if err != nil {
			return err
		}
		if datagram == nil {
			return errNoAck
		}
		for len(datagram) > 0 {
			var m Message
			if m, datagram, err = NextMessage(datagram); err != nil {
				return err
			}
			if m.Sequence != c.sequence {
				continue // of an earlier request that was given up
			}
			if m.Kind == KindError || m.Kind == KindDone && m.Errno != 0 {
				if m.Errno != 0 {
					return m.Errno
				}
				return nil
			}
			if err := each(m); err != nil {
				return err
			}
			if m.Kind == KindDone {
				return nil
			}
		}
	}
}

// send first drops what an earlier request that failed halfway may have left in the queue. The
// kernel goes on with a dump only when it is read, so this also ends one that was given up.
func (c *Conn) send(data []byte) error {
	for {
		datagram, err := c.receive()
		if err != nil && !errors.Is(err, syscall.ENOBUFS) {
			return err
		}
		if err == nil && datagram == nil {
			return c.sock.Send(data)
		}
	}
}

// receive returns one datagram of the queue, nil if there is none. It is valid until the next call.
func (c *Conn) receive() ([]byte, error) {
	n, err := c.sock.Receive(c.buf)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("nfnl: receive: %w", err)
	case n > len(c.buf):
		return nil, fmt.Errorf("nfnl: receive: answer of %d bytes: %w", n, syscall.EMSGSIZE)
	case n == 0:
		return nil, errShort
	}
	return c.buf[:n], nil
}
