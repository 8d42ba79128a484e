// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// HeaderLen is the length of a message's header (struct nlmsghdr).
const HeaderLen = 16

// Types of messages that belong to no family.
const (
	TypeError = 2 // NLMSG_ERROR, which is also the type of an acknowledgement
	TypeDone  = 3 // NLMSG_DONE

	leastType = 0x10 // NLMSG_MIN_TYPE, the smallest type of a family
)

// Flags of messages.
const (
	// FlagRequest is in all requests (NLM_F_REQUEST).
	FlagRequest = 0x1
	// FlagAck requests an acknowledgement (NLM_F_ACK).
	FlagAck = 0x4
	// FlagInterrupted marks a dump during which objects changed (NLM_F_DUMP_INTR).
	FlagInterrupted = 0x10
	// FlagDump requests all objects (NLM_F_DUMP).
	FlagDump = 0x300

	flagCapped  = 0x100 // NLM_F_CAPPED
	flagAckTLVs = 0x200 // NLM_F_ACK_TLVS
)

// Offsets of the fields in a header.
const (
	flagsAt    = 6
	sequenceAt = 8
)

// Messages is a buffer of requests. Attributes are appended to the message that was opened last.
type Messages struct {
	Attrs
	// open is the position of the last message.
	open int
}

// Open ends the last message and begins another one. Open adds FlagRequest to flags. The parameter
// header, for example a struct ifinfomsg, is written after the netlink header. Its length must be a
// multiple of four bytes.
func (m *Messages) Open(typ, flags uint16, sequence uint32, header ...byte) {
	m.Close()
	m.open = len(m.buf)
	b := binary.NativeEndian.AppendUint32(m.buf, 0)
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, flags|FlagRequest)
	b = binary.NativeEndian.AppendUint32(b, sequence)
	b = binary.NativeEndian.AppendUint32(b, 0) // the port, which the kernel sets
	m.buf = append(b, header...)
}

// Close sets the length of the last message, if there is one.
func (m *Messages) Close() {
	if len(m.buf) > 0 {
		binary.NativeEndian.PutUint32(m.buf[m.open:], uint32(len(m.buf)-m.open))
	}
}

// Flag sets flags of the last message.
func (m *Messages) Flag(flags uint16) { setFlags(m.buf[m.open:], flags) }

func setFlags(message []byte, flags uint16) {
	flags |= binary.NativeEndian.Uint16(message[flagsAt:])
	binary.NativeEndian.PutUint16(message[flagsAt:], flags)
}

func setSequence(message []byte, sequence uint32) {
	binary.NativeEndian.PutUint32(message[sequenceAt:], sequence)
}

// Message is one message from the kernel. Data is valid until the next call of its Conn.
type Message struct {
	Type, Flags uint16
	// Sequence is the number of the request that the message answers.
	Sequence uint32
	// Port is the netlink port of the socket that sent the request. For a notification, it is the
	// port of the socket by which the change was made.
	Port uint32
	// Data is the message after the header.
	Data []byte
}

// Read reads the first message of a datagram and returns the rest. If the message is truncated, it
// returns ErrMalformed and no rest.
func (m *Message) Read(datagram []byte) (rest []byte, err error) {
	length := 0
	if len(datagram) >= HeaderLen {
		length = int(binary.NativeEndian.Uint32(datagram))
	}
	if length < HeaderLen || length > len(datagram) {
		return nil, ErrMalformed
	}
	m.Type = binary.NativeEndian.Uint16(datagram[4:])
	m.Flags = binary.NativeEndian.Uint16(datagram[flagsAt:])
	m.Sequence = binary.NativeEndian.Uint32(datagram[sequenceAt:])
	m.Port = binary.NativeEndian.Uint32(datagram[12:])
	m.Data = datagram[HeaderLen:length]
	return datagram[min(len(datagram), (length+3)&^3):], nil
}

// The attributes of an extended ack.
const (
	ackText   = 1 // NLMSGERR_ATTR_MSG
	ackOffset = 2 // NLMSGERR_ATTR_OFFS
)

// AckError is the error with which the kernel refused a request. It is immutable, so it is safe for
// concurrent use.
type AckError struct {
	Errno syscall.Errno
	// Detail is the kernel's explanation (extended ack). If the kernel sent only Offset, Detail is
	// "attribute at byte" and this number. If the kernel sent neither, Detail is empty.
	Detail string
	// Offset is the position of the refused attribute in the request, in bytes; 0 if unknown.
	Offset uint32
}

// Error returns the text of the errno, and the kernel's explanation.
func (e *AckError) Error() string {
	if e.Detail == "" {
		return e.Errno.Error()
	}
	return e.Errno.Error() + " (" + e.Detail + ")"
}

// Unwrap returns the errno.
func (e *AckError) Unwrap() error { return e.Errno }

// Refusal returns the error that the kernel reports in the message, whose type must be TypeError or
// TypeDone. It returns nil if the message reports no error. If the error number of a TypeError is
// truncated, it returns an AckError with EBADMSG. It leaves out parts of the kernel's explanation
// that cannot be read.
func (m *Message) Refusal() *AckError {
	if len(m.Data) < 4 {
		if m.Type == TypeError {
			return &AckError{Errno: syscall.EBADMSG}
		}
		return nil
	}
	// The data is the negative error number, then, in a message of TypeError, the header of the
	// request, then attributes.
	errno := syscall.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
	if errno == 0 {
		return nil
	}
	e, at := &AckError{Errno: errno}, 4
	capped := true
	if m.Type == TypeError {
		at, capped = 4+HeaderLen, m.Flags&flagCapped != 0
	}
	if m.Flags&flagAckTLVs == 0 || !capped {
		return e
	}
	var d Decoder
	d.Begin(m.Data, at)
	for d.Next() {
		switch d.Type {
		case ackText:
			e.Detail = Text(d.Value)
		case ackOffset:
			e.Offset = d.Native32()
		}
	}
	if e.Detail == "" && e.Offset != 0 {
		e.Detail = fmt.Sprintf("attribute at byte %d", e.Offset)
	}
	return e
}
