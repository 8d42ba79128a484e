// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// ErrFrame is the error of Run for a Packet.Frame that cannot be simulated. Either the frame is
// shorter than an Ethernet header with its VLAN tag, or the table is not of family bridge. (Chains
// of other families see no frames.)
var ErrFrame = errors.New("simulate: frame: shorter than its header, or not in a table of family bridge")

// The sizes of the Ethernet header and of a VLAN tag, and the EtherTypes of tags.
const (
	sizeEther, sizeTag       = 14, 4
	etherVLAN, etherProvider = 0x8100, 0x88a8
)

// The extension headers of IPv6 other than the fragment header.
const (
	protoHopByHop, protoRouting, protoAuthentication, protoOptions = 0, 43, 51, 60
)

// linkFrame has the parts of a frame that rules can load.
type linkFrame struct {
	link      []byte // from the Ethernet header on, with all VLAN tags
	payload   []byte // after the outermost tag, which the kernel removes
	etherType uint16 // of the payload
	// transport is set if the kernel finds a transport header. It is a header of protocol, and
	// begins at byte start of the payload.
	transport bool
	protocol  uint8
	start     int
	// fragment is the offset of a fragment in units of eight bytes. more is set if other fragments
	// follow.
	fragment uint16
	more     bool
	// fragmentHeader is set if there is an IPv6 fragment header.
	fragmentHeader bool
}

// newLinkFrame finds the headers of a frame as the kernel does before the hooks of a bridge.
func newLinkFrame(family ruleset.Family, b []byte) (*linkFrame, error) {
	if len(b) < sizeEther || family != ruleset.FamilyBridge {
		return nil, ErrFrame
	}
	f := &linkFrame{link: b, etherType: binary.BigEndian.Uint16(b[12:]), payload: b[sizeEther:]}
	if f.etherType == etherVLAN || f.etherType == etherProvider {
		if len(f.payload) < sizeTag {
			return nil, fmt.Errorf("%w: no EtherType after the VLAN tag", ErrFrame)
		}
		f.etherType = binary.BigEndian.Uint16(f.payload[2:])
		f.payload = f.payload[sizeTag:]
	}
	switch f.etherType {
	case etherIPv4:
		f.findIPv4()
	case etherIPv6:
		f.findIPv6()
	}
	return f, nil
}

// findIPv4 finds the transport header of IPv4.
func (f *linkFrame) findIPv4() {
	b := f.payload
	if len(b) < sizeIPv4 || b[0]>>4 != 4 {
		return
	}
	header, length := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if header < sizeIPv4 || length < header || length > len(b) {
		return
	}
	at := binary.BigEndian.Uint16(b[6:])
	f.transport, f.protocol, f.start = true, b[9], header
	f.fragment, f.more = at&0x1fff, at&0x2000 != 0
}

// findIPv6 finds the transport header of IPv6 after extension headers. If the packet is a fragment
// other than the first, findIPv6 treats the beginning of the packet as the transport header, as the
// kernel does.
func (f *linkFrame) findIPv6() {
	b := f.payload
	if len(b) < sizeIPv6 || b[0]>>4 != 6 || sizeIPv6+int(binary.BigEndian.Uint16(b[4:])) > len(b) {
		return
	}
	next, at := b[6], sizeIPv6
	for extends(next) {
		if len(b) < at+4 {
			return
		}
		size := 8 * (1 + int(b[at+1]))
		switch next {
		case protoAuthentication:
			size = 4 * (2 + int(b[at+1]))
		case protoFragment:
			size = sizeFragment
			word := binary.BigEndian.Uint16(b[at+2:])
			f.fragment, f.more, f.fragmentHeader = word>>3, word&1 != 0, true
		}
		next = b[at]
		at += size
		if f.fragment != 0 {
			f.transport, f.protocol = !extends(next), next
			return
		}
	}
	f.transport, f.protocol, f.start = true, next, at
}

// extends reports whether the protocol is an extension header of IPv6 that is followed by another
// header.
func extends(protocol uint8) bool {
	switch protocol {
	case protoHopByHop, protoRouting, protoFragment, protoAuthentication, protoOptions:
		return true
	default:
		return false
	}
}

// bytes returns bytes of the frame. Offsets count from the Ethernet header.
func (f *linkFrame) bytes(offset, size int) (ruleset.Value, bool) {
	if f == nil || offset+size > len(f.link) {
		return nil, false
	}
	return f.link[offset : offset+size], true
}

// setFrame sets the headers to those of a frame. It also sets the fields of the packet that depend
// on its protocol.
func (h *header) setFrame(f *linkFrame, p *Packet) {
	p.Protocol, p.Fragment, p.MoreFragments = f.protocol, f.fragment, f.more
	h.known = copy(h.bytes[:], f.payload)
	h.length = len(f.payload)
	h.v6 = f.etherType == etherIPv6
	h.start, h.fragment = f.start, f.fragment != 0
}

// etherType returns the EtherType of the packet, without a VLAN tag that the kernel has removed. If
// the packet has no frame, f is nil.
func (h *header) etherType(f *linkFrame) uint16 {
	switch {
	case f != nil:
		return f.etherType
	case h.v6:
		return etherIPv6
	default:
		return etherIPv4
	}
}
