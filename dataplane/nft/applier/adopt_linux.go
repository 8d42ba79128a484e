// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// difference is what stands between the kernel's table and the desired one.
type difference struct {
	// rebuild is set if the table must be replaced: an object with one of our names is of another
	// kind.
	rebuild string
	// inverse makes the kernel's table out of the desired one, repair the other way round.
	inverse, repair ruleset.Delta
	// dormant is set if the table is switched off; flags are its other flags.
	dormant bool
	flags   uint32
	// What is there and not wanted at all.
	foreignChains []string
	// foreignBases are the base chains among them.
	foreignBases []string
	// hooks are those of the base chains in the kernel's table, by chain; not those of an unknown kind.
	hooks map[string]*ruleset.Hook
	// foreignLookups are the sets that these chains look into.
	foreignLookups map[string][]string
	foreignSets    []string
	// foreignMaps is set if some of these are maps: their verdicts may decide about packets.
	foreignMaps bool
	objects     []foundObject
	flowtables  []string
}

// none reports whether the tables are the same.
func (d *difference) none() bool {
	return d.rebuild == "" && !d.dormant && len(d.repair.Chains)+len(d.repair.Sets)+len(d.repair.Elements)+
		len(d.foreignChains)+len(d.foreignSets)+len(d.objects)+len(d.flowtables) == 0
}

// mustGo says that there is a table which cannot become the desired one.
func (d *difference) mustGo() bool { return d.rebuild != "" && d.rebuild != absent }

// foreignBasesOnly returns a difference that has only the foreign base chains. For nil it returns
// nil.
func (d *difference) foreignBasesOnly() *difference {
	if d == nil {
		return nil
	}
	return &difference{foreignChains: d.foreignBases}
}

// String names what differs, for the log.
func (d *difference) String() string {
	if d.rebuild != "" {
		return d.rebuild
	}
	var words []string
	if d.dormant {
		words = append(words, "flags of the table")
	}
	for _, c := range d.repair.Chains {
		words = append(words, "chain "+c.Name)
	}
	for _, s := range d.repair.Sets {
		words = append(words, "set "+s.Name)
	}
	for _, e := range d.repair.Elements {
		words = append(words, fmt.Sprintf(
			"elements of set %s (%d missing, %d too many)", e.Set, len(e.Add), len(e.Delete),
		))
	}
	for _, name := range slices.Concat(d.foreignChains, d.foreignSets, d.flowtables) {
		words = append(words, "foreign "+name)
	}
	for _, o := range d.objects {
		words = append(words, "foreign "+o.name)
	}
	return strings.Join(words, ", ")
}

// comparer compares the table that was read with the desired one.
type comparer struct {
	reader *reader
	enc    *encoder
	want   *ruleset.State
	have   *found
	diff   *difference
	attrs  nfnl.Attrs
	data   []byte
}

// compare returns the difference. It reads the elements of the sets meanwhile.
func (c *comparer) compare() (*difference, error) {
	c.diff = &difference{
		dormant: c.have.flags&unix.NFT_TABLE_F_DORMANT != 0, flags: c.have.flags &^ unix.NFT_TABLE_F_DORMANT,
		objects: c.have.objects, flowtables: c.have.flowtables, foreignLookups: map[string][]string{},
		hooks: map[string]*ruleset.Hook{},
	}
	if !c.have.exists {
		c.diff.rebuild = absent
		return c.diff, nil
	}
	sets := c.want.Sets()
	slices.SortFunc(sets, func(a, b *ruleset.Set) int { return cmp.Compare(a.Name, b.Name) })
	for _, set := range sets {
		if err := c.set(set.Name); err != nil {
			return nil, err
		}
	}
	for _, chain := range sortedChains(c.want) {
		if err := c.chain(chain); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.have.chains)) {
		if hook, ok := hookOf(c.have.chains[name].attrs); ok && hook != nil {
			c.diff.hooks[name] = hook
		}
		if c.want.Chain(name) == nil {
			c.diff.foreignChains = append(c.diff.foreignChains, name)
			c.diff.foreignLookups[name] = c.have.chains[name].lookups()
			if nfnl.FindAttr(c.have.chains[name].attrs, unix.NFTA_CHAIN_HOOK) != nil {
				c.diff.foreignBases = append(c.diff.foreignBases, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.have.sets)) {
		if c.want.Set(name) == nil && !c.have.sets[name].anonymous() {
			c.diff.foreignSets = append(c.diff.foreignSets, name)
			c.diff.foreignMaps = c.diff.foreignMaps || c.have.sets[name].isMap()
		}
	}
	return c.diff, nil
}

func (c *comparer) chain(want *ruleset.Chain) error {
	have := c.have.chains[want.Name]
	if have == nil {
		c.diff.inverse.DeleteChains = append(c.diff.inverse.DeleteChains, want.Name)
		c.diff.repair.Chains = append(c.diff.repair.Chains, want)
		return nil
	}
	hook, ok := hookOf(have.attrs)
	if !ok {
		c.diff.rebuild = "chain " + want.Name + " is of an unknown kind"
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
	c.diff.inverse.Chains = append(c.diff.inverse.Chains, &ruleset.Chain{Name: want.Name, Hook: hook, Rules: actual})
	c.diff.repair.Chains = append(c.diff.repair.Chains, want)
	return nil
}

// rules returns the kernel's rules of a chain that differs: ours as they are, and foreign ones as
// raw.
func (c *comparer) rules(want *ruleset.Chain, have *foundChain) ([]ruleset.Rule, error) {
	byData := map[string][]int{}
	for i := range want.Rules {
		data := string(c.userdata(want.Name, i, &want.Rules[i]))
		byData[data] = append(byData[data], i)
	}
	actual := make([]ruleset.Rule, 0, len(have.rules))
	for i := range have.rules {
		r := &have.rules[i]
		rule := ruleset.Rule{Statements: []ruleset.Statement{rawOf(r)}}
		if at := byData[string(r.userdata)]; len(at) > 0 { // Rules with the same userdata are the same.
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

// rawOf returns a foreign rule as it is.
func rawOf(r *foundRule) ruleset.Raw {
	raw := ruleset.Raw{Text: fmt.Sprintf("rule of another process with handle %d", r.handle)}
	for _, x := range nfnl.Attributes(r.exprs) {
		raw.Expressions = append(raw.Expressions, x)
	}
	if len(raw.Expressions) == 0 {
		raw.Expressions = [][]byte{nil}
	}
	return raw
}

// userdata returns what we would write into a rule's userdata, and leaves its expressions in c.enc.
func (c *comparer) userdata(chain string, index int, r *ruleset.Rule) []byte {
	c.enc.batch.Reset() // Anonymous sets go into it.
	c.enc.setID = 0
	hash := c.enc.ruleExprs(nfnl.Object{Kind: "rule", Name: chain, Index: index + 1}, r, c.want.Set)
	c.data = ruleUserdata(c.data[:0], r.Comment, hash)
	return c.data
}

// rule reports whether the kernel's rule is ours: by the hash of what we wrote, and by what it is
// made of, names of chains included.
func (c *comparer) rule(chain string, index int, want *ruleset.Rule, have *foundRule) (bool, error) {
	if !bytes.Equal(c.userdata(chain, index, want), have.userdata) {
		return false, nil
	}
	ours, _ := c.enc.exprs.Data()
	if !sameExprs(ours, have.exprs) {
		return false, nil
	}
	return c.targets(want, have)
}

// targets reads back anonymous verdict maps that lead to chains: nobody can change their elements,
// but the chains can be renamed.
func (c *comparer) targets(want *ruleset.Rule, have *foundRule) (bool, error) {
	for _, s := range want.Statements {
		m, ok := s.(ruleset.VMap)
		leads := func(e ruleset.Element) bool { return e.Verdict != nil && e.Verdict.Chain != "" }
		if !ok || m.Map != "" || !slices.ContainsFunc(m.Elements, leads) {
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
			verdict := nfnl.FindAttr(nfnl.FindAttr(elem, unix.NFTA_SET_ELEM_DATA), unix.NFTA_DATA_VERDICT)
			if chain := nfnl.FindAttr(verdict, unix.NFTA_VERDICT_CHAIN); chain != nil {
				want[nfnl.Text(chain)]--
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
		for _, x := range nfnl.Attributes(exprs) {
			if !nfnl.IsText(nfnl.FindAttr(x, unix.NFTA_EXPR_NAME), "lookup") {
				continue
			}
			data := nfnl.FindAttr(x, unix.NFTA_EXPR_DATA)
			if !yield(nfnl.Text(nfnl.FindAttr(data, unix.NFTA_LOOKUP_SET)), data) {
				return
			}
		}
	}
}

// anonymousMap returns the name of the first anonymous verdict map in a list of expressions, or "".
func anonymousMap(exprs []byte) string {
	for name, data := range lookupsOf(exprs) {
		if nfnl.FindAttr(data, unix.NFTA_LOOKUP_DREG) != nil && len(name) > 5 && name[:5] == "__map" {
			return name
		}
	}
	return ""
}

// lookups returns the names of the sets that a chain's rules look into.
func (c *foundChain) lookups() (sets []string) {
	for i := range c.rules {
		for name := range lookupsOf(c.rules[i].exprs) {
			sets = append(sets, name)
		}
	}
	return sets
}
