// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// ruleStore are the rules of policy routing, wanted and known. There are few: all of them are
// looked at in every pass that has to look at any.
type ruleStore struct {
	wanted map[Rule]bool
	have   map[rtnl.Rule]bool
	stale  bool
	// lost are wanted rules that somebody took away.
	lost map[Rule]bool
}

func newRuleStore() *ruleStore {
	return &ruleStore{wanted: map[Rule]bool{}, have: map[rtnl.Rule]bool{}, lost: map[Rule]bool{}}
}

// begin starts a reading of everything.
func (s *ruleStore) begin() {
	clear(s.have)
	clear(s.lost)
	s.stale = true
}

func (s *ruleStore) set(r Rule) {
	r = r.canonical()
	s.stale = s.stale || !s.wanted[r]
	s.wanted[r] = true
}

func (s *ruleStore) unset(r Rule) {
	r = r.canonical()
	s.stale = s.stale || s.wanted[r]
	delete(s.wanted, r)
}

// hear takes in what somebody else did to a rule of ours.
func (s *ruleStore) hear(k rtnl.Rule, gone bool) {
	s.stale = true
	if !gone {
		s.have[k] = true
		return
	}
	delete(s.have, k)
	if r, ok := ruleOf(k); ok && s.wanted[r] {
		s.lost[r] = true
	}
}

// ruleChange is one change to a rule in the kernel.
type ruleChange struct {
	rule rtnl.Rule
	gone bool
}

func (p *pass) planRules() (deletions, additions []ruleChange) {
	s := p.k.rules
	if !s.stale {
		return nil, nil
	}
	s.stale = false
	for k := range s.have {
		if r, ok := ruleOf(k); !ok || !s.wanted[r] {
			deletions = append(deletions, ruleChange{k, true})
		}
	}
	for r := range s.wanted {
		if err := r.validate(); err != nil {
			p.fail("check rule", r, err)
			s.stale = true
			continue
		}
		if k := r.kernel(p.k.cfg.Protocol); !s.have[k] {
			additions = append(additions, ruleChange{k, false})
		}
	}
	order := func(a, b ruleChange) int {
		return cmp.Or(cmp.Compare(a.rule.Family, b.rule.Family), cmp.Compare(a.rule.Priority, b.rule.Priority),
			strings.Compare(a.text(), b.text()))
	}
	slices.SortFunc(deletions, order)
	slices.SortFunc(additions, order)
	return deletions, additions
}

func (r Rule) validate() error {
	wrong := ""
	switch {
	case r.Family != 4 && r.Family != 6:
		wrong = "family is neither 4 nor 6"
	case r.Table == 0:
		wrong = "no table"
	case !r.From.IsValid() && r.From != netip.Prefix{}, !r.To.IsValid() && r.To != netip.Prefix{}:
		wrong = "no prefix"
	case r.From.IsValid() && r.From.Addr().Is4() != (r.Family == 4),
		r.To.IsValid() && r.To.Addr().Is4() != (r.Family == 4):
		wrong = "prefix is of the other family"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrObject, wrong)
}

// text returns the change as a command line of ip.
func (c *ruleChange) text() string {
	verb, family := "add", ""
	if c.gone {
		verb = "del"
	}
	if c.rule.Family == 6 {
		family = "-6 "
	}
	r, _ := ruleOf(c.rule)
	return fmt.Sprintf("ip %srule %s %s protocol %d", family, verb, r, c.rule.Protocol)
}
