// SPDX-License-Identifier: Apache-2.0

package readback

import (
	"bytes"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// deltas returns the changes from the desired elements to the kernel's (inverse), and the reverse
// (repair).
func (s *setComparer) deltas(name string) (inverse, repair ruleset.ElementDelta) {
	inverse.Set, repair.Set = name, name
	extra := make(map[string]*ruleset.Packed, len(s.extra))
	for i := range s.extra {
		extra[string(s.extra[i].ID)] = &s.extra[i]
	}
	wanted := map[string]bool{}
	for _, el := range s.view.Elements() {
		id := string(s.set.ID(&el))
		wanted[id] = true
		switch p := extra[id]; {
		case p != nil: // with another verdict, data or comment
			inverse.Add = append(inverse.Add, s.placeholder(p, el.Verdict))
			repair.Add = append(repair.Add, el)
		case !s.seen[id]:
			inverse.Delete = append(inverse.Delete, el)
			repair.Add = append(repair.Add, el)
		}
	}
	for i := range s.extra {
		if p := &s.extra[i]; !wanted[string(p.ID)] {
			el := s.placeholder(p, nil)
			inverse.Add = append(inverse.Add, el)
			repair.Delete = append(repair.Delete, el)
		}
	}
	return inverse, repair
}

// placeholder returns an element that stands for a kernel element which differs from the desired
// one. It has the same key, and a verdict that differs from the desired one. It does not have the
// kernel's own verdict, because that may lead to a foreign chain.
func (s *setComparer) placeholder(p *ruleset.Packed, wanted *ruleset.Verdict) ruleset.Element {
	values := func(types []ruleset.Type, packed []byte) (all []ruleset.Value, rest []byte) {
		for _, t := range types {
			all = append(all, ruleset.Value(bytes.Clone(packed[:t.Size()])))
			packed = packed[t.Size():]
		}
		return all, packed
	}
	el := ruleset.Element{Comment: "of another process"}
	rest := p.ID
	el.Key, rest = values(s.set.Key, rest)
	if s.set.Interval {
		ends, _ := values(s.set.Key, rest)
		if len(s.set.Key) == 1 {
			el.Last = ends[0]
		} else {
			el.Ends = ends
		}
	}
	if len(s.set.Data) > 0 {
		el.Data, _ = values(s.set.Data, p.Data)
	}
	if s.set.Verdicts {
		el.Verdict = &ruleset.Verdict{Kind: ruleset.Drop}
		if wanted != nil && wanted.Kind == ruleset.Drop {
			el.Verdict.Kind = ruleset.Return
		}
	}
	return el
}
