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
func elementsText(key, data []Type, elements []Element, sep string) string {
	return joinFunc(elements, sep, func(e Element) string { return elementText(key, e) + dataText(data, e) })
}

// elementText writes an element without its data.
func elementText(key []Type, e Element) string {
	var b strings.Builder
	for i, v := range e.Key {
		t := Type(0)
		if i < len(key) {
			t = key[i]
		}
		last := e.Last
		if i < len(e.Ends) {
			last = e.Ends[i]
		}
		if i > 0 {
			b.WriteString(" . ")
		}
		if t.Bits() {
			b.WriteString(bitsText(t, v))
		} else {
			b.WriteString(rangeText(t, v, last))
		}
	}
	if e.Timeout != 0 {
		b.WriteString(" timeout " + durationText(e.Timeout))
	}
	if e.Comment != "" {
		b.WriteString(" comment " + quote(e.Comment))
	}
	if e.Verdict != nil {
		b.WriteString(" : " + e.Verdict.String())
	}
	return b.String()
}

// dataText writes an element's data.
func dataText(data []Type, e Element) string {
	text := ""
	for i, v := range e.Data {
		if i >= len(data) {
			break
		}
		if i == 0 {
			text += " : " + valueText(data[i], v)
		} else {
			text += " . " + valueText(data[i], v)
		}
	}
	return text
}

// rangeText writes a value, a prefix or another range.
func rangeText(t Type, v, last Value) string {
	if last == nil || string(v) == string(last) {
		return valueText(t, v)
	}
	if t.Address() {
		if length, ok := PrefixLen(v, last); ok {
			return fmt.Sprintf("%s/%d", valueText(t, v), length)
		}
	}
	if t == TypeProto || t == TypeNFProto || t == TypeCtDir { // nft would read "tcp-udp" as one name
		return fmt.Sprintf("%d-%d", t.number(v), t.number(last))
	}
	return valueText(t, v) + "-" + valueText(t, last)
}

// PrefixLen returns the length of the prefix that has exactly the addresses from first to last. It
// reports false if there is no such prefix.
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
	case TypeIfname:
		return ifnameText(ifnameString(v), false)
	case TypeEtherAddr:
		return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", v[0], v[1], v[2], v[3], v[4], v[5])
	case TypeProto:
		return protoText(v[0])
	case TypeEtherType:
		return fmt.Sprintf("0x%04x", binary.BigEndian.Uint16(v))
	case TypeMark:
		return fmt.Sprintf("0x%08x", binary.NativeEndian.Uint32(v))
	case TypeClassID:
		n := binary.NativeEndian.Uint32(v)
		if n == 0 {
			return "none"
		}
		return fmt.Sprintf("%x:%x", n>>16, n&0xffff)
	case TypeBool:
		return [...]string{"missing", "exists"}[v[0]&1]
	case TypeCtState, TypeCtStatus, TypeTCPFlag:
		return strings.Join(bitNames(t, v), ",")
	}
	n := t.number(v)
	if name := valueName(t, n); name != "" {
		return name
	}
	return strconv.FormatUint(uint64(n), 10)
}

// number returns a value of at most four bytes as a number.
func (t Type) number(v Value) uint32 {
	switch {
	case len(v) == 1:
		return uint32(v[0])
	case len(v) == 2:
		return uint32(binary.BigEndian.Uint16(v))
	case len(v) == 4:
		return binary.NativeEndian.Uint32(v)
	default:
		return 0
	}
}

// valueName returns nft's name of a value. It is empty if nft writes a number.
func valueName(t Type, n uint32) string {
	switch {
	case t == TypeNFProto && n == uint32(NFProtoIPv4):
		return "ipv4"
	case t == TypeNFProto && n == uint32(NFProtoIPv6):
		return "ipv6"
	case t == TypeCtDir && n < 2:
		return [...]string{"original", "reply"}[n]
	case t == TypeFibAddr && n <= FibTypeMulticast:
		return [...]string{"unspec", "unicast", "local", "broadcast", "anycast", "multicast"}[n]
	default:
		return ""
	}
}

// protoText writes a protocol. It uses only names that are keywords of nft, because other names
// depend on the machine's list of protocols.
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

// bitName is a bit with its name in nft.
type bitName struct {
	bit  uint32
	name string
}

func bitTable(t Type) []bitName {
	switch t {
	case TypeCtState:
		return []bitName{
			{CtInvalid, "invalid"},
			{CtEstablished, "established"},
			{CtRelated, "related"},
			{CtNew, "new"},
			{CtUntracked, "untracked"},
		}
	case TypeCtStatus:
		return []bitName{
			{ctExpected, "expected"},
			{CtSeenReply, "seen-reply"},
			{ctAssured, "assured"},
			{ctConfirmed, "confirmed"},
			{CtSNAT, "snat"},
			{CtDNAT, "dnat"},
			{ctDying, "dying"},
		}
	case TypeTCPFlag:
		return []bitName{
			{uint32(TCPFin), "fin"},
			{uint32(TCPSyn), "syn"},
			{uint32(TCPRst), "rst"},
			{uint32(tcpPsh), "psh"},
			{uint32(TCPAck), "ack"},
			{uint32(tcpUrg), "urg"},
			{uint32(tcpEcn), "ecn"},
			{uint32(tcpCwr), "cwr"},
		}
	default:
		return nil
	}
}

// bitNames returns the names of the bits of a value, and a number for the bits without a name.
func bitNames(t Type, v Value) []string {
	rest := t.number(v)
	var words []string
	for _, n := range bitTable(t) {
		if rest&n.bit != 0 {
			words = append(words, n.name)
			rest &^= n.bit
		}
	}
	if rest != 0 || len(words) == 0 {
		words = append(words, fmt.Sprintf("0x%x", rest))
	}
	return words
}

// bitsText writes several bits as one value, which means all of them and not any.
func bitsText(t Type, v Value) string {
	if len(v) != t.Size() {
		return fmt.Sprintf("?%x", []byte(v))
	}
	return strings.Join(bitNames(t, v), "|")
}

// maskText writes a mask, or a value under a mask.
func maskText(t Type, v Value) string {
	switch {
	case t == TypeTCPFlag && len(v) == 1:
		return "(" + bitsText(t, v) + ")"
	case t.Address():
		return valueText(t, v)
	case len(v) == t.Size() && len(v) <= 4:
		return fmt.Sprintf("0x%0*x", 2*len(v), t.number(v))
	default:
		return fmt.Sprintf("?%x", []byte(v))
	}
}

// ifnameString returns an interface name without its padding.
func ifnameString(v Value) string { return strings.TrimRight(string(v), "\x00") }

// ifnameText writes the name of an interface, or a prefix of names. An asterisk at the end is a
// wildcard in nft, so ifnameText escapes it. If nft cannot represent a name, the result is a text
// that nft refuses.
func ifnameText(name string, prefix bool) string {
	switch {
	case strings.Contains(name, `"`), prefix && strings.HasSuffix(name, `\`), !prefix && strings.HasSuffix(name, `\*`):
		return fmt.Sprintf("?%x", name)
	case prefix:
		return quote(name + "*")
	case strings.HasSuffix(name, "*"):
		return quote(strings.TrimSuffix(name, "*") + `\*`)
	default:
		return quote(name)
	}
}

// quote puts text between quotation marks. It replaces quotation marks inside, because nft has no
// syntax for them.
func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, "'") + `"` }

// joinFunc joins the texts of the items with sep.
func joinFunc[T any](items []T, sep string, text func(T) string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = text(item)
	}
	return strings.Join(texts, sep)
}
