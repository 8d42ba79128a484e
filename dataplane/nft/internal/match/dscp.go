// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math/bits"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// dscpSet is a set of code points, as bits.
type dscpSet uint64

const everyDSCP = ^dscpSet(0)

func dscpSetOf(list []policy.DSCP) (s dscpSet) {
	for _, d := range list {
		s |= 1 << d
	}
	return s
}

// matches returns a match for each range of code points, negated if not is set.
func (s dscpSet) matches(f sets.Family, not bool) (out []ruleset.Match) {
	field := ruleset.IPDSCP
	if f == sets.IPv6 {
		field = ruleset.IP6DSCP
	}
	for rest := uint64(s); rest != 0; {
		first := bits.TrailingZeros64(rest)
		last := first + bits.TrailingZeros64(^(rest >> first)) - 1
		m := ruleset.Compare{Field: field, Not: not, Value: ruleset.Byte(uint8(first))}
		if last > first {
			m.Last = ruleset.Byte(uint8(last))
		}
		out = append(out, m)
		rest &= ^uint64(0) << last << 1
	}
	return out
}

// dscpMatches returns the matches on the packet's DSCP, as alternatives that do not overlap (S176).
// They are comparisons: lookups find nothing for IPv6, see ruleset.Load. There are at most 32
// ranges, and usually one or two.
func dscpMatches(rule *dataplane.Rule, f sets.Family) ([][]ruleset.Match, error) {
	wanted := everyDSCP
	if len(rule.DSCP) > 0 {
		wanted = dscpSetOf(rule.DSCP)
	}
	wanted &^= dscpSetOf(rule.NotDSCP)
	switch {
	case wanted == 0:
		return nil, errNoMatch
	case len(rule.DSCP) == 0: // all but these: one rule
		return [][]ruleset.Match{(everyDSCP &^ wanted).matches(f, true)}, nil
	case wanted == everyDSCP:
		return [][]ruleset.Match{nil}, nil
	}
	var out [][]ruleset.Match
	for _, m := range wanted.matches(f, false) {
		out = append(out, []ruleset.Match{m})
	}
	return out, nil
}
