// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"context"
	"fmt"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Counters has the packets and bytes of a flow: in the direction of its first packet (Original),
// and in the direction of its replies. The bytes are those of whole IP packets. The kernel counts
// packets only for flows that began while net.netfilter.nf_conntrack_acct was set. If a flow is in
// a flowtable without a counter, the kernel does not count the packets that bypass the chains.
type Counters struct {
	OriginalPackets, OriginalBytes uint64
	ReplyPackets, ReplyBytes       uint64
}

// EachCounted calls its last argument for every flow, with the flow's counters. The counters are
// zero for a flow that the kernel does not count. The Flow is valid only during the call.
//
// If the kernel reports that a dump was interrupted, EachCounted repeats the dump. It calls begin()
// before each attempt. The function begin() must discard the results of the previous attempt.
//
// Errors: as for Flows.
func (c *Conn) EachCounted(ctx context.Context, begin func(), each func(*Flow, Counters)) error {
	var f Flow
	dumpOf(familyAny)(c.link)
	err := c.link.Dump(begin, func(m netlink.Message) (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		var ok bool
		if f, ok, err = decodeFlow(m); !ok {
			return err
		}
		counters, err := decodeCounters(m)
		if err == nil {
			each(&f, counters)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("conntrack: dump: %w", err)
	}
	return nil
}

// decodeCounters decodes the counters in the message of a flow.
func decodeCounters(m netlink.Message) (c Counters, err error) {
	var d netlink.Decoder
	d.Begin(m.Data, familyHeader)
	for d.Next() {
		switch d.Type {
		case attrCountOriginal:
			c.OriginalPackets, c.OriginalBytes = decodeCount(&d)
		case attrCountReply:
			c.ReplyPackets, c.ReplyBytes = decodeCount(&d)
		}
	}
	return c, d.Err
}

func decodeCount(outer *netlink.Decoder) (packets, bytes uint64) {
	d := outer.Nested()
	for d.Next() {
		switch d.Type {
		case attrCountPackets:
			packets = netlink.Number64(d.Value)
		case attrCountBytes:
			bytes = netlink.Number64(d.Value)
		}
	}
	outer.Join(d.Err)
	return packets, bytes
}
