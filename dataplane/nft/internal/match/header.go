// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// headerMatch is a match on one header field. Its value must be in any, unless any is empty, and
// must not be in not. Packets without the field do not have the value. Values are numbers, so the
// type of the field must not be one of bits.
type headerMatch struct {
	field    ruleset.HeaderField
	any, not []span
	// notAll has values that a packet must not all have at once. Their fields are in the same
	// header. If notAll is set, field is the field of its first value, and any and not are empty.
	notAll []headerValue
}

// span is a range of values, from the first to the last.
type span struct{ first, last uint64 }

// String returns the range as it occurs in names of chains; see writeHeaderKey.
func (s span) String() string {
	if s.first == s.last {
		return strconv.FormatUint(s.first, 10)
	}
	return strconv.FormatUint(s.first, 10) + "-" + strconv.FormatUint(s.last, 10)
}

// headerValue is a value of a header field.
type headerValue struct {
	field ruleset.HeaderField
	value uint64
}

// headerMatches returns the matches on header fields. known has the fields of m that these matches
// cover. A rule with any other field is refused.
func headerMatches(m *policy.HeaderMatch) (matches []headerMatch, known policy.HeaderMatch) {
	if m.EqualHeader(&policy.HeaderMatch{}) {
		return nil, policy.HeaderMatch{} // most rules
	}
	matches = append(icmpMatches(m.ICMP), notICMPMatches(m.NotICMP)...)
	matches = append(matches, valueMatches(m)...)
	return matches, policy.HeaderMatch{ICMP: m.ICMP, NotICMP: m.NotICMP, DSCP: m.DSCP, NotDSCP: m.NotDSCP}
}

// valueMatches returns the matches on header fields other than those of ICMP.
func valueMatches(m *policy.HeaderMatch) []headerMatch {
	return []headerMatch{
		{field: ruleset.HeaderDSCP, any: spans(m.DSCP), not: spans(m.NotDSCP)},
	}
}

// spans returns the values of a list.
func spans[T ~uint8 | ~uint16](list []T) (out []span) {
	for _, v := range list {
		out = append(out, span{uint64(v), uint64(v)})
	}
	return out
}

// icmpMatches returns the matches on ICMP type and code (S63). If no type is set, the packet must
// be ICMP.
func icmpMatches(i *policy.ICMP) (out []headerMatch) {
	if i == nil {
		return nil
	}
	out = []headerMatch{{field: ruleset.HeaderICMPType, any: icmpSpan(i.Type)}}
	if i.Code != nil {
		out = append(out, headerMatch{field: ruleset.HeaderICMPCode, any: icmpSpan(i.Code)})
	}
	return out
}

// notICMPMatches returns the match that excludes an ICMP type, or one code of a type (S64). If
// neither is set, it excludes all ICMP.
func notICMPMatches(i *policy.ICMP) []headerMatch {
	switch {
	case i == nil:
		return nil
	case i.Type != nil && i.Code != nil:
		return []headerMatch{{field: ruleset.HeaderICMPType, notAll: []headerValue{
			{ruleset.HeaderICMPType, uint64(*i.Type)}, {ruleset.HeaderICMPCode, uint64(*i.Code)},
		}}}
	case i.Code != nil:
		return []headerMatch{{field: ruleset.HeaderICMPCode, not: icmpSpan(i.Code)}}
	}
	return []headerMatch{{field: ruleset.HeaderICMPType, not: icmpSpan(i.Type)}}
}

// icmpSpan returns the range of a type or code. For nil, it contains all values. For a negative
// number, it is out of range.
func icmpSpan(v *int) []span {
	if v == nil {
		return []span{{0, 255}}
	}
	return []span{{uint64(*v), uint64(*v)}}
}

// empty reports whether the match matches every packet.
func (h *headerMatch) empty() bool { return len(h.any)+len(h.not)+len(h.notAll) == 0 }

// checkHeader returns an error if a value is out of range.
func checkHeader(m *policy.HeaderMatch) error {
	matches, _ := headerMatches(m)
	for _, h := range matches {
		for _, s := range slices.Concat(h.any, h.not) {
			if s.first > s.last {
				return fmt.Errorf("%s %s", h.field, s)
			}
			if s.last > uint64(h.field.Max()) {
				return fmt.Errorf("%s %d", h.field, int64(s.last))
			}
		}
		for _, v := range h.notAll {
			if v.value > uint64(v.field.Max()) {
				return fmt.Errorf("%s %d", v.field, int64(v.value))
			}
		}
	}
	return nil
}

// familyHeaders returns the matches on header fields for packets of a family. If packets must have
// a field that only the other family has, it returns errNoMatch.
func familyHeaders(m *policy.HeaderMatch, f sets.Family) (out []headerMatch, err error) {
	matches, _ := headerMatches(m)
	for _, h := range matches {
		switch exists := h.field.Field(f == sets.IPv6) != 0; {
		case h.empty():
		case exists:
			out = append(out, h)
		case len(h.any) > 0:
			return nil, errNoMatch
		}
	}
	return out, nil
}

// protocol returns the protocol whose header has the field. It is zero if the field is in the IP
// header.
func (h headerMatch) protocol(f sets.Family) policy.Protocol {
	return policy.Protocol(h.field.Field(f == sets.IPv6).Load().Protocol)
}

// headerAlternatives returns the matches on the header of a protocol, as alternatives that do not
// overlap. If protocol is zero, it returns the matches on the IP header.
func headerAlternatives(headers []headerMatch, f sets.Family, protocol policy.Protocol) ([][]ruleset.Match, error) {
	out := [][]ruleset.Match{nil}
	for _, h := range headers {
		if h.protocol(f) != protocol {
			continue
		}
		more, err := h.alternatives(f)
		if err != nil {
			return nil, err
		}
		var all [][]ruleset.Match
		for _, head := range out {
			for _, tail := range more {
				all = append(all, slices.Concat(head, tail))
			}
		}
		out = all
	}
	return out, nil
}

// alternatives returns the matches on the field. They are comparisons, because some fields cannot
// be looked up: see ruleset.Load.
func (h headerMatch) alternatives(f sets.Family) ([][]ruleset.Match, error) {
	if len(h.notAll) > 0 {
		return [][]ruleset.Match{{h.notAllMatch(f)}}, nil
	}
	all := []span{{0, uint64(h.field.Max())}}
	unwanted := mergeSpans(h.not)
	if slices.Equal(unwanted, all) {
		return nil, errNoMatch
	}
	if len(h.any) == 0 { // all values but these need one rule
		return [][]ruleset.Match{h.comparisons(f, unwanted, true)}, nil
	}
	wanted := without(mergeSpans(h.any), unwanted)
	if len(wanted) == 0 {
		return nil, errNoMatch
	}
	if slices.Equal(wanted, all) {
		return [][]ruleset.Match{nil}, nil
	}
	var out [][]ruleset.Match
	for _, m := range h.comparisons(f, wanted, false) {
		out = append(out, []ruleset.Match{m})
	}
	return out, nil
}

// notAllMatch returns a match that excludes packets with all values of notAll.
func (h headerMatch) notAllMatch(f sets.Family) ruleset.Match {
	in := ruleset.In{Not: true, Elements: make([]ruleset.Element, 1)}
	for _, v := range h.notAll {
		in.Fields = append(in.Fields, v.field.Field(f == sets.IPv6))
		in.Elements[0].Key = append(in.Elements[0].Key, v.field.Value(uint16(v.value)))
	}
	return in
}

// comparisons returns a comparison with each range. If not is set, they are negated.
func (h headerMatch) comparisons(f sets.Family, list []span, not bool) (out []ruleset.Match) {
	for _, s := range list {
		m := ruleset.Compare{
			Field: h.field.Field(f == sets.IPv6), Not: not, Value: h.field.Value(uint16(s.first)),
		}
		if s.last > s.first {
			m.Last = h.field.Value(uint16(s.last))
		}
		out = append(out, m)
	}
	return out
}

// mergeSpans returns the fewest disjoint ranges with the same values, sorted.
func mergeSpans(list []span) []span {
	sorted := slices.SortedFunc(slices.Values(list), func(a, b span) int { return cmp.Compare(a.first, b.first) })
	out := sorted[:0]
	for _, s := range sorted {
		if i := len(out) - 1; i >= 0 && s.first <= out[i].last+1 {
			out[i].last = max(out[i].last, s.last)
			continue
		}
		out = append(out, s)
	}
	return out
}

// without returns the values of list that are not in others. The ranges of each argument must be
// merged.
func without(list, others []span) (out []span) {
	for _, s := range list {
		for _, o := range others {
			if o.last < s.first || o.first > s.last {
				continue
			}
			if o.first > s.first {
				out = append(out, span{s.first, o.first - 1})
			}
			if s.first = o.last + 1; s.first > s.last {
				break
			}
		}
		if s.first <= s.last {
			out = append(out, s)
		}
	}
	return out
}

// writeHeaderKey writes the part of WriteKey for header fields. Names of chains depend on this key,
// so a new field must be written only if it is set.
func writeHeaderKey(key *strings.Builder, m *policy.HeaderMatch) {
	for _, i := range [...]*policy.ICMP{m.ICMP, m.NotICMP} {
		key.WriteString(" icmp")
		if i == nil {
			continue
		}
		for _, v := range [...]*int{i.Type, i.Code} {
			if v != nil {
				fmt.Fprintf(key, " %d", *v)
			} else {
				key.WriteString(" *")
			}
		}
	}
	for _, h := range valueMatches(m) {
		if !h.empty() {
			fmt.Fprintf(key, " %s %v %v", h.field, h.any, h.not)
		}
		if len(h.notAll) > 0 {
			fmt.Fprintf(key, " %v", h.notAll)
		}
	}
}
