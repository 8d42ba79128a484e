// SPDX-License-Identifier: Apache-2.0

package readback

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// comparer compares the kernel's table, as it was read, with the desired one.
type comparer struct {
	reader *Reader
	enc    *encode.Encoder
	want   *ruleset.State
	have   *table
	diff   *Difference
	attrs  netlink.Attrs
}

// compare returns the difference. Meanwhile it reads the elements of the sets.
func (c *comparer) compare() (*Difference, error) {
	c.diff = &Difference{
		Dormant: c.have.Flags&unix.NFT_TABLE_F_DORMANT != 0, Flags: c.have.Flags &^ unix.NFT_TABLE_F_DORMANT,
		Hooks: map[string]*ruleset.Hook{},
		Foreign: Foreign{
			Lookups: map[string][]string{}, Objects: c.have.objects, Flowtables: c.have.flowtables,
		},
	}
	if !c.have.Exists {
		c.diff.RebuildReason = Absent
		return c.diff, nil
	}
	sets := c.want.Sets()
	slices.SortFunc(sets, func(a, b *ruleset.Set) int { return cmp.Compare(a.Name, b.Name) })
	for _, set := range sets {
		if err := c.set(set.Name); err != nil {
			return nil, err
		}
	}
	chains := c.want.Chains()
	slices.SortFunc(chains, func(a, b *ruleset.Chain) int { return cmp.Compare(a.Name, b.Name) })
	for _, chain := range chains {
		if err := c.chain(chain); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.have.chains)) {
		if hook, ok := hookOf(c.have.chains[name].attrs); ok && hook != nil {
			c.diff.Hooks[name] = hook
		}
		if c.want.Chain(name) == nil {
			c.diff.Foreign.Chains = append(c.diff.Foreign.Chains, name)
			c.diff.Foreign.Lookups[name] = c.have.chains[name].lookups()
			if netlink.FindAttr(c.have.chains[name].attrs, unix.NFTA_CHAIN_HOOK) != nil {
				c.diff.Foreign.Bases = append(c.diff.Foreign.Bases, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.have.sets)) {
		if c.want.Set(name) == nil && !c.have.sets[name].anonymous() {
			c.diff.Foreign.Sets = append(c.diff.Foreign.Sets, name)
			c.diff.Foreign.Maps = c.diff.Foreign.Maps || c.have.sets[name].isMap()
		}
	}
	return c.diff, nil
}

func (c *comparer) chain(want *ruleset.Chain) error {
	have := c.have.chains[want.Name]
	if have == nil {
		c.diff.Inverse.DeleteChains = append(c.diff.Inverse.DeleteChains, want.Name)
		c.diff.Repair.Chains = append(c.diff.Repair.Chains, want)
		return nil
	}
	hook, ok := hookOf(have.attrs)
	if !ok {
		c.diff.RebuildReason = "chain " + want.Name + " is of an unknown kind"
		return nil
	}
	same := len(want.Rules) == len(have.rules)
	for i := 0; same && i < len(want.Rules); i++ {
		var err error
		if same, err = c.rule(want.Name, i, &want.Rules[i], &have.rules[i]); err != nil {
			return err
		}
	}
	actual := want.Rules
	if !same {
		var err error
		if actual, err = c.rules(want, have); err != nil {
			return err
		}
	} else if hook.Equal(want.Hook) {
		return nil
	}
	c.diff.Inverse.Chains = append(c.diff.Inverse.Chains, &ruleset.Chain{Name: want.Name, Hook: hook, Rules: actual})
	c.diff.Repair.Chains = append(c.diff.Repair.Chains, want)
	return nil
}

// hookOf returns the hook of a chain as the kernel lists it, or nil if it is no base chain. If the
// hook has an attribute that we never set, it returns false.
func hookOf(chain []byte) (*ruleset.Hook, bool) {
	const baseChain = 1
	if netlink.Number32(netlink.FindAttr(chain, encode.AttrChainFlags))&^baseChain != 0 {
		return nil, false
	}
	nest := netlink.FindAttr(chain, unix.NFTA_CHAIN_HOOK)
	if nest == nil {
		return nil, true
	}
	h := &ruleset.Hook{
		Priority: int(int32(netlink.Number32(netlink.FindAttr(nest, unix.NFTA_HOOK_PRIORITY)))),
		Policy: ruleset.Verdict{
			Kind: verdictOf(int32(netlink.Number32(netlink.FindAttr(chain, unix.NFTA_CHAIN_POLICY)))),
		},
	}
	name := netlink.FindAttr(chain, unix.NFTA_CHAIN_TYPE)
	for h.Type = ruleset.HookFilter; !netlink.IsText(name, h.Type.String()); h.Type++ {
		if h.Type == ruleset.HookNAT {
			return nil, false
		}
	}
	number := netlink.Number32(netlink.FindAttr(nest, unix.NFTA_HOOK_HOOKNUM))
	if number > uint32(ruleset.Postrouting) {
		return nil, false
	}
	h.Point = ruleset.HookPoint(number)
	return h, true
}

// rules returns the kernel's rules of a chain that differs from the desired one. Our rules are in
// their normal form, foreign ones are Raw.
func (c *comparer) rules(want *ruleset.Chain, have *chain) ([]ruleset.Rule, error) {
	byData := map[string][]int{}
	for i := range want.Rules {
		_, data := c.enc.Rule(want.Name, i, &want.Rules[i])
		byData[string(data)] = append(byData[string(data)], i)
	}
	actual := make([]ruleset.Rule, 0, len(have.rules))
	for i := range have.rules {
		r := &have.rules[i]
		rule := ruleset.Rule{Statements: []ruleset.Statement{rawOf(r)}}
		if at := byData[string(r.userdata)]; len(at) > 0 { // rules with the same userdata are the same
			same, err := c.rule(want.Name, at[0], &want.Rules[at[0]], r)
			if err != nil {
				return nil, err
			}
			if same {
				rule = want.Rules[at[0]]
			}
		}
		actual = append(actual, rule)
	}
	return actual, nil
}

// rawOf returns a foreign rule as a Raw.
func rawOf(r *rule) ruleset.Raw {
	raw := ruleset.Raw{Text: fmt.Sprintf("rule of another process with handle %d", r.handle)}
	for _, x := range netlink.Attributes(r.exprs) {
		raw.Expressions = append(raw.Expressions, x)
	}
	if len(raw.Expressions) == 0 {
		raw.Expressions = [][]byte{nil}
	}
	return raw
}

// rule reports whether the kernel's rule is ours. It compares the hash of what we wrote, and the
// expressions of the rule with the names of chains.
func (c *comparer) rule(chain string, index int, want *ruleset.Rule, have *rule) (bool, error) {
	ours, userdata := c.enc.Rule(chain, index, want)
	if !bytes.Equal(userdata, have.userdata) || !sameExprs(ours, have.exprs) {
		return false, nil
	}
	return c.targets(want, have)
}

// targets compares anonymous verdict maps that lead to chains. The elements of such a map cannot be
// changed, but the chains can be renamed.
func (c *comparer) targets(want *ruleset.Rule, have *rule) (bool, error) {
	for _, s := range want.Statements {
		m, ok := s.(ruleset.VMap)
		hasChain := func(e ruleset.Element) bool { return e.Verdict != nil && e.Verdict.Chain != "" }
		if !ok || m.Map != "" || !slices.ContainsFunc(m.Elements, hasChain) {
			continue
		}
		want := map[string]int{}
		for i := range m.Elements {
			if v := m.Elements[i].Verdict; v != nil && v.Chain != "" {
				want[v.Chain]++
			}
		}
		name := anonymousMap(have.exprs)
		begin := func() {}
		err := c.reader.elements(name, begin, func(elem []byte) error {
			verdict := netlink.FindAttr(netlink.FindAttr(elem, unix.NFTA_SET_ELEM_DATA), unix.NFTA_DATA_VERDICT)
			if chain := netlink.FindAttr(verdict, unix.NFTA_VERDICT_CHAIN); chain != nil {
				want[netlink.Text(chain)]--
			}
			return nil
		})
		if err != nil {
			return false, err
		}
		for _, n := range want {
			if n != 0 {
				return false, nil
			}
		}
	}
	return true, nil
}

// lookupsOf yields the set of each lookup in a list of expressions, and the lookup's attributes.
func lookupsOf(exprs []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, x := range netlink.Attributes(exprs) {
			if !netlink.IsText(netlink.FindAttr(x, unix.NFTA_EXPR_NAME), "lookup") {
				continue
			}
			data := netlink.FindAttr(x, unix.NFTA_EXPR_DATA)
			if !yield(netlink.Text(netlink.FindAttr(data, unix.NFTA_LOOKUP_SET)), data) {
				return
			}
		}
	}
}

// anonymousMap returns the name of the first anonymous verdict map in a list of expressions, or "".
func anonymousMap(exprs []byte) string {
	for name, data := range lookupsOf(exprs) {
		if netlink.FindAttr(data, unix.NFTA_LOOKUP_DREG) != nil && len(name) > 5 && name[:5] == "__map" {
			return name
		}
	}
	return ""
}

// lookups returns the names of the sets that a chain's rules look up.
func (c *chain) lookups() (sets []string) {
	for i := range c.rules {
		for name := range lookupsOf(c.rules[i].exprs) {
			sets = append(sets, name)
		}
	}
	return sets
}
