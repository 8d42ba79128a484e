// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
)

// elementsText writes a list of elements.
func elementsText(key []Type, elements []Element, sep string) string {
	return joinFunc(elements, sep, func(e Element) string { return elementText(key, e) })
}

func elementText(key []Type, e Element) string {
	var parts []string
	for i, v := range e.Key {
		t := Type(0)
		if i < len(key) {
			t = key[i]
		}
		parts = append(parts, rangeText(t, v, e.Last))
	}
	text := strings.Join(parts, " . ")
	if e.Verdict != nil {
		text += " : " + e.Verdict.String()
	}
	return text
}

// rangeText writes one value, a range, or a range that is a prefix.
func rangeText(t Type, v, last Value) string {
	if last == nil {
		return valueText(t, v)
	}
	if t == TypeIPv4 || t == TypeIPv6 {
		if length, ok := PrefixLen(v, last); ok {
			return fmt.Sprintf("%s/%d", valueText(t, v), length)
		}
	}
	return valueText(t, v) + "-" + valueText(t, last)
}

// PrefixLen returns the length of the prefix whose first and last addresses these are, if there is
// one.
func PrefixLen(first, last Value) (int, bool) {
	if len(first) != len(last) {
		return 0, false
	}
	length, rest := 0, false
	for i := range first {
		diff := first[i] ^ last[i]
		if rest {
			if first[i] != 0 || last[i] != 0xff {
				return 0, false
			}
			continue
		}
		n := bits.LeadingZeros8(diff)
		length += n
		if n < 8 {
			rest = true
			low := byte(0xff >> n)
			if diff != low || first[i]&low != 0 {
				return 0, false
			}
		}
	}
	return length, true
}

// valueText writes one value of a type.
func valueText(t Type, v Value) string {
	if len(v) != t.Size() || len(v) == 0 {
		return fmt.Sprintf("?%x", []byte(v))
	}
	switch t {
	case TypeIPv4, TypeIPv6:
		a, _ := netip.AddrFromSlice(v)
		return a.String()
	case TypeService:
		return strconv.Itoa(int(binary.BigEndian.Uint16(v)))
	case TypeIfname:
		return quote(escapeIfname(ifnameString(v)))
	case TypeProto:
		return protoText(v[0])
	case TypeNFProto:
		switch v[0] {
		case NFProtoIPv4:
			return "ipv4"
		case NFProtoIPv6:
			return "ipv6"
		}
	case TypeCtState:
		return ctStateText(binary.NativeEndian.Uint32(v))
	}
	return strconv.Itoa(int(v[0]))
}

// protoText writes a protocol by a name that is a word of nft's own language, and so
// does not depend on the machine's list of protocols.
func protoText(p uint8) string {
	switch p {
	case 1:
		return "icmp"
	case 58:
		return "icmpv6"
	case 136:
		return "udplite"
	}
	if name := transportKeyword(p); name != "" {
		return name
	}
	return strconv.Itoa(int(p))
}

func ctStateText(state uint32) string {
	names := []struct {
		bit  uint32
		name string
	}{
		{CtInvalid, "invalid"},
		{CtEstablished, "established"},
		{CtRelated, "related"},
		{CtNew, "new"},
		{CtUntracked, "untracked"},
	}
	var words []string
	for _, n := range names {
		if state&n.bit != 0 {
			words = append(words, n.name)
			state &^= n.bit
		}
	}
	if state != 0 || len(words) == 0 {
		words = append(words, fmt.Sprintf("0x%x", state))
	}
	return strings.Join(words, ",")
}

// ifnameString returns the name without the zeros that fill it up.
func ifnameString(v Value) string { return strings.TrimRight(string(v), "\x00") }

// escapeIfname guards an asterisk at the end, which nft would take for a wildcard.
func escapeIfname(name string) string {
	if strings.HasSuffix(name, "*") {
		return strings.TrimSuffix(name, "*") + `\*`
	}
	return name
}

// quote puts text between quotation marks. nft has no way to write one inside.
func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, "'") + `"` }

// joinFunc joins the texts of the items.
func joinFunc[T any](items []T, sep string, text func(T) string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = text(item)
	}
	return strings.Join(texts, sep)
}
