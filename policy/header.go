// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Header has those values of a packet's headers on which a HeaderMatch has conditions. It lacks the
// ICMP type and code: verdict.Flow, which embeds Header, has separate fields for these.
type Header struct {
	// DSCP is the differentiated services code point. Packets of all protocols have one.
	DSCP DSCP `json:"dscp,omitempty"`
}

// ValidateHeader returns an error if a value is impossible, such as a DSCP over 63.
func (h Header) ValidateHeader() error {
	if h.DSCP > MaxDSCP {
		return fmt.Errorf("DSCP %d, at most %d", h.DSCP, MaxDSCP)
	}
	return nil
}

// HeaderString returns the nonzero fields, as in "DSCP 46".
func (h Header) HeaderString() string {
	if h.DSCP == 0 {
		return ""
	}
	return "DSCP " + h.DSCP.String()
}

// HeaderMatch has the conditions of a rule on the packet's headers: the IP header, and the header
// of one transport protocol. The packet is the first of a connection, or any packet if the policy
// is DoNotTrack. The type Rule of this package and that of package dataplane embed HeaderMatch.
type HeaderMatch struct {
	// ICMP limits the rule to an ICMP type, or to a type and code. It needs Protocol ICMP or
	// ICMPv6. Nil means every type.
	ICMP *ICMP `json:"icmp,omitempty"`
	// NotICMP excludes an ICMP type, or one code of a type. It needs Protocol ICMP or ICMPv6. Nil
	// means none.
	NotICMP *ICMP `json:"notICMP,omitempty"`
	// DSCP are code points: the packet must have one of them. Empty means any.
	DSCP []DSCP `json:"dscp,omitempty"`
	// NotDSCP are code points: the packet must have none of them. Empty excludes none.
	NotDSCP []DSCP `json:"notDSCP,omitempty"`
}

// EqualHeader reports whether m and o have equal fields. Lists are compared in order. Nil equals an
// empty list.
func (m *HeaderMatch) EqualHeader(o *HeaderMatch) bool {
	return m.ICMP.Equal(o.ICMP) && m.NotICMP.Equal(o.NotICMP) &&
		slices.Equal(m.DSCP, o.DSCP) && slices.Equal(m.NotDSCP, o.NotDSCP)
}

// HeaderString returns one line with the fields that are set, as in "type 3 code 4 dscp 46,10 !dscp
// 8".
func (m *HeaderMatch) HeaderString() string {
	return strings.TrimPrefix(m.ICMP.text(" ")+m.NotICMP.text(" !")+
		namedTexts("dscp", m.DSCP)+namedTexts("!dscp", m.NotDSCP), " ")
}

// ValidateHeader returns an error if a value is impossible, such as a DSCP over 63. It also returns
// an error if a value does not fit p, such as an ICMP type if p is TCP. The argument p is the
// protocol of the rule, or 0 if the rule has none. The error names all such values.
func (m *HeaderMatch) ValidateHeader(p Protocol) error {
	v := &validator{}
	if v.header(m, p); len(v.problems) == 0 {
		return nil
	}
	return errors.New(sumUp(v.problems))
}

// HeaderValues reports all values in the conditions of m. For each value or range of values, it
// calls the function do with these arguments:
//
//   - field is the name of the field of verdict.Flow that has the packet's value, for example
//     "DSCP".
//   - first and last are the bounds of the range. For a single value, both are this value.
//
// If the values of two packets are in the same ranges for every field, m matches both packets or
// neither.
func (m *HeaderMatch) HeaderValues(do func(field string, first, last uint64)) {
	for _, i := range []*ICMP{m.ICMP, m.NotICMP} {
		i.values(do)
	}
	for _, list := range [][]DSCP{m.DSCP, m.NotDSCP} {
		for _, v := range list {
			do("DSCP", uint64(v), uint64(v))
		}
	}
}

func (v *validator) header(m *HeaderMatch, p Protocol) {
	v.icmp("icmp", m.ICMP, p)
	v.icmp("notICMP", m.NotICMP, p)
	v.dscps("dscp", m.DSCP)
	v.dscps("notDSCP", m.NotDSCP)
}

// header digests the fields up to the last one that is set. It leaves out the ICMP fields: rule
// digests them earlier. A new field must come after all others. Rules in which it is not set then
// keep the IDs that they had before the field existed. The digest is unambiguous, because exactly
// one number follows.
func (d *digest) header(m *HeaderMatch) {
	if len(m.DSCP)+len(m.NotDSCP) > 0 {
		digestBytes(d, m.DSCP)
		digestBytes(d, m.NotDSCP)
	}
}

// digestBytes digests a list of small numbers.
func digestBytes[T ~uint8](d *digest, list []T) {
	d.number(uint64(len(list)))
	for _, v := range list {
		d.buf = append(d.buf, byte(v))
	}
}

// namedTexts returns " name v,w", or "" for an empty list.
func namedTexts[T fmt.Stringer](name string, list []T) string {
	if len(list) == 0 {
		return ""
	}
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = v.String()
	}
	return " " + name + " " + strings.Join(texts, ",")
}
