// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"fmt"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Constants of the kernel. Package unix has them for Linux only; this file builds everywhere.
const (
	subsystem  = 10 // NFNL_SUBSYS_NFTABLES
	batchBegin = 0x10
	batchEnd   = 0x11

	batchGeneration = 1 // NFNL_BATCH_GENID

	// guardAt is the offset in a batch of the generation that it is for.
	guardAt = netlink.HeaderLen + familyHeader + 4

	// kept limits the memory that Reset keeps.
	kept = 4 << 20
)

// Object names the object of a message.
type Object struct {
	// Kind is "table", "chain", "set", "elements" or "rule".
	Kind string
	// Name of the table, chain or set; of its chain for a rule.
	Name string
	// Index of a rule in its chain, from 1; otherwise zero.
	Index int
}

// String returns "kind name", or "rule index of chain name".
func (o Object) String() string {
	if o.Index > 0 {
		return fmt.Sprintf("%s %d of chain %s", o.Kind, o.Index, o.Name)
	}
	return o.Kind + " " + o.Name
}

// Batch is one nf_tables transaction under construction. Attributes are appended to the
// message that was opened last. It is not safe for concurrent use.
type Batch struct {
	netlink.Messages
	// objects of the messages, in order; the message with sequence number i+1 is about objects[i].
	objects []Object
	// end is the offset of the message that ends the batch; zero if there is none yet.
	end int
}

// NewBatch returns a batch without messages.
func NewBatch() *Batch {
	b := new(Batch)
	b.Reset()
	return b
}

// Reset removes all messages. The batch keeps memory for new ones.
func (b *Batch) Reset() {
	b.Attrs.Reset()
	if b.Cap() > kept {
		b.Messages, b.objects = netlink.Messages{}, nil
	}
	clear(b.objects)
	b.objects, b.end = b.objects[:0], 0
	b.Open(batchBegin, 0, 0, 0, 0, 0, subsystem) // the resource is in network byte order
	b.Uint32(batchGeneration, 0)
}

// Guard makes the batch valid for one generation of the ruleset only: in any other the kernel
// refuses it with unix.ERESTART. Zero, the default, means any.
func (b *Batch) Guard(generation uint32) {
	b.PutUint32(guardAt, generation)
}

// Message ends the message before and opens one of a type of nf_tables (NFT_MSG_...), with netlink
// flags besides the request flag.
func (b *Batch) Message(typ, flags uint16, family uint8, object Object) {
	b.objects = append(b.objects, object)
	b.Open(subsystem<<8|typ, flags, uint32(len(b.objects)), family, 0, 0, 0)
}

// Len returns the number of messages.
func (b *Batch) Len() int { return len(b.objects) }

// Total returns the length of the batch so far, in bytes.
func (b *Batch) Total() int { return b.Size(0) }

// finish requests an acknowledgement of the last message and ends the batch. It returns the bytes
// of a transaction, and the part of them that only checks it: without an end the kernel processes
// all messages, answers, and aborts. The end could carry the request as well, but kernels before
// 6.10 ignore it there.
func (b *Batch) finish() (whole, check []byte, err error) {
	if b.end == 0 {
		b.Flag(netlink.FlagAck)
		b.end = b.Total()
		b.Open(batchEnd, 0, uint32(len(b.objects)+1), 0, 0, 0, subsystem)
		b.Close()
	}
	if whole, err = b.Data(); err != nil {
		return nil, nil, err
	}
	return whole, whole[:b.end], nil
}
