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
		value = binary.NativeEndian.Uint32(op.set.elements[e].Data[0])
	case a.From != 0:
		v, ok := r.field(&op.fields[0])
		if !ok {
			return false
		}
		value = binary.NativeEndian.Uint32(v)
	case a.Mask != 0 && a.Mask != ^uint32(0): // what stays is read first
		v, ok := r.field(&op.fields[0])
		if !ok {
			return false
		}
		value = binary.NativeEndian.Uint32(v)&^a.Mask | a.Value
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
	case CtMark:
		if r.connected() {
			r.Conn.Mark = value
		}
	}
}
