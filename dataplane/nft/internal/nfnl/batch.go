// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"fmt"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Constants of the kernel. Package unix has them only for Linux, and this file is built for all
// systems.
const (
	subsystem  = 10 // NFNL_SUBSYS_NFTABLES
	batchBegin = 0x10
	batchEnd   = 0x11

	batchGeneration = 1 // NFNL_BATCH_GENID

	// guardAt is the offset of the generation in a batch.
	guardAt = netlink.HeaderLen + familyHeader + 4

	// kept limits the memory that Reset keeps.
	kept = 4 << 20
)

// Object identifies the object that a message is about.
type Object struct {
	// Kind is "table", "chain", "set", "elements" or "rule".
	Kind string
	// Name of the table, chain or set. For a rule, it is the name of its chain.
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

// Batch is an nf_tables transaction that is being built. The method Message begins a new message of
// the transaction. Other methods, such as Uint32, add attributes to this message. A Batch is not
// safe for concurrent use.
type Batch struct {
	netlink.Messages
	// objects[i] is the object of the message with the sequence number i+1.
	objects []Object
	// end is the offset of the message that ends the batch, or zero if there is no such message
	// yet.
	end int
}

// NewBatch returns a batch without messages.
func NewBatch() *Batch {
	b := new(Batch)
	b.Reset()
	return b
}

// Reset removes all messages. The batch keeps its memory for new messages.
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

// Guard makes the batch valid only for one generation of the ruleset. If the ruleset has another
// generation when the batch is sent, the kernel refuses the batch with unix.ERESTART. With 0, the
// default, the batch is valid for all generations.
func (b *Batch) Guard(generation uint32) {
	b.PutUint32(guardAt, generation)
}

// Message ends the current message and begins a new one. typ is the type of the nf_tables message
// (NFT_MSG_...). The parameter flags has netlink flags. The request flag is always set. The
// parameter object is what the message is about. It appears in errors.
func (b *Batch) Message(typ, flags uint16, family uint8, object Object) {
	b.objects = append(b.objects, object)
	b.Open(subsystem<<8|typ, flags, uint32(len(b.objects)), family, 0, 0, 0)
}

// Len returns the number of messages.
func (b *Batch) Len() int { return len(b.objects) }

// Total returns the length of the batch so far, in bytes.
func (b *Batch) Total() int { return b.Size(0) }

// finish requests an acknowledgement of the last message, and ends the batch. The result whole has
// all bytes of the transaction. The result check has the same bytes without the message that ends
// the batch. Without this message, the kernel processes all others, answers, and aborts. The
// request for the acknowledgement is not in the message that ends the batch, because kernels before
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
