// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"syscall"
)

// The types of control messages.
const (
	KindError = 2 // NLMSG_ERROR
	KindDone  = 3 // NLMSG_DONE
)

// The attributes of an extended ack, and the flags that announce it.
const (
	flagCapped  = 0x100 // NLM_F_CAPPED
	flagAckTLVs = 0x200 // NLM_F_ACK_TLVS

	ackMessage = 1 // NLMSGERR_ATTR_MSG
	ackOffset  = 2 // NLMSGERR_ATTR_OFFS
)

var errShort = errors.New("nfnl: receive: answer is cut short")

// Message is one message of the kernel's. Its bytes are valid until the next call of the Conn or
// Monitor that it came from.
type Message struct {
	// Type within the subsystem, as NFT_MSG_...; meaningless for errors and ends.
	Type uint16
	// Port is the netlink port of the socket whose request this is about: for a notification, of
	// who changed the ruleset.
	Port uint32
	// Sequence is the number of the request that this is about, from 1 in a batch.
	Sequence uint32
	// Family of the table.
	Family uint8
	// Attrs are the attributes; see Attributes.
	Attrs []byte

	// Kind is the type as in the header: that of a subsystem of netfilter, KindError or KindDone.
	Kind uint16
	// Flags of the header.
	Flags uint16
	// Errno of an error or an end; zero for an acknowledgement, which is an error as well.
	Errno syscall.Errno

	detail string
}

// NextMessage returns the first message of a datagram and the rest. It fails if the message is
// truncated.
func NextMessage(datagram []byte) (m Message, rest []byte, err error) {
	if len(datagram) < messageHeader {
		return m, nil, errShort
	}
	length := int(binary.NativeEndian.Uint32(datagram))
	if length < messageHeader || length > len(datagram) {
		return m, nil, errShort
	}
	rest = datagram[min(len(datagram), (length+3)&^3):]
	m.Kind = binary.NativeEndian.Uint16(datagram[4:])
	m.Flags = binary.NativeEndian.Uint16(datagram[6:])
	m.Sequence = binary.NativeEndian.Uint32(datagram[8:])
	m.Port = binary.NativeEndian.Uint32(datagram[12:])
	body := datagram[messageHeader:length]
	switch m.Kind {
	case KindError:
		// The error number, the header of the request (only that, as we asked for capped ones), then attributes.
		if len(body) < 4+messageHeader {
			return m, nil, errShort
		}
		m.Errno = errnoOf(body)
		if m.Flags&flagAckTLVs != 0 && m.Flags&flagCapped != 0 {
			m.detail = extendedAck(body[4+messageHeader:])
		}
	case KindDone:
		if len(body) >= 4 {
			m.Errno = errnoOf(body)
		}
	default:
		if m.Kind>>8 == 0 { // another control message
			break
		}
		if len(body) < familyHeader {
			return m, nil, errShort
		}
		m.Type, m.Family, m.Attrs = m.Kind&0xff, body[0], body[familyHeader:]
	}
	return m, rest, nil
}

// errnoOf reads an error number, which the kernel gives as a negative one.
func errnoOf(body []byte) syscall.Errno {
	return syscall.Errno(-int32(binary.NativeEndian.Uint32(body)))
}

// is reports whether it is a message of nf_tables of a type.
func (m *Message) is(typ uint16) bool { return m.Kind == subsystem<<8|typ }

// extendedAck returns the kernel's message, or where in the request the fault lies.
// What cannot be read is left out: the error number is what counts.
func extendedAck(attrs []byte) string {
	var text, place string
	for typ, value := range Attributes(attrs) {
		switch {
		case typ == ackMessage:
			text = Text(value)
		case typ == ackOffset && len(value) == 4:
			place = fmt.Sprintf("attribute at byte %d", binary.NativeEndian.Uint32(value))
		}
	}
	if text == "" {
		return place
	}
	return text
}

// NextAttr cuts the first attribute off a list of them: its type without flags, its value, and the others.
// It is not ok if there is none or if it is cut short.
func NextAttr(attrs []byte) (typ uint16, value, rest []byte, ok bool) {
	if len(attrs) < attrHeader {
		return 0, nil, nil, false
	}
	length := int(binary.NativeEndian.Uint16(attrs))
	if length < attrHeader || length > len(attrs) {
		return 0, nil, nil, false
	}
	typ = binary.NativeEndian.Uint16(attrs[2:]) & attrTypeMask
	return typ, attrs[attrHeader:length], attrs[min(len(attrs), (length+3)&^3):], true
}

// Attributes yields the type, without flags, and the value of each attribute, up to the first
// truncated one. A loop over NextAttr takes half the time.
func Attributes(attrs []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for typ, value, rest, ok := NextAttr(attrs); ok && yield(typ, value); {
			typ, value, rest, ok = NextAttr(rest)
		}
	}
}

// FindAttr returns the value of the first attribute of a type, nil if there is none.
func FindAttr(attrs []byte, typ uint16) []byte {
	for t, value, rest, ok := NextAttr(attrs); ok; t, value, rest, ok = NextAttr(rest) {
		if t == typ {
			return value
		}
	}
	return nil
}

// Text returns a string attribute's value without the zero byte that ends it.
func Text(value []byte) string { return strings.TrimRight(string(value), "\x00") }

// IsText reports whether an attribute's value is the string.
func IsText(value []byte, s string) bool {
	return len(value) == len(s)+1 && value[len(s)] == 0 && string(value[:len(s)]) == s ||
		len(value) == len(s) && string(value) == s
}

// Number32 reads a number in network byte order; zero if it is not there.
func Number32(value []byte) uint32 {
	if len(value) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(value)
}

// Number64 reads a number in network byte order; zero if it is not there.
func Number64(value []byte) uint64 {
	if len(value) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}
