// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"encoding/binary"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/wayleave/wayleave/internal/netlink"
)

// FakeSocket is a socket of functions.
type FakeSocket struct {
	OnSend    func(request []byte) error
	OnReceive func(buf []byte) (int, error)
}

// Send calls OnSend.
func (s *FakeSocket) Send(request []byte) error { return s.OnSend(request) }

// Receive calls OnReceive.
func (s *FakeSocket) Receive(buf []byte) (int, error) { return s.OnReceive(buf) }

// Close does nothing.
func (s *FakeSocket) Close() error { return nil }

// NewConn returns a connection to a fake.
func NewConn(s *FakeSocket) *Conn { return &Conn{link: netlink.NewConn(s)} }

// WithClock returns cfg with another clock.
func WithClock(cfg Config, now func() time.Time) Config {
	cfg.now = now
	return cfg
}

// NewSweeper returns a Sweeper whose connections come from dial.
func NewSweeper(cfg Config, dial func() (*Conn, error)) (*Sweeper, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return newSweeper(cfg, dial)
}

// WithFaults calls fault before each receive of a connection. If fault returns an error, the
// receive fails with it.
func WithFaults(c *Conn, fault func() error) {
	inner := c.link.Socket()
	c.link = netlink.NewConn(&FakeSocket{OnSend: inner.Send, OnReceive: func(buf []byte) (int, error) {
		if err := fault(); err != nil {
			return 0, err
		}
		return inner.Receive(buf)
	}})
}

// Reader returns the connection over which a sweeper reads the table.
func Reader(s *Sweeper) *Conn { return s.reader }

// Ender returns the connection over which a sweeper ends flows.
func Ender(s *Sweeper) *Conn { return s.ender }

// DecodeFlow reads a flow from the body of a message.
func DecodeFlow(body []byte) (Flow, bool, error) {
	return decodeFlow(netlink.Message{Type: messageNew, Data: body})
}

// Request has the fields of a message that a fake kernel uses.
type Request struct {
	Dump, Delete, Stats bool
	Sequence            uint32
	Flow                Flow // the tuple in a deletion or filter
	// Family of a dump, and whether its filter compares the source or the destination, in the reply
	// direction or not.
	Family                     uint8
	Source, Destination, Reply bool
}

// FlowsPerFilter is the number of flows that a namespace must have for each filtered dump.
const FlowsPerFilter = flowsPerFilter

// FiltersWork reports whether the kernel was found to filter IPv4 and IPv6.
func FiltersWork(c *Conn) (four, six bool) {
	return c.support4 == filterWorks, c.support6 == filterWorks
}

// ParseRequests parses a sent datagram. Errors: it is malformed.
func ParseRequests(b []byte) (requests []Request, err error) {
	for len(b) > 0 {
		var m netlink.Message
		if b, err = m.Read(b); err != nil {
			return nil, err
		}
		var d netlink.Decoder
		r := Request{
			Sequence: m.Sequence, Dump: m.Type == messageGet && m.Flags&netlink.FlagDump == netlink.FlagDump,
			Delete: m.Type == messageDelete, Stats: m.Type == messageStats, Family: d.Begin(m.Data, familyHeader)[0],
		}
		for d.Next() {
			switch d.Type {
			case attrTupleOriginal:
				r.Flow.Original.decode(&d)
			case attrTupleReply:
				r.Flow.Reply.decode(&d)
			case attrFilter:
				filter := d.Nested()
				for filter.Next() {
					flags := filter.Native32()
					r.Reply = filter.Type == attrFilterReply
					r.Source = flags&filterSource != 0
					r.Destination = flags&filterDestination != 0
				}
				d.Join(filter.Err)
			case attrID:
				r.Flow.ID = d.Uint32()
			case attrZone:
				r.Flow.Zone = d.Uint16()
			}
		}
		if d.Err != nil {
			return nil, d.Err
		}
		requests = append(requests, r)
	}
	return requests, nil
}

// AppendFlow appends a flow as in a dump. Errors: those of netlink.Attrs.
func AppendFlow(b []byte, sequence uint32, f *Flow, interrupted bool) ([]byte, error) {
	flags := uint16(0)
	if interrupted {
		flags = netlink.FlagInterrupted
	}
	return appendFlow(b, messageNew, flags, sequence, f, func(b *netlink.Attrs) {
		b.Uint32(attrStatus, uint32(f.Status))
		b.Uint32(attrID, f.ID)
		if f.Master.complete() {
			appendTuple(b, attrTupleMaster, f.Master)
		}
		b.Uint8(99, 1) // of a later kernel
	})
}

// AppendCreate appends a request to make a flow. Errors as for AppendFlow.
func AppendCreate(b []byte, sequence uint32, f *Flow) ([]byte, error) {
	const create, exclusive = 0x400, 0x200
	return appendFlow(b, messageNew, netlink.FlagAck|create|exclusive, sequence, f, func(*netlink.Attrs) {})
}

func appendFlow(
	b []byte, typ, flags uint16, sequence uint32, f *Flow, more func(*netlink.Attrs),
) ([]byte, error) {
	return appendMessage(b, typ, flags, sequence, familyOf(f.Original.Source.Addr()), func(b *netlink.Attrs) {
		appendTuple(b, attrTupleOriginal, f.Original)
		if f.Zone != 0 {
			b.Uint16(attrZone, f.Zone)
		}
		appendTuple(b, attrTupleReply, f.Reply)
		b.Uint32(attrMark, f.Mark)
		b.Uint32(attrTimeout, uint32(f.Timeout.Seconds()))
		more(b)
	})
}

// appendMessage appends one message.
func appendMessage(
	b []byte, typ, flags uint16, sequence uint32, family uint8, attrs func(*netlink.Attrs),
) ([]byte, error) {
	var m netlink.Messages
	m.Open(typ, flags, sequence, family, 0, 0, 0)
	attrs(&m.Attrs)
	m.Close()
	data, err := m.Data()
	return append(b, data...), err
}

// AppendCount appends the answer to a query for the number of flows. Errors as for AppendFlow.
func AppendCount(b []byte, sequence uint32, count int) ([]byte, error) {
	return appendMessage(b, messageStats, 0, sequence, familyAny, func(b *netlink.Attrs) {
		b.Uint32(attrStatsEntries, uint32(count))
	})
}

// AppendEnd appends the end of a dump.
func AppendEnd(b []byte, sequence uint32, errno syscall.Errno) []byte {
	return appendResult(b, netlink.TypeDone, sequence, errno)
}

// AppendAnswer appends an acknowledgement or error.
func AppendAnswer(b []byte, sequence uint32, errno syscall.Errno) []byte {
	return appendResult(b, netlink.TypeError, sequence, errno)
}

func appendResult(b []byte, typ uint16, sequence uint32, errno syscall.Errno) []byte {
	const header = 16
	length := header + 4
	if typ == netlink.TypeError { // with the header of the request
		length += header
	}
	b = binary.NativeEndian.AppendUint32(b, uint32(length))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, 0)
	b = binary.NativeEndian.AppendUint32(b, sequence)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint32(b, uint32(-int32(errno)))
	return append(b, make([]byte, length-header-4)...)
}

// Create makes flows in the kernel.
func Create(c *Conn, flows []Flow) error {
	for batch := range slices.Chunk(flows, deleteBatch) {
		var request []byte
		for i := range batch {
			var err error
			if request, err = AppendCreate(request, uint32(i), &batch[i]); err != nil {
				return err
			}
		}
		if err := c.link.Send(request); err != nil {
			return err
		}
		var refused error
		if _, err := c.link.Poll(func(m netlink.Message) error {
			if r := m.Refusal(); r != nil {
				refused = r
			}
			return nil
		}); err != nil || refused != nil {
			return errors.Join(err, refused)
		}
	}
	return nil
}
