// SPDX-License-Identifier: Apache-2.0

package ruleset

import "encoding/binary"

// assign sets a property of the packet or of its connection.
func (r *simRun) assign(op *simOp) bool {
	a := op.assign
	value := a.Value
	switch {
	case a.Map != "":
		e, ok := r.lookup(op)
		if !ok {
			return false
		}
		value = numberOf(op.set.elements[e].Data[0])
	case a.From != 0:
		v, ok := r.field(&op.fields[0])
		if !ok {
			return false
		}
		value = numberOf(v)
	case a.Mask != 0 && a.Mask != ^uint32(0): // what stays is read first
		v, ok := r.field(&op.fields[0])
		if !ok {
			return false
		}
		value = numberOf(v)&^a.Mask | a.Value
	}
	r.set(a.Field, value)
	return true
}

// set sets a field to a value. Without a connection its properties cannot be set, and nothing happens.
func (r *simRun) set(f Field, value uint32) {
	switch f {
	case Mark:
		r.Packet.Mark = value
	case Priority:
		r.Packet.Priority = value
	case PktType:
		r.pktType = Value{byte(value)}
	case CtMark:
		if r.connected() {
			r.Conn.Mark = value
		}
	case CtLabel:
		if r.connected() && value < 128 {
			word := r.Conn.Label[value/32*4:]
			binary.NativeEndian.PutUint32(word, binary.NativeEndian.Uint32(word)|1<<(value%32))
		}
	case CtZone:
		if !r.tracked && r.Conn.State != CtUntracked {
			r.Conn.Zone = uint16(value)
		}
	}
}

// numberOf reads a value of up to four bytes in host byte order.
func numberOf(v Value) uint32 {
	switch len(v) {
	case 1:
		return uint32(v[0])
	case 2:
		return uint32(binary.NativeEndian.Uint16(v))
	case 4:
		return binary.NativeEndian.Uint32(v)
	default:
		return 0
	}
}
