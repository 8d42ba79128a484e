// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"encoding/binary"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The kernel's numbers of what the simulator can load: the bases of FromPayload, and the keys of
// FromMeta and FromCt. Fields with other keys are in Packet.Facts.
const (
	linkHeader, networkHeader, transportHeader = 0, 1, 2

	metaProtocol, metaPriority, metaMark               = 1, 2, 3
	metaIIFName, metaOIFName, metaNFProto, metaL4Proto = 6, 7, 15, 16

	ctKeyState, ctKeyDirection, ctKeyStatus, ctKeyMark = 0, 1, 2, 3
	ctKeyProtoDst                                      = 12
	ctKeySrcIP, ctKeyDstIP, ctKeySrcIP6, ctKeyDstIP6   = 19, 20, 21, 22
)

// The EtherTypes that packets have.
const etherIPv4, etherIPv6 = 0x0800, 0x86dd

// field is a field of the table's rules, compiled.
type field struct {
	field ruleset.Field
	load  ruleset.Load
	size  int // the size of a value
	width int // the number of bytes that are loaded
	// unchecked is set for loads of up to four bytes: for these, the kernel does not check whether
	// the packet is a fragment.
	unchecked bool
	// shares has the overlap of the load with each field of Packet.Header, in IPv4 and in IPv6
	// packets. The field shared is set if the load may overlap one of them.
	shares [2][ruleset.HeaderFields]share
	shared bool
}

func (s *Simulator) fields(fields []ruleset.Field) []field {
	out := make([]field, len(fields))
	for i, f := range fields {
		out[i] = fieldOf(f)
		s.header.share(&out[i])
	}
	return out
}

func fieldOf(f ruleset.Field) field {
	out := field{field: f, load: f.Load(), size: f.Type().Size()}
	size := cmp.Or(int(out.load.Size), out.size)
	out.width = size
	out.unchecked = (size == 1 || size == 2 || size == 4) && int(out.load.Offset)%size == 0
	return out
}

// field loads a field in the kernel's form. The result is valid until the next call. If the kernel
// would end the rule there, ok is false.
func (r *run) field(f *field) (ruleset.Value, bool) {
	switch f.load.Origin {
	case ruleset.FromPayload:
		return r.payload(f)
	case ruleset.FromMeta:
		return r.meta(f)
	case ruleset.FromCt:
		return r.ct(f)
	case ruleset.FromExthdr:
		return r.extension(f)
	default:
		return r.fact(f)
	}
}

// fact returns the value of a field in the packet's Facts.
func (r *run) fact(f *field) (ruleset.Value, bool) {
	v, ok := r.Packet.Facts[f.field]
	return v, ok && len(v) == f.size
}

// payload loads bytes of the packet.
func (r *run) payload(f *field) (ruleset.Value, bool) {
	var v []byte
	var ok bool
	switch offset := int(f.load.Offset); {
	case f.load.Base == linkHeader:
		v, ok = r.frame.bytes(offset, f.width)
	case f.load.Base == networkHeader:
		v, ok = r.header.network(offset, f.width)
	case r.frame == nil || r.frame.transport:
		v, ok = r.header.transport(offset, f.width, f.unchecked)
	}
	if !ok || f.load.Mask == 0 {
		return v, ok
	}
	bits := uint32(0)
	for _, b := range v {
		bits = bits<<8 | uint32(b)
	}
	bits = bits & f.load.Mask >> f.load.Shift
	for i := range f.size {
		r.scratch[i] = byte(bits >> (8 * (f.size - 1 - i)))
	}
	return r.scratch[:f.size], true
}

// extension loads whether there is an extension header. Packets can have only one, the fragment
// header.
func (r *run) extension(f *field) (ruleset.Value, bool) {
	if !r.header.v6 {
		return nil, false
	}
	if r.frame == nil && r.Packet.fragmented() || r.frame != nil && r.frame.fragmentHeader {
		return r.byte(1)
	}
	return r.byte(0)
}

// meta loads a property of the packet that is not in its headers.
func (r *run) meta(f *field) (ruleset.Value, bool) {
	switch f.load.Key {
	case metaIIFName:
		return r.iif[:], true
	case metaOIFName:
		return r.oif[:], true
	case metaNFProto:
		return r.byte(r.nfproto())
	case metaL4Proto:
		if r.frame != nil && !r.frame.transport {
			return nil, false
		}
		return r.byte(r.Packet.Protocol)
	case metaMark:
		return r.word(r.Packet.Mark)
	case metaPriority:
		return r.word(r.Packet.Priority)
	case metaProtocol:
		return r.port(r.header.etherType(r.frame))
	default:
		return r.fact(f)
	}
}

// ct loads a property of the connection. If the packet has no connection, it can load only the
// state.
func (r *run) ct(f *field) (ruleset.Value, bool) {
	if f.load.Key == ctKeyState {
		return r.word(r.ctState())
	}
	if !r.connected() {
		return nil, false
	}
	switch f.load.Key {
	case ctKeyDirection:
		if r.Conn.Reply {
			return r.byte(1)
		}
		return r.byte(0)
	case ctKeyStatus:
		return r.word(r.Conn.Status)
	case ctKeyMark:
		return r.word(r.Conn.Mark)
	}
	if f.load.Direction == ruleset.DirectionReply {
		return r.tuple(f, r.answer())
	}
	return r.tuple(f, r.original())
}

// tuple loads a part of a connection's tuple.
func (r *run) tuple(f *field, t Tuple) (ruleset.Value, bool) {
	addr := t.Src
	switch f.load.Key {
	case ctKeyProtoDst:
		if p := r.Packet.Protocol; p == protoICMP || p == protoICMPv6 { // may be the packet's own type and code
			r.limitHeaders()
		}
		return r.port(t.DstPort)
	case ctKeyDstIP, ctKeyDstIP6:
		addr = t.Dst
	case ctKeySrcIP, ctKeySrcIP6:
	default:
		return r.fact(f)
	}
	if (f.size == 16) != addr.Is6() || !addr.IsValid() {
		return nil, false
	}
	n := putAddr(r.scratch[:], addr)
	return r.scratch[:n], true
}

func (r *run) byte(b byte) (ruleset.Value, bool) {
	r.scratch[0] = b
	return r.scratch[:1], true
}

func (r *run) word(v uint32) (ruleset.Value, bool) {
	binary.NativeEndian.PutUint32(r.scratch[:], v)
	return r.scratch[:4], true
}

func (r *run) port(v uint16) (ruleset.Value, bool) {
	binary.BigEndian.PutUint16(r.scratch[:], v)
	return r.scratch[:2], true
}

// nfproto returns the family of the packet, which only rules in tables of family inet can load.
func (r *run) nfproto() uint8 {
	if r.header.v6 {
		return ruleset.NFProtoIPv6
	}
	return ruleset.NFProtoIPv4
}
