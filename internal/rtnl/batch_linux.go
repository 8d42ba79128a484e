// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// maxChunk bounds the bytes of one sendmsg; a socket that nobody tuned takes three times as
	// much.
	maxChunk = 64 << 10
	// answerSize is more than what one answer takes of a receive buffer, with the kernel's own
	// book-keeping.
	answerSize = 2 << 10
	// leastChunk and mostChunk bound the messages of one sendmsg.
	leastChunk, mostChunk = 16, 2048
)

// Batch is a list of changes that are sent together. The zero Batch is empty and ready to use; it
// is not safe for concurrent use. Changes do not depend on each other: one that the kernel refuses
// does not stop those after it.
type Batch struct {
	buf    []byte
	starts []int // where each message begins in buf
}

// Len is the number of changes.
func (b *Batch) Len() int { return len(b.starts) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.buf, b.starts = b.buf[:0], b.starts[:0] }

// Bytes are the finished messages, one after the other; the last asks for an acknowledgement. They
// are valid until the batch changes.
func (b *Batch) Bytes() []byte {
	if len(b.starts) > 0 {
		b.acknowledge(len(b.starts) - 1)
	}
	return b.buf
}

// begin opens a message. end closes it.
func (b *Batch) begin(typ, flags uint16) {
	b.starts = append(b.starts, len(b.buf))
	b.buf = append(b.buf, 0, 0, 0, 0)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, typ)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, flags|unix.NLM_F_REQUEST)
	b.buf = append(b.buf, 0, 0, 0, 0, 0, 0, 0, 0) // sequence number, port
}

func (b *Batch) end() {
	start := b.starts[len(b.starts)-1]
	binary.NativeEndian.PutUint32(b.buf[start:], uint32(len(b.buf)-start))
}

func (b *Batch) acknowledge(i int) {
	at := b.buf[b.starts[i]+6:]
	binary.NativeEndian.PutUint16(at, binary.NativeEndian.Uint16(at)|unix.NLM_F_ACK)
}

// stop is where message i ends.
func (b *Batch) stop(i int) int {
	if i+1 < len(b.starts) {
		return b.starts[i+1]
	}
	return len(b.buf)
}

// Do sends all changes, many in one system call, and calls failed for each that the kernel refused,
// in order, with its index in the batch and an *Error. All others have been made. After an error of
// Do itself it is not known what has been made.
func (c *Conn) Do(b *Batch, failed func(i int, err error)) error {
	for first := 0; first < len(b.starts); {
		last := first
		for last+1 < len(b.starts) && last+1-first < c.chunk && b.stop(last+1)-b.starts[first] <= maxChunk {
			last++
		}
		if err := c.doChunk(b, first, last, failed); err != nil {
			return err
		}
		first = last + 1
	}
	return nil
}

// doChunk sends the messages from first to last and reads their answers: an error each for those
// that were refused, and an acknowledgement of the last if it was not.
func (c *Conn) doChunk(b *Batch, first, last int, failed func(i int, err error)) error {
	sequence := c.sequence + 1
	c.sequence += uint32(last - first + 1)
	for i := first; i <= last; i++ {
		binary.NativeEndian.PutUint32(b.buf[b.starts[i]+8:], sequence+uint32(i-first))
	}
	b.acknowledge(last)
	if err := c.send(b.buf[b.starts[first]:b.stop(last)]); err != nil {
		return err
	}
	for {
		n, err := c.receive()
		if err != nil {
			return err
		}
		for rest := c.buf[:n]; len(rest) > 0; {
			var m message
			if m, rest, err = cutMessage(rest); err != nil {
				return err
			}
			at := int(m.seq - sequence) // of an older exchange: larger than any index
			if m.typ != unix.NLMSG_ERROR || at > last-first {
				continue
			}
			if err := m.kernelError(headerLen); err != nil {
				var refused *Error
				if !errors.As(err, &refused) {
					return err
				}
				failed(first+at, err)
			}
			if at == last-first {
				return nil
			}
		}
	}
}

// one makes a single change.
func (c *Conn) one(fill func(b *Batch)) (err error) {
	c.single.Reset()
	fill(&c.single)
	broken := c.Do(&c.single, func(_ int, refused error) { err = refused })
	return errors.Join(broken, err)
}

// send sends whole messages in one system call.
func (c *Conn) send(b []byte) error {
	if err := c.sock.Send(b); err != nil {
		return fmt.Errorf("rtnl: send: %w", err)
	}
	return nil
}
