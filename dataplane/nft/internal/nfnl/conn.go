// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/wayleave/wayleave/internal/netlink"
)

// errNoAck reports that the kernel sent no acknowledgement, so that the result is unknown.
var errNoAck = errors.New("nfnl: read result: no acknowledgement")

// The types of messages that this file uses.
const (
	msgNewGen = 15
	msgGetGen = 16

	attrGenID   = 1
	attrGenPID  = 2
	attrGenName = 3
)

// Config configures a connection to nf_tables.
type Config struct {
	// NetNS is a file descriptor of the network namespace, needed only while a socket is opened.
	// Zero means the namespace of the calling thread.
	NetNS int
}

// Conn is a connection to the nf_tables of one network namespace. It is not safe for concurrent
// use.
type Conn struct {
	link *netlink.Conn
	port uint32
}

// Dial opens a socket and returns a connection with it. Errors: those of the system calls.
func Dial(cfg Config) (*Conn, error) {
	link, err := netlink.Dial(netlink.Config{Family: netlink.Netfilter, NetNS: cfg.NetNS})
	if err != nil {
		return nil, fmt.Errorf("nfnl: %w", err)
	}
	return &Conn{link: link}, nil
}

// NewConn returns a connection with a socket. Close closes the socket.
func NewConn(sock netlink.Socket) *Conn { return &Conn{link: netlink.NewConn(sock)} }

// Close closes the socket. Errors: that of the system call.
func (c *Conn) Close() error { return c.link.Close() }

// Port returns the socket's netlink port. In a notification, the port identifies the socket that
// made the change. Port returns zero before the first call of Generation, which reads the port.
func (c *Conn) Port() uint32 { return c.port }

// Commit sends the batch as one transaction. It does not send a batch without messages.
//
// A message may request an echo (NLM_F_ECHO). If the function each() is not nil, it receives the
// kernel's answers to such messages. If the first message requests an echo, the function each()
// also receives the new generation.
//
// Errors:
//
//   - *CommitError: the kernel refused the batch, and nothing has changed.
//   - *netlink.SizeError: the batch is larger than the largest send buffer of this process, and
//     nothing was sent. For an ordinary user, net.core.wmem_max limits the buffer.
//   - After any other error, the result is unknown.
func (c *Conn) Commit(b *Batch, each func(Message)) error {
	whole, _, err := b.finish()
	if err != nil || b.Len() == 0 {
		return err
	}
	return c.transact(b, whole, each)
}

// Check makes the kernel validate the batch without a commit. The batch can be committed
// afterwards.
//
// Errors: as for Commit.
func (c *Conn) Check(b *Batch) error {
	_, check, err := b.finish()
	if err != nil || b.Len() == 0 {
		return err
	}
	return c.transact(b, check, nil)
}

func (c *Conn) transact(b *Batch, data []byte, each func(Message)) error {
	if err := c.link.Send(data); err != nil {
		return fmt.Errorf("nfnl: send transaction: %w", err)
	}
	return c.result(b, each)
}

// result reads the answers to a batch. The batch was committed if there is the acknowledgement of
// the last message, and no error.
func (c *Conn) result(b *Batch, each func(Message)) error {
	var failures []Failure
	acked := false
	missed, err := c.link.Poll(func(m netlink.Message) error { // answers before and after lost ones count
		if m.Type != netlink.TypeError {
			parsed, ok, err := parse(&m)
			if ok && each != nil {
				each(parsed)
			}
			return err
		}
		refused := m.Refusal()
		if refused == nil {
			acked = acked || int(m.Sequence) == b.Len()
			return nil
		}
		f := Failure{Detail: refused.Detail, Err: refused.Errno}
		if i := int(m.Sequence); i >= 1 && i <= b.Len() {
			f.Object = b.objects[i-1]
		}
		failures = append(failures, f)
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("nfnl: read result of transaction: %w", err)
	case len(failures) > 0:
		return &CommitError{Failures: failures}
	case missed && !acked:
		return fmt.Errorf("nfnl: read result of transaction: %w", syscall.ENOBUFS)
	case !acked:
		return errNoAck
	}
	return nil
}

// Generation returns the generation of the ruleset. Every transaction in the network namespace
// increments the generation, whichever process sends it and whichever table it changes. Errors:
// those of the system calls.
func (c *Conn) Generation() (uint32, error) {
	var generation uint32
	err := c.request(msgGetGen, 0, nil).Query(handler(func(m Message) error {
		c.port = m.Port
		generation = netlink.Number32(netlink.FindAttr(m.Attrs, attrGenID))
		return nil
	}))
	if err == nil && generation == 0 {
		err = errors.New("not in the answer")
	}
	if err != nil {
		return 0, fmt.Errorf("nfnl: get generation: %w", err)
	}
	return generation, nil
}

// Dump requests a list of objects from the kernel, and passes the objects to the function each(),
// one by one. The parameter typ is the type of the request (NFT_MSG_GET...). The attributes attrs
// limit the request, for example to one table.
//
// The function begin() is called before the first object. If the ruleset changes during the dump,
// the dump starts again. Then begin() is called again, and the function each() receives all objects
// from the first one on. So begin() must discard the objects that were received before. begin may
// be nil.
//
// Errors: those of the function each() and of the system calls. The error unix.ENOENT means that an
// object to which attrs refer does not exist. The error unix.EINTR means that the ruleset has
// changed during several dumps in a row.
func (c *Conn) Dump(typ uint16, family uint8, attrs []byte, begin func(), each func(Message) error) error {
	if begin == nil {
		begin = func() {}
	}
	if err := c.request(typ, family, attrs).Dump(begin, handler(each)); err != nil {
		return fmt.Errorf("nfnl: dump: %w", err)
	}
	return nil
}

// Get requests one object from the kernel, and passes it to the function each(). Errors: as for
// Dump.
func (c *Conn) Get(typ uint16, family uint8, attrs []byte, each func(Message) error) error {
	if err := c.request(typ, family, attrs).Query(handler(each)); err != nil {
		return fmt.Errorf("nfnl: get: %w", err)
	}
	return nil
}

// request prepares a request.
func (c *Conn) request(typ uint16, family uint8, attrs []byte) *netlink.Conn {
	c.link.Request(subsystem<<8|typ, family, 0, 0, 0).Raw(attrs)
	return c.link
}

// handler returns a function that passes messages of nf_tables to the function each(), and ignores
// other messages.
func handler(each func(Message) error) func(netlink.Message) error {
	return func(m netlink.Message) error {
		parsed, ok, err := parse(&m)
		if ok {
			err = each(parsed)
		}
		return err
	}
}
