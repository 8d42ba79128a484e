// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
)

const (
	// receiveBuffer is larger than the largest part of a dump that the kernel makes (32 KB), which it fits to
	// the buffer: the larger, the fewer system calls.
	receiveBuffer = 64 << 10
	// deleteBatch is how many flows one system call ends. The answers to all of it fit any receive buffer.
	deleteBatch = 64
	// dumpAttempts is how often a dump that was interrupted is tried.
	dumpAttempts = 10
)

var (
	// ErrUnsupported says that there is no connection tracking on this operating system.
	ErrUnsupported = nfnl.ErrUnsupported
	// ErrInterrupted says that the table changed too fast to be read: several dumps in a row were interrupted.
	ErrInterrupted = errors.New("conntrack: interrupted dump")
)

// EndError says that the kernel refused to end one flow. It is immutable, and so safe for concurrent use.
type EndError struct {
	// Flow that goes on.
	Flow Flow
	// Err is the error number.
	Err error
}

// Error names the flow and the error number.
func (e *EndError) Error() string {
	return "conntrack: end flow " + e.Flow.String() + ": " + e.Err.Error()
}

// Unwrap returns the error number.
func (e *EndError) Unwrap() error { return e.Err }

// ConnConfig says how to reach connection tracking.
type ConnConfig struct {
	// NetNS is a file descriptor of the network namespace, needed only during Dial. Zero means that
	// of the calling thread.
	NetNS int
}

// Conn is a connection to the connection tracking of one network namespace. It is not safe for concurrent use.
//
// Nothing of it waits: the kernel handles a request within Send, and queues the next part of a dump within
// Receive, so an empty queue means that there is no more.
type Conn struct {
	socket   nfnl.Socket
	buf      []byte
	request  nfnl.Messages
	sequence uint32
	// dumping says that a dump was begun and its end not seen yet; interrupted, that a part of it
	// said that it must not be relied on.
	dumping, interrupted bool
	flows                []Flow // of the last part of a dump
	// support4 and support6 cache whether the kernel filters a dump by address.
	support4, support6 filterSupport
}

// Dial connects. Errors: those of the system calls, and ErrUnsupported.
func Dial(cfg ConnConfig) (*Conn, error) {
	s, err := nfnl.Open(nfnl.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, fmt.Errorf("conntrack: %w", err)
	}
	return newConn(s), nil
}

func newConn(s nfnl.Socket) *Conn { return &Conn{socket: s, buf: make([]byte, receiveBuffer)} }

// Close closes the connection. Errors: that of the system call.
func (c *Conn) Close() error { return c.socket.Close() }

// Count returns the number of flows in the network namespace. Errors: those of the system calls.
func (c *Conn) Count() (count int, err error) {
	if err := c.drain(); err != nil {
		return 0, fmt.Errorf("conntrack: count: %w", err)
	}
	c.sequence++
	c.request.Reset()
	c.request.Open(messageStats, 0, c.sequence, familyAny, 0)
	if err := c.send(); err != nil {
		return 0, fmt.Errorf("conntrack: count: %w", err)
	}
	for answered := false; !answered; {
		err := c.receive(func(m nfnl.Message) (err error) {
			switch m.Kind {
			case messageStats:
				answered = true
				count, err = decodeEntries(m)
				return err
			case nfnl.KindError:
				return failure(m)
			}
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("conntrack: count: %w", err)
		}
	}
	return count, nil
}

// Flows returns all flows of IPv4 and IPv6. It reads again when the kernel says that it was interrupted.
//
// The kernel takes no snapshot: a flow that begins or ends while the table is read may be in the answer or not, and one
// may be in it twice. Those that are there all the while are in it.
//
// Errors: those of the system calls; ErrInterrupted; the context's.
func (c *Conn) Flows(ctx context.Context) (all []Flow, err error) {
	err = c.dump(ctx, dumpOf(familyAny), func() { all = all[:0] }, func(f *Flow) { all = append(all, *f) })
	if err != nil {
		return nil, err
	}
	return all, nil
}

// End ends the flows, and no others: one that has ended meanwhile is not counted, and one of the
// same tuples but another ID that took its place since is left alone. It returns how many it ended.
//
// Errors: a join of *EndError, each for a flow that goes on, the rest being ended; with any other
// error some flows may be ended and others not. To call it again does no harm.
func (c *Conn) End(flows []Flow) (ended int, err error) {
	ended, refused, err := c.end(flows)
	if err != nil {
		return ended, fmt.Errorf("conntrack: end flows: %w", errors.Join(append(refused, err)...))
	}
	return ended, errors.Join(refused...)
}

// end is End. refused are the *EndError.
func (c *Conn) end(flows []Flow) (ended int, refused []error, err error) {
	if err := c.drain(); err != nil {
		return 0, nil, err
	}
	for batch := range slices.Chunk(flows, deleteBatch) {
		outcome, err := c.delete(batch)
		if err != nil {
			return ended, refused, err
		}
		for i, errno := range outcome {
			switch errno {
			case 0:
				ended++
			case syscall.ENOENT:
			default:
				refused = append(refused, &EndError{Flow: batch[i], Err: errno})
			}
		}
	}
	return ended, refused, nil
}

// delete sends one batch of requests and returns the error number of each.
func (c *Conn) delete(batch []Flow) ([]syscall.Errno, error) {
	c.request.Reset()
	first := c.sequence + 1
	for i := range batch {
		c.sequence++
		if err := appendDelete(&c.request, c.sequence, &batch[i]); err != nil {
			return nil, err
		}
	}
	if err := c.send(); err != nil {
		return nil, err
	}
	outcome := make([]syscall.Errno, len(batch))
	answered := make([]bool, len(batch))
	for missing := len(batch); missing > 0; {
		err := c.receive(func(m nfnl.Message) error {
			i := m.Sequence - first
			if m.Kind != nfnl.KindError || i >= uint32(len(batch)) || answered[i] {
				return nil // the rest of an exchange that failed midway
			}
			outcome[i], answered[i] = m.Errno, true
			missing--
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return outcome, nil
}

// dump calls each for every flow that a request for a dump yields. Before an attempt it calls
// begin, so that what an earlier one said can be forgotten.
func (c *Conn) dump(ctx context.Context, request dumpRequest, begin func(), each func(*Flow)) error {
	for range dumpAttempts {
		begin()
		err := c.begin(request)
		for done := false; err == nil && !done; {
			if err = ctx.Err(); err != nil {
				return err
			}
			var flows []Flow
			flows, done, err = c.next()
			for i := range flows {
				each(&flows[i])
			}
		}
		if !errors.Is(err, errAgain) {
			return err
		}
	}
	return ErrInterrupted
}

// errAgain says that a dump must be begun again.
var errAgain = errors.New("conntrack: dump interrupted")

// begin starts a dump. The kernel has it go on for as long as next is called; in between it may rest.
func (c *Conn) begin(request dumpRequest) error {
	if err := c.drain(); err != nil {
		return fmt.Errorf("conntrack: dump: %w", err)
	}
	c.sequence++
	c.request.Reset()
	request(&c.request, c.sequence)
	if err := c.send(); err != nil {
		return fmt.Errorf("conntrack: dump: %w", err)
	}
	c.dumping, c.interrupted = true, false
	return nil
}

// next returns the next part of the dump, valid until the next call, and whether it was the last.
// errAgain means that flows may be missing.
func (c *Conn) next() (flows []Flow, done bool, err error) {
	c.flows = c.flows[:0]
	err = c.receive(func(m nfnl.Message) error {
		if m.Sequence != c.sequence {
			return nil // the rest of an exchange that failed midway
		}
		c.interrupted = c.interrupted || m.Flags&nfnl.FlagInterrupted != 0
		switch m.Kind {
		case nfnl.KindDone, nfnl.KindError:
			c.dumping, done = false, true
			return failure(m)
		case messageNew:
			f, ok, err := decodeFlow(m)
			if ok {
				c.flows = append(c.flows, f)
			}
			return err
		}
		return nil
	})
	switch {
	case lost(err):
		return nil, false, errAgain
	case err != nil:
		return nil, false, fmt.Errorf("conntrack: dump: %w", err)
	case done && c.interrupted:
		return c.flows, false, errAgain
	}
	return c.flows, done, nil
}

// drain reads to the end of a dump that was given up: until then the kernel refuses another.
func (c *Conn) drain() error {
	for failures := 0; c.dumping; {
		err := c.receive(func(m nfnl.Message) error {
			if m.Sequence == c.sequence && (m.Kind == nfnl.KindDone || m.Kind == nfnl.KindError) {
				c.dumping = false
			}
			return nil
		})
		switch {
		case err == nil:
		case errors.Is(err, syscall.EAGAIN):
			c.dumping = false
		case !lost(err) && !errors.Is(err, errMalformed):
			return err
		default:
			if failures++; failures == dumpAttempts {
				return errAgain
			}
		}
	}
	return nil
}

// lost reports whether an error means that an answer was lost, but that the next may be had.
func lost(err error) bool { return errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ENOBUFS) }

// send sends the request.
func (c *Conn) send() error {
	c.request.Close()
	data, err := c.request.Data()
	if err != nil {
		return err
	}
	return c.socket.Send(data)
}

// receive reads one datagram and hands over its messages. All are handed over, whatever
// each says; the first error is returned.
func (c *Conn) receive(each func(nfnl.Message) error) error {
	n, err := c.socket.Receive(c.buf)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if n > len(c.buf) {
		return fmt.Errorf("receive: answer of %d bytes: %w", n, errMalformed)
	}
	if n == 0 {
		return errMalformed
	}
	var first error
	for rest := c.buf[:n]; len(rest) > 0; {
		var m nfnl.Message
		if m, rest, err = nfnl.NextMessage(rest); err != nil {
			return errors.Join(first, errMalformed)
		}
		if err := each(m); first == nil {
			first = err
		}
	}
	return first
}

// failure is the error of an error or an end, if it has one.
func failure(m nfnl.Message) error {
	if m.Errno != 0 {
		return m.Errno
	}
	return nil
}
