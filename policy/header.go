// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Header has the fields of a packet's headers that HeaderMatch matches, but for the ICMP type and code,
// which verdict.Flow has beside the ports.
type Header struct {
	// DSCP is the differentiated services code point, of packets of any protocol.
	DSCP DSCP `json:"dscp,omitempty"`
}

// ValidateHeader reports a value that no packet can have.
func (h Header) ValidateHeader() error {
	if h.DSCP > MaxDSCP {
		return fmt.Errorf("DSCP %d, at most %d", h.DSCP, MaxDSCP)
	}
	return nil
}

// HeaderString returns the fields that are not zero, as in "DSCP 46".
func (h Header) HeaderString() string {
	if h.DSCP == 0 {
		return ""
	}
	return "DSCP " + h.DSCP.String()
}

// HeaderMatch has the fields of a rule that match the packet's headers: its IP header, and the header
// of one transport protocol. The packet is the one that policy judges: the first of a connection, or
// every one for policies that are DoNotTrack. Rules embed it, here and in package dataplane, which
// copies it as it is. It is safe for concurrent use while nobody changes it.
type HeaderMatch struct {
	// ICMP limits the rule to an ICMP type, or type and code. It needs Protocol ICMP or ICMPv6. Nil
	// means every type.
	ICMP *ICMP `json:"icmp,omitempty"`
	// NotICMP excludes an ICMP type, or just one code of a type. It needs Protocol ICMP or
	// ICMPv6. Nil means none.
	NotICMP *ICMP `json:"notICMP,omitempty"`
	// DSCP lists code points of which the packet must have one. Empty means any.
	DSCP []DSCP `json:"dscp,omitempty"`
	// NotDSCP lists code points that the packet must not have.
	NotDSCP []DSCP `json:"notDSCP,omitempty"`
}

// EqualHeader reports whether the two have the same fields. Lists are compared in order; nil and
// empty are the same.
func (m *HeaderMatch) EqualHeader(o *HeaderMatch) bool {
	return m.ICMP.Equal(o.ICMP) && m.NotICMP.Equal(o.NotICMP) &&
		slices.Equal(m.DSCP, o.DSCP) && slices.Equal(m.NotDSCP, o.NotDSCP)
}

// HeaderString returns the fields that are set in one line, as in "type 3 code 4 dscp 46,10 !dscp 8".
func (m *HeaderMatch) HeaderString() string {
	return strings.TrimPrefix(m.ICMP.text(" ")+m.NotICMP.text(" !")+
		namedTexts("dscp", m.DSCP)+namedTexts("!dscp", m.NotDSCP), " ")
}

// ValidateHeader reports all values that no packet of the rule's protocol can have as one error. The
// protocol is zero if the rule has none.
func (m *HeaderMatch) ValidateHeader(p Protocol) error {
	v := &validator{}
	if v.header(m, p); len(v.problems) == 0 {
		return nil
	}
	return errors.New(sumUp(v.problems))
}

// HeaderValues calls do for all values in the fields: with the name that the packet's field has in
// verdict.Flow, as "DSCP", and the first and last value of a range. Packets whose values are in the
// same ranges match alike.
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

// header writes the fields up to the last that is set, but for those on ICMP, which every rule writes
// before its sides: rules without a field keep the IDs that they had before the field existed. A new
// field comes last. The bytes are unambiguous, because exactly one number follows.
func (d *digest) header(m *HeaderMatch) {
	if len(m.DSCP)+len(m.NotDSCP) > 0 {
		digestBytes(d, m.DSCP)
		digestBytes(d, m.NotDSCP)
	}
}

// digestBytes writes a list of small numbers.
func digestBytes[T ~uint8](d *digest, list []T) {
	d.number(uint64(len(list)))
	for _, v := range list {
		d.buf = append(d.buf, byte(v))
	}
}

// namedTexts returns " name v,w", or nothing for an empty list.
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
