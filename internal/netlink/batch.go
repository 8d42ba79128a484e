// SPDX-License-Identifier: Apache-2.0

package netlink

const (
	// sendBytes is the maximum number of bytes in one sendmsg. A socket with default settings
	// accepts three times as many.
	sendBytes = 64 << 10
	// answerSize is an upper bound for the size of one answer in a receive buffer, the kernel's
	// overhead included.
	answerSize = 2 << 10
	// leastChunk and mostChunk limit the number of messages in one sendmsg. Every receive buffer
	// has room for leastChunk answers.
	leastChunk, mostChunk = 64, 2048
)

// Batch is a list of changes that are sent together. The zero Batch is empty and ready to use; it
// is not safe for concurrent use. The changes do not depend on each other: if the kernel refuses
// one, it still makes the changes that come later in the list.
type Batch struct {
	Messages
	starts []int // the position of each message
}

// Message begins a message. header is as in Messages.Open.
func (b *Batch) Message(typ, flags uint16, header ...byte) {
	b.starts = append(b.starts, len(b.buf))
	b.Open(typ, flags, 0, header...)
}

// Len returns the number of changes.
func (b *Batch) Len() int { return len(b.starts) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.Messages.Reset()
	b.starts = b.starts[:0]
}

// stop returns the end of message i.
func (b *Batch) stop(i int) int {
	if i+1 < len(b.starts) {
		return b.starts[i+1]
	}
	return len(b.buf)
}

// Do sends all changes, many in one system call. For each change that the kernel refuses, in order,
// Do calls its last argument: i is the index of the change in the batch. The kernel has made all
// other changes.
//
// Errors: those of the system calls; ErrMalformed; EAGAIN if there is no answer. After an error, it
// is unknown which changes have been made.
func (c *Conn) Do(b *Batch, failed func(i int, refused *AckError)) error {
	b.Close()
	if b.err != nil {
		return b.err
	}
	for first := 0; first < len(b.starts); {
		last := first
		for last+1 < len(b.starts) && last+1-first < c.chunk && b.stop(last+1)-b.starts[first] <= sendBytes {
			last++
		}
		if err := c.exchange(b, first, last, failed); err != nil {
			return err
		}
		first = last + 1
	}
	return nil
}

// exchange sends a range of messages and reads the answers. The answers are an error for each
// refused message, and an acknowledgement of the last message if it was not refused.
func (c *Conn) exchange(b *Batch, first, last int, failed func(int, *AckError)) error {
	sequence := c.sequence + 1
	c.sequence += uint32(last - first + 1)
	for i := first; i <= last; i++ {
		setSequence(b.buf[b.starts[i]:], sequence+uint32(i-first))
	}
	setFlags(b.buf[b.starts[last]:], FlagAck)
	if err := c.Send(b.buf[b.starts[first]:b.stop(last)]); err != nil {
		return err
	}
	for {
		datagram, err := c.receive()
		for len(datagram) > 0 {
			var m Message
			if datagram, err = m.Read(datagram); err != nil {
				break
			}
			at := m.Sequence - sequence // the answer to an earlier exchange has a larger index
			if m.Type != TypeError || at > uint32(last-first) {
				continue
			}
			if refused := m.Refusal(); refused != nil {
				failed(first+int(at), refused)
			}
			if m.Sequence == c.sequence {
				c.pending = false
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}
