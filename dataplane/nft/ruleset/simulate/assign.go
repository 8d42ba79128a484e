// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"encoding/binary"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// assign sets a property of the packet or of its connection.
func (r *run) assign(op *operation) bool {
	a := op.assign
	value := a.Value
	switch {
	case a.Map != "":
		data, _, ok := r.lookup(op)
		if !ok {
			return false
		}
		value = binary.NativeEndian.Uint32(data)
	case a.From != 0:
		v, ok := r.field(&op.fields[0])
		if !ok {
			return false
		}
		value = binary.NativeEndian.Uint32(v)
	case a.Mask != 0 && a.Mask != ^uint32(0): // the bits that stay are read first
		v, ok := r.field(&op.fields[0])
		if !ok {
			return false
		}
		value = binary.NativeEndian.Uint32(v)&^a.Mask | a.Value
	}
	r.set(a.Field, value)
	return true
}

// set sets a field to a value. If the packet has no connection, a field of the connection stays
// unset.
func (r *run) set(f ruleset.Field, value uint32) {
	switch f {
	case ruleset.Mark:
		r.Packet.Mark = value
	case ruleset.Priority:
		r.Packet.Priority = value
	case ruleset.CtMark:
		if r.connected() {
			r.Conn.Mark = value
		}
	}
}
