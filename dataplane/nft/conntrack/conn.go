// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/wayleave/wayleave/internal/netlink"
)

const (
	// deleteBatch is how many flows one system call ends. The answers to all of it fit any receive buffer.
	deleteBatch = 64
	// dumpAttempts is how often a pass that was interrupted is tried.
	dumpAttempts = 10
)

var (
	// ErrUnsupported says that there is no connection tracking on this operating system.
	ErrUnsupported = netlink.ErrUnsupported
	// ErrInterrupted says that the table changed too fast to be read: several dumps in a row were interrupted.
	ErrInterrupted = netlink.ErrInterrupted
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
type Conn struct {
	link  *netlink.Conn
	batch netlink.Batch
	flows []Flow // of the last part of a dump
	// support4 and support6 cache whether the kernel filters a dump by address.
	support4, support6 filterSupport
}

// Dial connects. Errors: those of the system calls, and ErrUnsupported.
func Dial(cfg ConnConfig) (*Conn, error) {
	link, err := netlink.Dial(netlink.Config{Family: netlink.Netfilter, NetNS: cfg.NetNS})
	if err != nil {
		return nil, fmt.Errorf("conntrack: %w", err)
	}
	return &Conn{link: link}, nil
}

// Close closes the connection. Errors: that of the system call.
func (c *Conn) Close() error { return c.link.Close() }

// Count returns the number of flows in the network namespace. Errors: those of the system calls.
func (c *Conn) Count() (count int, err error) {
	c.link.Request(messageStats, familyAny, 0, 0, 0)
	if err = c.link.Start(0); err == nil {
		_, err = c.link.Next(func(m netlink.Message) (err error) {
			count, err = decodeEntries(m)
			return err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("conntrack: count: %w", err)
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
	for batch := range slices.Chunk(flows, deleteBatch) {
		c.batch.Reset()
		for i := range batch {
			if err := appendDelete(&c.batch, &batch[i]); err != nil {
				return ended, refused, err
			}
		}
		gone := 0
		err := c.link.Do(&c.batch, func(i int, err *netlink.AckError) {
			gone++
			if err.Errno != syscall.ENOENT {
				refused = append(refused, &EndError{Flow: batch[i], Err: err.Errno})
			}
		})
		if err != nil {
			return ended, refused, err
		}
		ended += len(batch) - gone
	}
	return ended, refused, nil
}

// dump calls each for every flow that a request for a dump yields. Before an attempt it calls
// begin, so that what an earlier one said can be forgotten.
func (c *Conn) dump(ctx context.Context, request dumpRequest, begin func(), each func(*Flow)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.flows = append(c.flows[:0], Flow{})
	f := &c.flows[0] // not on the stack, where each would have it escape
	request(c.link)
	err := c.link.Dump(begin, func(m netlink.Message) (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		var ok bool
		if *f, ok, err = decodeFlow(m); ok {
			each(f)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("conntrack: dump: %w", err)
	}
	return nil
}

// begin starts a dump. The kernel has it go on for as long as next is called; in between it may rest.
func (c *Conn) begin(request dumpRequest) error {
	request(c.link)
	if err := c.link.Start(netlink.FlagDump); err != nil {
		return fmt.Errorf("conntrack: dump: %w", err)
	}
	return nil
}

// next returns the next part of the dump, valid until the next call, and whether it was the last.
// An error for which netlink.Lost is true means that flows may be missing.
func (c *Conn) next() (flows []Flow, done bool, err error) {
	c.flows = c.flows[:0]
	done, err = c.link.Next(func(m netlink.Message) error {
		f, ok, err := decodeFlow(m)
		if ok {
			c.flows = append(c.flows, f)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("conntrack: dump: %w", err)
	}
	return c.flows, done, err
}
