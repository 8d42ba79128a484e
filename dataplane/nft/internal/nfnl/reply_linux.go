// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

var errShort = errors.New("nfnl: receive: answer is cut short")

// parseReplies splits a datagram into messages. It returns at least one, or an error.
func parseReplies(datagram []byte) ([]reply, error) {
	var replies []reply
	for len(datagram) > 0 {
		if len(datagram) < messageHeader {
			return nil, errShort
		}
		length := int(binary.NativeEndian.Uint32(datagram))
		if length < messageHeader || length > len(datagram) {
			return nil, errShort
		}
		r, err := parseReply(datagram[:length])
		if err != nil {
			return nil, err
		}
		replies = append(replies, r)
		datagram = datagram[min(len(datagram), (length+3)&^3):]
	}
	if replies == nil {
		return nil, errShort
	}
	return replies, nil
}

func parseReply(message []byte) (reply, error) {
	r := reply{
		typ:      binary.NativeEndian.Uint16(message[4:]),
		sequence: binary.NativeEndian.Uint32(message[8:]),
	}
	flags := binary.NativeEndian.Uint16(message[6:])
	body := message[messageHeader:]
	if r.typ != unix.NLMSG_ERROR {
		if len(body) < familyHeader {
			return r, errShort
		}
		r.data = body[familyHeader:]
		return r, nil
	}
	// The error number, the header of the request (only that, as we asked for capped ones), then attributes.
	if len(body) < 4+messageHeader {
		return r, errShort
	}
	r.errno = syscall.Errno(-int32(binary.NativeEndian.Uint32(body)))
	if flags&unix.NLM_F_ACK_TLVS != 0 && flags&unix.NLM_F_CAPPED != 0 {
		r.detail = extendedAck(body[4+messageHeader:])
	}
	return r, nil
}

// extendedAck returns the kernel's message, or where in the request the fault lies.
// What cannot be read is left out: the error number is what counts.
func extendedAck(data []byte) string {
	attrs, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return ""
	}
	var text, place string
	for attrs.Next() {
		switch attrs.Type() {
		case unix.NLMSGERR_ATTR_MSG:
			text = attrs.String()
		case unix.NLMSGERR_ATTR_OFFS:
			place = fmt.Sprintf("attribute at byte %d", attrs.Uint32())
		}
	}
	if text == "" {
		return place
	}
	return text
}
