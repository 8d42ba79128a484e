// SPDX-License-Identifier: Apache-2.0

package nfnl

import "encoding/binary"

// Numbers of the kernel, defined here because the framing builds on every operating system.
const (
	messageHeader = 16 // struct nlmsghdr
	familyHeader  = 4  // struct nfgenmsg

	flagRequest = 0x1
)

// Flags of messages.
const (
	// FlagAck requests an acknowledgement (NLM_F_ACK).
	FlagAck = 0x4
	// FlagInterrupted marks a dump whose objects changed meanwhile (NLM_F_DUMP_INTR).
	FlagInterrupted = 0x10
	// FlagDump requests all objects (NLM_F_DUMP).
	FlagDump = 0x300
)

// Messages is a buffer of requests to netfilter. Attributes are appended to the message that was
// opened last.
type Messages struct {
	Attrs
	// open is where the last message starts.
	open int
}

// Open closes the last message and opens another. typ is that of the header, subsystem included;
// flags are those besides the request flag. family and resource are those of netfilter's own
// header.
func (m *Messages) Open(typ, flags uint16, sequence uint32, family uint8, resource uint16) {
	m.Close()
	m.open = len(m.buf)
	b := binary.NativeEndian.AppendUint32(m.buf, messageHeader+familyHeader)
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, flags|flagRequest)
	b = binary.NativeEndian.AppendUint32(b, sequence)
	b = binary.NativeEndian.AppendUint32(b, 0) // the port, which the socket implies
	m.buf = binary.BigEndian.AppendUint16(append(b, family, 0), resource)
}

// Close writes the length of the last message, if there is one.
func (m *Messages) Close() {
	if len(m.buf) > 0 {
		binary.NativeEndian.PutUint32(m.buf[m.open:], uint32(len(m.buf)-m.open))
	}
}
