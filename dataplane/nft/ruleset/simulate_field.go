// SPDX-License-Identifier: Apache-2.0

package ruleset

import "encoding/binary"

// The keys of FromMeta and FromCt that the simulator knows; others are facts.
const (
	metaProtocol, metaPriority, metaMark               = 1, 2, 3
	metaIIFName, metaOIFName, metaNFProto, metaL4Proto = 6, 7, 15, 16

	ctKeyState, ctKeyDirection, ctKeyStatus, ctKeyMark = 0, 1, 2, 3
	ctKeyProtoDst                                      = 12
	ctKeySrcIP, ctKeyDstIP, ctKeySrcIP6, ctKeyDstIP6   = 19, 20, 21, 22
)

// simField is a field made ready to be loaded.
type simField struct {
	field Field
	load  Load
	size  int // of a value
	width int // of what is loaded
	// careless loads of up to four bytes look for no fragments.
	careless bool
	header   HeaderField // or HeaderFields, if it is no such field
}

func simFields(fields []Field) []simField {
	out := make([]simField, len(fields))
	for i, f := range fields {
		out[i] = simField{field: f, load: f.Load(), size: f.Type().Size()}
		out[i].width = out[i].load.size(f.Type())
		out[i].header = headerOf(f)
		size, aligned := out[i].width, true
		if size == 2 || size == 4 {
			aligned = int(out[i].load.Offset)%size == 0
		}
		out[i].careless = (size == 1 || size == 2 || size == 4) && aligned
	}
	return out
}

// field loads a field in the kernel's form. Not ok if the kernel would break the rule off there. What it returns is
// good until the next call.
func (r *simRun) field(f *simField) (Value, bool) {
	switch f.load.Origin {
	case FromPayload:
		return r.payload(f)
	case FromMeta:
		return r.meta(f)
	case FromCt:
		return r.ct(f)
	case FromExthdr:
		return r.extension(f)
	default:
		return r.fact(f)
	}
}

// fact returns what the packet's Facts say.
func (r *simRun) fact(f *simField) (Value, bool) {
	v, ok := r.Packet.Facts[f.field]
	return v, ok && len(v) == f.size
}

// payload loads bytes of the packet.
func (r *simRun) payload(f *simField) (Value, bool) {
	var v []byte
	var ok bool
	if offset := int(f.load.Offset); f.load.Base == networkHeader {
		v, ok = r.header.network(offset, f.width)
	} else {
		v, ok = r.header.transport(offset, f.width, f.careless)
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

// extension loads whether there is an extension header: the fragment header is the only one that
// packets may have.
func (r *simRun) extension(f *simField) (Value, bool) {
	if !r.header.v6 {
		return nil, false
	}
	if r.Packet.fragmented() {
		return r.byte(1)
	}
	return r.byte(0)
}

// meta loads what the kernel knows of the packet.
func (r *simRun) meta(f *simField) (Value, bool) {
	switch f.load.Key {
	case metaIIFName:
		return r.iif[:], true
	case metaOIFName:
		return r.oif[:], true
	case metaNFProto:
		return r.byte(r.nfproto())
	case metaL4Proto:
		return r.byte(r.Packet.Protocol)
	case metaMark:
		return r.word(r.Packet.Mark)
	case metaPriority:
		return r.word(r.Packet.Priority)
	case metaProtocol:
		if r.header.v6 {
			return r.port(etherIPv6)
		}
		return r.port(etherIPv4)
	default:
		return r.fact(f)
	}
}

// ct loads what connection tracking knows. Without a connection there is nothing but its state.
func (r *simRun) ct(f *simField) (Value, bool) {
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
	if f.load.Direction == DirectionReply {
		return r.tuple(f, r.answer())
	}
	return r.tuple(f, r.original())
}

// tuple loads a part of a tuple.
func (r *simRun) tuple(f *simField, t Tuple) (Value, bool) {
	addr := t.Src
	switch f.load.Key {
	case ctKeyProtoDst:
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

func (r *simRun) byte(b byte) (Value, bool) {
	r.scratch[0] = b
	return r.scratch[:1], true
}

func (r *simRun) word(v uint32) (Value, bool) {
	binary.NativeEndian.PutUint32(r.scratch[:], v)
	return r.scratch[:4], true
}

func (r *simRun) port(v uint16) (Value, bool) {
	binary.BigEndian.PutUint16(r.scratch[:], v)
	return r.scratch[:2], true
}

// nfproto is the family of the packet: Validate lets only tables of family inet ask.
func (r *simRun) nfproto() uint8 {
	if r.header.v6 {
		return NFProtoIPv6
	}
	return NFProtoIPv4
}
