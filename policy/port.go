// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Port is a port, a range of ports, or the name of a port of an endpoint. Either Name is set, or
// First and Last are set. For a single port, First and Last are equal. In JSON, a Port is a number
// (80), a range ("8000:8999") or a name ("http").
type Port struct {
	// Name of a port: 1 to 128 of [A-Za-z0-9_.-], at least one of them a letter. So "80-90" is an
	// error: a range is written with a colon, "80:90".
	Name string
	// First and Last are the port numbers of an inclusive range, 1 to 65535. Both are 0 if Name is
	// set.
	First, Last uint16
}

// PortNumber returns a single port.
func PortNumber(n uint16) Port { return Port{First: n, Last: n} }

// PortRange returns an inclusive range of ports.
func PortRange(first, last uint16) Port { return Port{First: first, Last: last} }

// PortName returns a port by name.
func PortName(name string) Port { return Port{Name: name} }

// ParsePort parses a port number ("80"), an inclusive range ("8000:8999") or the name of a port
// ("http"). It returns an error for port 0, numbers over 65535, and a range whose first port is
// larger than its last. It also returns an error for any other text that is not a valid name.
func ParsePort(s string) (Port, error) {
	if isPortName(s) {
		return PortName(s), nil
	}
	a, b, isRange := strings.Cut(s, ":")
	if !isRange {
		b = a
	}
	first, ok := parseNumber(a, 65535)
	last, ok2 := parseNumber(b, 65535)
	if !ok || !ok2 {
		return Port{}, fmt.Errorf(
			"policy: parse port %q: want a number from 1 to 65535, a range as in \"8000:8999\", or a name", clip(s),
		)
	}
	if first > last {
		return Port{}, fmt.Errorf("policy: parse port %q: the range ends before it starts", s)
	}
	return PortRange(uint16(first), uint16(last)), nil
}

// String returns the text that ParsePort parses.
func (p Port) String() string {
	first := strconv.Itoa(int(p.First))
	switch {
	case p.Name != "":
		return p.Name
	case p.First == p.Last:
		return first
	}
	return first + ":" + strconv.Itoa(int(p.Last))
}

// MarshalJSON encodes a number for a single port, otherwise the text of String. It never fails.
func (p Port) MarshalJSON() ([]byte, error) {
	if p.Name == "" && p.First == p.Last {
		return []byte(p.String()), nil
	}
	return json.Marshal(p.String())
}

// UnmarshalJSON decodes a string or number as ParsePort does. Null is an error.
func (p *Port) UnmarshalJSON(data []byte) error {
	return unmarshal(data, p)
}

// read does not call ParsePort for a number in JSON such as 8e1, because "8e1" is a valid name of a
// port.
func (p *Port) read(d *decoder, path string, n *jsonNode) {
	if n.kind == jsonNumber {
		d.portNumber(path, n, &p.First)
		p.Last = p.First
		return
	}
	parsed(d, path, n, p, ParsePort)
}

// problem returns why the port is invalid, or "".
func (p Port) problem() string {
	switch {
	case p.Name != "" && (p.First != 0 || p.Last != 0):
		return "a port has either a name or numbers"
	case p.Name != "" && !isPortName(p.Name):
		return fmt.Sprintf("%q is not a port name: want 1 to 128 of letters, digits, '_', '.' and '-', "+
			"at least one letter", clip(p.Name))
	case p.Name != "":
		return ""
	case p.First == 0 || p.Last == 0:
		return "0 is not a port: ports are 1 to 65535"
	case p.First > p.Last:
		return fmt.Sprintf("the range %s ends before it starts", p)
	}
	return ""
}

// isPortName reports whether s is a valid name of a port.
func isPortName(s string) bool {
	return len(s) <= 128 && onlyOf(s, "_.-") && strings.ContainsFunc(s, isLetter)
}

// onlyOf reports whether s consists of ASCII letters, digits and the characters of extra.
func onlyOf(s, extra string) bool {
	// A bitmap of characters, for speed: this function checks every label and name of every update.
	const digits, letters = 0x03ff_0000_0000_0000, 0x07ff_fffe_07ff_fffe
	masks := [4]uint64{digits, letters}
	for i := range len(s) {
		c := s[i]
		if masks[c>>6]>>(c&63)&1 == 0 && strings.IndexByte(extra, c) < 0 {
			return false
		}
	}
	return true
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
