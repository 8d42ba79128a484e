// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Protocol is an IP protocol number, 1 to 255 (IANA "Protocol Numbers"). The zero value
// means "not given". In JSON it is a name (TCP, UDP, ICMP, ICMPv6, SCTP, UDPLite,
// without regard to case) or a number. Protocol is a plain value; it is safe for concurrent use.
type Protocol uint8

// The protocols that have names.
const (
	ProtocolICMP    Protocol = 1
	ProtocolTCP     Protocol = 6
	ProtocolUDP     Protocol = 17
	ProtocolICMPv6  Protocol = 58
	ProtocolSCTP    Protocol = 132
	ProtocolUDPLite Protocol = 136
)

// named lists the protocols that have names.
func named() []Protocol {
	return []Protocol{ProtocolICMP, ProtocolTCP, ProtocolUDP, ProtocolICMPv6, ProtocolSCTP, ProtocolUDPLite}
}

// ParseProtocol reads a protocol's name, without regard to case, or its number, 1 to
// 255. It returns an error for anything else; 0 is not a way to say "any".
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

// String returns the protocol's name, or its number where it has none.
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

// HasPorts reports whether rules may match ports of the protocol: TCP, UDP and SCTP.
func (p Protocol) HasPorts() bool {
	return p == ProtocolTCP || p == ProtocolUDP || p == ProtocolSCTP
}

// MarshalJSON writes the name as a string, or the number as a number. It never fails.
func (p Protocol) MarshalJSON() ([]byte, error) {
	if s := p.String(); s[0] > '9' {
		return json.Marshal(s)
	}
	return strconv.AppendUint(nil, uint64(p), 10), nil
}

// UnmarshalJSON reads what ParseProtocol reads, from a string or a number. Null is an error.
func (p *Protocol) UnmarshalJSON(data []byte) error {
	return unmarshal(data, p)
}

func (p *Protocol) read(d *decoder, path string, n *jsonNode) { parsed(d, path, n, p, ParseProtocol) }

// sameLetters compares without regard to case, of ASCII letters alone: to Unicode "ſ" is
// an "S" too.
func sameLetters(s, known string) bool { return len(s) == len(known) && strings.EqualFold(s, known) }

// parseNumber reads a number from 1 to limit in plain decimal digits.
func parseNumber(s string, limit uint64) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n >= 1 && n <= limit && s[0] != '0'
}
