// SPDX-License-Identifier: Apache-2.0

package nfnl

import "github.com/wayleave/wayleave/internal/netlink"

// familyHeader is the length of netfilter's own header (struct nfgenmsg).
const familyHeader = 4

// Message is one message of the kernel about nf_tables. Its bytes are valid until the next call of
// a method of the Conn or Monitor that received it.
type Message struct {
	// Type is the type within the subsystem (NFT_MSG_...).
	Type uint16
	// Port is the netlink port of the socket whose request the message answers. In a notification,
	// it is the port of the socket that changed the ruleset.
	Port uint32
	// Sequence is the number of the request that the message answers. In a batch, the numbers of
	// messages begin at 1.
	Sequence uint32
	// Family of the table.
	Family uint8
	// Attrs are the attributes; see netlink.Decoder.
	Attrs []byte
}

// parse decodes netfilter's header. For messages of other subsystems, ok is false.
func parse(m *netlink.Message) (parsed Message, ok bool, err error) {
	if m.Type>>8 != subsystem {
		return parsed, false, nil
	}
	if len(m.Data) < familyHeader {
		return parsed, false, netlink.ErrMalformed
	}
	parsed = Message{
		Type: m.Type & 0xff, Port: m.Port, Sequence: m.Sequence, Family: m.Data[0], Attrs: m.Data[familyHeader:],
	}
	return parsed, true, nil
}
