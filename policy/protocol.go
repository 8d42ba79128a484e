// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Protocol is an IP protocol number of IANA, 1 to 255. The zero value means that no protocol is
// given. In JSON, it is a number or a name (TCP, UDP, ICMP, ICMPv6, SCTP or UDPLite, not
// case-sensitive).
type Protocol uint8

// The protocols with names.
const (
	ProtocolICMP    Protocol = 1
	ProtocolTCP     Protocol = 6
	ProtocolUDP     Protocol = 17
	ProtocolICMPv6  Protocol = 58
	ProtocolSCTP    Protocol = 132
	ProtocolUDPLite Protocol = 136
)

// named returns the protocols with names.
func named() []Protocol {
	return []Protocol{ProtocolICMP, ProtocolTCP, ProtocolUDP, ProtocolICMPv6, ProtocolSCTP, ProtocolUDPLite}
}

// ParseProtocol parses a protocol's name, case-insensitively, or its number, 1 to 255. It returns
// an error for any other text, also for "0".
func ParseProtocol(s string) (Protocol, error) {
	for _, p := range named() {
		if sameLetters(s, p.String()) {
			return p, nil
		}
	}
	n, ok := parseNumber(s, 255)
	if !ok {
		return 0, fmt.Errorf(
			"policy: parse protocol %q: want TCP, UDP, ICMP, ICMPv6, SCTP, UDPLite or a number from 1 to 255", clip(s),
		)
	}
	return Protocol(n), nil
}

// String returns the protocol's name, or its number if it has none.
func (p Protocol) String() string {
	switch p {
	case ProtocolICMP:
		return "ICMP"
	case ProtocolTCP:
		return "TCP"
	case ProtocolUDP:
		return "UDP"
	case ProtocolICMPv6:
		return "ICMPv6"
	case ProtocolSCTP:
		return "SCTP"
	case ProtocolUDPLite:
		return "UDPLite"
	}
	return strconv.Itoa(int(p))
}

// HasPorts reports whether rules can match ports of the protocol. It is true only for TCP, UDP and
// SCTP.
func (p Protocol) HasPorts() bool {
	return p == ProtocolTCP || p == ProtocolUDP || p == ProtocolSCTP
}

// MarshalJSON encodes the name as a string, or the number as a number. It never fails.
func (p Protocol) MarshalJSON() ([]byte, error) {
	if s := p.String(); s[0] > '9' {
		return json.Marshal(s)
	}
	return strconv.AppendUint(nil, uint64(p), 10), nil
}

// UnmarshalJSON decodes a string or number as ParseProtocol does. Null is an error.
func (p *Protocol) UnmarshalJSON(data []byte) error {
	return unmarshal(data, p)
}

func (p *Protocol) read(d *decoder, path string, n *jsonNode) { parsed(d, path, n, p, ParseProtocol) }

// sameLetters compares ASCII text case-insensitively. The length excludes Unicode letters that fold
// to ASCII, as "ſ".
func sameLetters(s, known string) bool { return len(s) == len(known) && strings.EqualFold(s, known) }

// parseNumber parses a number from 1 to limit in plain decimal digits.
func parseNumber(s string, limit uint64) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n >= 1 && n <= limit && s[0] != '0'
}
