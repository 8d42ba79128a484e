// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/wayleave/wayleave/internal/netlink"
)

const (
	// deleteBatch is the number of flows that one system call ends. All answers fit into a receive
	// buffer.
	deleteBatch = 64
	// A Sweeper with BeforeEnd collects flows that must end, and passes them to BeforeEnd together.
	// It collects at most maxQueue flows, and for at most announceInterval.
	maxQueue         = 1 << 16
	announceInterval = time.Second
	// dumpAttempts is the number of consecutive interrupted passes after which Step returns
	// ErrInterrupted.
	dumpAttempts = 10
)

var (
	// ErrUnsupported reports that this operating system has no connection tracking.
	ErrUnsupported = netlink.ErrUnsupported
	// ErrInterrupted reports that the table changes too fast: several dumps in a row were
	// interrupted.
	ErrInterrupted = netlink.ErrInterrupted
)

// EndError reports that the kernel refused to end one flow. The flow continues.
type EndError struct {
	// Flow is the flow that continues.
	Flow Flow
	// Err is the error number.
	Err error
}

// Error returns a text with the flow and the error number.
func (e *EndError) Error() string {
	return "conntrack: end flow " + e.Flow.String() + ": " + e.Err.Error()
}

// Unwrap returns the error number.
func (e *EndError) Unwrap() error { return e.Err }

// ConnConfig configures a Conn.
type ConnConfig struct {
	// NetNS is a file descriptor of the network namespace, needed only during Dial. Zero means the
	// namespace of the calling thread.
	NetNS int
	// BeforeEnd, if set, is called by a method of the Conn with the flows that the method is about
	// to end. It must not keep the slice, and must not use the Conn. If it returns an error, the
	// method ends the flows nevertheless, and returns the error.
	BeforeEnd func([]Flow) error
}

// Conn reads and changes the connection tracking table of one network namespace. It is not safe for
// concurrent use.
type Conn struct {
	link  *netlink.Conn
	batch netlink.Batch
	flows []Flow // the flows of the last part of a dump
	// beforeEnd is ConnConfig.BeforeEnd.
	beforeEnd func([]Flow) error
	// support4 and support6 cache whether the kernel filters a dump by address.
	support4, support6 filterSupport
}

// Dial opens a netlink socket for a Conn. Errors: those of the system calls, and ErrUnsupported.
func Dial(cfg ConnConfig) (*Conn, error) {
	link, err := netlink.Dial(netlink.Config{Family: netlink.Netfilter, NetNS: cfg.NetNS})
	if err != nil {
		return nil, fmt.Errorf("conntrack: %w", err)
	}
	return &Conn{link: link, beforeEnd: cfg.BeforeEnd}, nil
}

// Close closes the netlink socket. Errors: the error of the system call.
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

// Flows returns all flows of IPv4 and IPv6. If the kernel reports that a dump was interrupted,
// Flows repeats the dump.
//
// A dump is not atomic. A flow that begins or ends during the dump may be missing, and any flow may
// occur twice. If the size of the kernel's hash table (net.netfilter.nf_conntrack_buckets) changes
// during the dump, other flows may be missing, too.
//
// Errors: the error of a system call or of the context, or ErrInterrupted.
func (c *Conn) Flows(ctx context.Context) (all []Flow, err error) {
	err = c.dump(ctx, dumpOf(familyAny), func() { all = all[:0] }, func(f *Flow) { all = append(all, *f) })
	if err != nil {
		return nil, err
	}
	return all, nil
}

// End ends the flows, and returns how many it ended. It does not count flows that had already
// ended. If such a flow was replaced by a newer one with the same tuples and another ID, End does
// not end the newer flow.
//
// Errors: if the kernel refuses to end some flows, End ends all others, and returns a join with an
// *EndError for each flow that continues. After any other error, some of the flows may continue,
// and End may be called again.
func (c *Conn) End(flows []Flow) (ended int, err error) {
	var before error
	if c.beforeEnd != nil && len(flows) > 0 {
		before = c.beforeEnd(flows)
	}
	ended, refused, err := c.end(flows)
	if err != nil {
		return ended, fmt.Errorf("conntrack: end flows: %w", errors.Join(append(refused, before, err)...))
	}
	return ended, errors.Join(append(refused, before)...)
}

// end does what End does, without BeforeEnd. It returns each *EndError in refused.
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

// dump calls each() for every flow of a dump. Before each attempt, dump calls begin(). The function
// begin must discard the flows of the previous attempt.
func (c *Conn) dump(ctx context.Context, request dumpRequest, begin func(), each func(*Flow)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.flows = append(c.flows[:0], Flow{})
	f := &c.flows[0] // a local variable would be allocated, because each gets its address
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

// begin starts a dump. Each call of next makes the kernel continue it.
func (c *Conn) begin(request dumpRequest) error {
	request(c.link)
	if err := c.link.Start(netlink.FlagDump); err != nil {
		return fmt.Errorf("conntrack: dump: %w", err)
	}
	return nil
}

// next returns the next part of the dump, and whether it is the last part. The part is valid until
// the next call. If netlink.Lost is true for the error, flows may be missing.
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
