// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"encoding/binary"
	"syscall"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
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
func NewConn(s *FakeSocket) *Conn { return newConn(s) }

// WithClock returns the configuration with another clock.
func WithClock(cfg Config, now func() time.Time) Config {
	cfg.now = now
	return cfg
}

// NewSweeper returns one whose connections come from dial.
func NewSweeper(cfg Config, dial func() (*Conn, error)) (*Sweeper, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return newSweeper(cfg, dial)
}

// WithFaults puts fault between a connection and its socket: it is asked before each receive, and what it returns
// happens instead, unless nil.
func WithFaults(c *Conn, fault func() error) {
	inner := c.socket
	c.socket = &FakeSocket{OnSend: inner.Send, OnReceive: func(buf []byte) (int, error) {
		if err := fault(); err != nil {
			return 0, err
		}
		return inner.Receive(buf)
	}}
}

// Reader is the connection that a sweeper reads the table with.
func Reader(s *Sweeper) *Conn { return s.reader }

// Ender is the connection that a sweeper ends flows with.
func Ender(s *Sweeper) *Conn { return s.ender }

// DecodeFlow reads a flow from the body of a message.
func DecodeFlow(body []byte) (Flow, bool, error) {
	if len(body) < 4 {
		return Flow{}, false, errMalformed
	}
	return decodeFlow(nfnl.Message{Family: body[0], Attrs: body[4:]})
}

// Request is what a fake kernel needs to know of a message.
type Request struct {
	Dump, Delete, Stats bool
	Sequence            uint32
	Flow                Flow // the part of it that a deletion names, or a filter
	// Family of a dump, and whether a filter of it goes by source or destination, in the reply
	// direction or not.
	Family                     uint8
	Source, Destination, Reply bool
}

// FlowsPerFilter is how many flows a namespace must have for each filtered dump.
const FlowsPerFilter = flowsPerFilter

// FiltersWork reports whether the kernel was found to filter IPv4 and IPv6.
func FiltersWork(c *Conn) (four, six bool) {
	return c.support4 == filterWorks, c.support6 == filterWorks
}

// ParseRequests reads what was sent. Errors: it is malformed.
func ParseRequests(b []byte) (requests []Request, err error) {
	for len(b) > 0 {
		m, rest, err := nfnl.NextMessage(b)
		if err != nil {
			return nil, err
		}
		b = rest
		r := Request{
			Sequence: m.Sequence, Dump: m.Kind == messageGet && m.Flags&nfnl.FlagDump == nfnl.FlagDump,
			Delete: m.Kind == messageDelete, Stats: m.Kind == messageStats, Family: m.Family,
		}
		read := reader{ok: true}
		for typ, value := range attrs(m.Attrs) {
			switch typ {
			case attrTupleOriginal:
				read.tuple(&r.Flow.Original, value)
			case attrTupleReply:
				read.tuple(&r.Flow.Reply, value)
			case attrFilter:
				for typ, value := range attrs(value) {
					flags := binary.NativeEndian.Uint32(value)
					r.Reply = typ == attrFilterReply
					r.Source = flags&filterSource != 0
					r.Destination = flags&filterDestination != 0
				}
			case attrID:
				r.Flow.ID = read.uint32(value)
			case attrZone:
				r.Flow.Zone = read.uint16(value)
			}
		}
		if !read.ok {
			return nil, errMalformed
		}
		requests = append(requests, r)
	}
	return requests, nil
}

// AppendFlow appends a flow as in a dump. Errors: those of nfnl.Attrs.
func AppendFlow(b []byte, sequence uint32, f *Flow, interrupted bool) ([]byte, error) {
	flags := uint16(0)
	if interrupted {
		flags = nfnl.FlagInterrupted
	}
	return appendFlow(b, messageNew, flags, sequence, f, func(b *nfnl.Attrs) {
		b.Uint32(attrStatus, uint32(f.Status))
		b.Uint32(attrID, f.ID)
		if f.Master.whole() {
			appendTuple(b, attrTupleMaster, f.Master)
		}
		b.Uint8(99, 1) // of a later kernel
	})
}

// AppendCreate appends a request to make a flow. Errors as for AppendFlow.
func AppendCreate(b []byte, sequence uint32, f *Flow) ([]byte, error) {
	const create, exclusive = 0x400, 0x200
	return appendFlow(b, messageNew, nfnl.FlagAck|create|exclusive, sequence, f, func(*nfnl.Attrs) {})
}

func appendFlow(
	b []byte, typ, flags uint16, sequence uint32, f *Flow, more func(*nfnl.Attrs),
) ([]byte, error) {
	return appendMessage(b, typ, flags, sequence, familyOf(f.Original.Source.Addr()), func(b *nfnl.Attrs) {
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
	b []byte, typ, flags uint16, sequence uint32, family uint8, attrs func(*nfnl.Attrs),
) ([]byte, error) {
	var m nfnl.Messages
	m.Open(typ, flags, sequence, family, 0)
	attrs(&m.Attrs)
	m.Close()
	data, err := m.Data()
	return append(b, data...), err
}

// AppendCount appends the answer to a query for the number of flows. Errors as for AppendFlow.
func AppendCount(b []byte, sequence uint32, count int) ([]byte, error) {
	return appendMessage(b, messageStats, 0, sequence, familyAny, func(b *nfnl.Attrs) {
		b.Uint32(attrStatsEntries, uint32(count))
	})
}

// AppendEnd appends the end of a dump.
func AppendEnd(b []byte, sequence uint32, errno syscall.Errno) []byte {
	return appendResult(b, nfnl.KindDone, sequence, errno)
}

// AppendAnswer appends an acknowledgement or error.
func AppendAnswer(b []byte, sequence uint32, errno syscall.Errno) []byte {
	return appendResult(b, nfnl.KindError, sequence, errno)
}

func appendResult(b []byte, typ uint16, sequence uint32, errno syscall.Errno) []byte {
	const header = 16
	length := header + 4
	if typ == nfnl.KindError { // with the header of the request
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
	for len(flows) > 0 {
		batch := flows[:min(len(flows), deleteBatch)]
		flows = flows[len(batch):]
		var request []byte
		for i := range batch {
			c.sequence++
			var err error
			if request, err = AppendCreate(request, c.sequence, &batch[i]); err != nil {
				return err
			}
		}
		if err := c.socket.Send(request); err != nil {
			return err
		}
		for missing := len(batch); missing > 0; {
			if err := c.receive(func(m nfnl.Message) error { missing--; return failure(m) }); err != nil {
				return err
			}
		}
	}
	return nil
}
