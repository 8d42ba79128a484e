// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// headerMatch is a match on one header field. The value must be in any, unless that is empty, and
// must not be in not. Packets without the field do not have the value. Values are numbers: the type
// of the field must not be one of bits.
type headerMatch struct {
	field    ruleset.HeaderField
	any, not []uint16
}

// headerMatches returns the matches on header fields, and the fields of m that they cover: a rule
// with any other field is refused.
func headerMatches(m *policy.HeaderMatch) ([]headerMatch, policy.HeaderMatch) {
	if m.EqualHeader(&policy.HeaderMatch{}) {
		return nil, policy.HeaderMatch{} // most rules
	}
	return []headerMatch{
		{ruleset.HeaderDSCP, numbers(m.DSCP), numbers(m.NotDSCP)},
	}, policy.HeaderMatch{DSCP: m.DSCP, NotDSCP: m.NotDSCP}
}

func numbers[T ~uint8 | ~uint16](list []T) (out []uint16) {
	for _, v := range list {
		out = append(out, uint16(v))
	}
	return out
}

// checkHeader returns a value that is out of range as an error.
func checkHeader(m *policy.HeaderMatch) error {
	matches, _ := headerMatches(m)
	for _, h := range matches {
		for _, v := range slices.Concat(h.any, h.not) {
			if v > h.field.Max() {
				return fmt.Errorf("%s %d", h.field, v)
			}
		}
	}
	return nil
}

// familyHeaders returns the matches on header fields for packets of a family. It returns errNoMatch
// if they must have a field that only the other family has.
func familyHeaders(m *policy.HeaderMatch, f sets.Family) (out []headerMatch, err error) {
	matches, _ := headerMatches(m)
	for _, h := range matches {
		switch exists := h.field.Field(f == sets.IPv6) != 0; {
		case len(h.any)+len(h.not) == 0:
		case exists:
			out = append(out, h)
		case len(h.any) > 0:
			return nil, errNoMatch
		}
	}
	return out, nil
}

// protocol returns the protocol whose header has the field; zero if it is the IP header.
func (h headerMatch) protocol(f sets.Family) policy.Protocol {
	return policy.Protocol(h.field.Field(f == sets.IPv6).Load().Protocol)
}

// headerAlternatives returns the matches on the header of a protocol, or if that is zero, on the IP
// header, as alternatives that do not overlap.
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

// alternatives returns the matches on the field. They are comparisons: some fields cannot be looked
// up, see ruleset.Load.
func (h headerMatch) alternatives(f sets.Family) ([][]ruleset.Match, error) {
	wanted := make([]bool, int(h.field.Max())+1)
	for i := range wanted {
		wanted[i] = len(h.any) == 0
	}
	for _, v := range h.any {
		wanted[v] = true
	}
	for _, v := range h.not {
		wanted[v] = false
	}
	switch {
	case !slices.Contains(wanted, true):
		return nil, errNoMatch
	case !slices.Contains(wanted, false):
		return [][]ruleset.Match{nil}, nil
	case len(h.any) == 0: // all but these: one rule
		return [][]ruleset.Match{h.ranges(f, wanted, false)}, nil
	}
	var out [][]ruleset.Match
	for _, m := range h.ranges(f, wanted, true) {
		out = append(out, []ruleset.Match{m})
	}
	return out, nil
}

// ranges returns a comparison for each range of wanted values, or, if want is false, a negated one
// for each range of unwanted values.
func (h headerMatch) ranges(f sets.Family, wanted []bool, want bool) (out []ruleset.Match) {
	for first := 0; first < len(wanted); first++ {
		if wanted[first] != want {
			continue
		}
		last := first
		for last+1 < len(wanted) && wanted[last+1] == want {
			last++
		}
		m := ruleset.Compare{Field: h.field.Field(f == sets.IPv6), Not: !want, Value: h.field.Value(uint16(first))}
		if last > first {
			m.Last = h.field.Value(uint16(last))
		}
		out = append(out, m)
		first = last
	}
	return out
}

// writeHeaderKey writes the part of WriteKey about header fields.
func writeHeaderKey(key *strings.Builder, m *policy.HeaderMatch) {
	matches, _ := headerMatches(m)
	for _, h := range matches {
		if len(h.any)+len(h.not) > 0 {
			fmt.Fprintf(key, " %s %v %v", h.field, h.any, h.not)
		}
	}
}
