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

// headerMatch is a match on one field of the IP header. The value must be in any, unless that is
// empty, and must not be in not.
type headerMatch struct {
	field    ruleset.HeaderField
	any, not []uint16
}

// headerMatches returns the matches on the IP header, and the fields of m that they cover: a rule
// with any other field is refused.
func headerMatches(m *policy.HeaderMatch) ([ruleset.HeaderFields]headerMatch, policy.HeaderMatch) {
	return [ruleset.HeaderFields]headerMatch{
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

// headerAlternatives returns the matches on the IP header, as alternatives that do not overlap.
func headerAlternatives(m *policy.HeaderMatch, f sets.Family) ([][]ruleset.Match, error) {
	out := [][]ruleset.Match{nil}
	matches, _ := headerMatches(m)
	for _, h := range matches {
		if len(h.any)+len(h.not) == 0 {
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

// writeHeaderKey writes the part of WriteKey about the IP header.
func writeHeaderKey(key *strings.Builder, m *policy.HeaderMatch) {
	matches, _ := headerMatches(m)
	for _, h := range matches {
		if len(h.any)+len(h.not) > 0 {
			fmt.Fprintf(key, " %s %v %v", h.field, h.any, h.not)
		}
	}
}
