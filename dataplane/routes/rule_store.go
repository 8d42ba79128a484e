// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// ruleKey is a rule of policy routing as the kernel lists it. All fields are its identity.
type ruleKey rtnl.Rule

// ruleStore has all rules. A rule has no value besides its identity.
type ruleStore = store[ruleKey, struct{}]

// ruleChange is one change to a rule.
type ruleChange = kernelChange[ruleKey, struct{}]

func (k ruleKey) compare(o ruleKey) int {
	return cmp.Or(cmp.Compare(k.Family, o.Family), cmp.Compare(k.Priority, o.Priority),
		strings.Compare(k.rule().String(), o.rule().String()))
}

// rule returns the Rule with the same fields. Conditions for which a Rule has no field are lost.
func (k ruleKey) rule() Rule {
	return Rule{
		Family: k.Family, Priority: k.Priority, From: k.From, To: k.To, UDPSourcePort: k.UDPSourcePort,
		Local: k.Local, Table: k.Table, Goto: k.Goto,
	}
}

func (k ruleKey) object(struct{}) Object           { return k.rule() }
func (k ruleKey) validate(struct{}) error          { return k.rule().validate() }
func (k ruleKey) device() (string, bool)           { return "", false }
func (k ruleKey) missing(*pass, int) (bool, error) { return true, nil }

func (k ruleKey) encode(c *ruleChange, b *rtnl.Batch, _ uint8) {
	r := rtnl.Rule(k)
	if c.remove {
		b.DeleteRule(&r)
	} else {
		b.AddRule(&r)
	}
}

// refused implements objectKind.
func (k ruleKey) refused(_ *pass, _ *ruleChange, err error) error {
	if errors.Is(err, rtnl.ErrExist) {
		return fmt.Errorf("%w: a rule: %w", ErrForeign, err)
	}
	return err
}

// text implements objectKind.
func (k ruleKey) text(_ *pass, c *ruleChange) string {
	verb, family := "add", ""
	if c.remove {
		verb = "del"
	}
	if k.Family == 6 {
		family = "-6 "
	}
	return fmt.Sprintf("ip %srule %s %s protocol %d", family, verb, k.rule(), k.Protocol)
}

func (r Rule) validate() error {
	wrong := ""
	switch {
	case r.Family != 4 && r.Family != 6:
		wrong = "family is neither 4 nor 6"
	case r.Table != 0 && r.Goto != 0:
		wrong = "both Table and Goto are set"
	case r.Goto != 0 && r.Goto <= r.Priority:
		wrong = "Goto is not larger than Priority"
	case !r.From.IsValid() && r.From != netip.Prefix{}, !r.To.IsValid() && r.To != netip.Prefix{}:
		wrong = "prefix is invalid"
	case r.From.IsValid() && r.From.Addr().Is4() != (r.Family == 4),
		r.To.IsValid() && r.To.Addr().Is4() != (r.Family == 4):
		wrong = "prefix is of the other family"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrObject, wrong)
}
