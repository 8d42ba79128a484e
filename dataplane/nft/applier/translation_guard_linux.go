// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// priorityDestination is the priority of destination NAT (NF_IP_PRI_NAT_DST).
const priorityDestination = -100

// translationGuards adds and deletes the guards of maps of destination NAT.
type translationGuards struct {
	tools
	reader *readback.Reader
	names  *nameGenerator
}

// add adds a guard that drops new connections whose translation the operations change, and waits
// for a grace period. It returns the operations that remove the guard. If the kernel refuses the
// guard, the change continues without it: that kernel has no NAT, or will refuse the operations as
// well.
//
// Errors: those of reading and writing the table.
func (g *translationGuards) add(
	ops []ruleset.Op, d *readback.Difference, view *ruleset.State,
) (removal []ruleset.Op, err error) {
	keys := make([][]ruleset.Element, len(g.cfg.Translations))
	for i, t := range g.cfg.Translations {
		if keys[i], err = g.changedKeys(t, ops, d, view); err != nil {
			return nil, err
		}
	}
	guard, removal := g.guard(keys, priorityDestination, func() string { return g.names.unused(view, d) })
	if added, err := g.addGuard(guard); !added || err != nil {
		return nil, err
	}
	return removal, nil
}

// addGuard carries out the operations that add a translation guard, and waits for a grace period.
// It reports false if there are no operations, or if the kernel refuses them.
func (g *translationGuards) addGuard(ops []ruleset.Op) (added bool, err error) {
	if len(ops) == 0 {
		return false, nil
	}
	g.writer.announce(ops)
	before := g.stats.Transactions
	if err := g.tx.cut(ops); isRefused(err) && g.stats.Transactions == before {
		g.cfg.Logger.Warn("nftables: no guard drops new connections while their translation changes",
			"table", g.cfg.Name, "err", err)
		return false, nil
	} else if err != nil {
		return false, err
	}
	// If the kernel refuses to wait, packets under way may use the old translation.
	_ = g.grace.synchronize()
	return true, nil
}

// guard returns the operations that add rules which drop new connections to keys of the
// Translations, and the operations that remove these rules. priority is the priority of the chains
// with the rules. name returns unused names.
func (g *translationGuards) guard(
	keys [][]ruleset.Element, priority int, name func() string,
) (guard, removal []ruleset.Op) {
	var rules []ruleset.Rule
	for i, t := range g.cfg.Translations {
		if len(keys[i]) == 0 {
			continue
		}
		set := &ruleset.Set{Name: name()}
		for _, f := range t.Fields {
			set.Key = append(set.Key, f.Type())
		}
		guard = append(guard, ruleset.Op{Kind: ruleset.AddSet, Set: set},
			ruleset.Op{Kind: ruleset.AddElements, Set: set, Elements: keys[i]})
		removal = append(removal, ruleset.Op{Kind: ruleset.DeleteSet, Set: set})
		rule := dropGuard()
		rule.Matches = append(slices.Clone(t.Matches), ruleset.Lookup{Fields: t.Fields, Set: set.Name})
		rules = append(rules, rule)
	}
	if len(rules) == 0 {
		return nil, nil
	}
	for _, point := range []ruleset.HookPoint{ruleset.Prerouting, ruleset.Output} { // the hooks of destination NAT
		hook := &ruleset.Hook{
			Type: ruleset.HookNAT, Point: point, Priority: priority, Policy: ruleset.Verdict{Kind: ruleset.Accept},
		}
		chain := &ruleset.Chain{Name: name(), Hook: hook, Rules: rules}
		guard = append(append(guard, ruleset.Op{Kind: ruleset.AddChain, Chain: chain}), insertRules(chain)...)
		removal = slices.Insert(removal, 0, ruleset.Op{Kind: ruleset.DeleteChain, Chain: chain})
	}
	return guard, removal
}

// guardRebuild adds a translation guard to the table that will be replaced, for all keys of its
// maps and of the target's maps. It returns the operations that add a guard to the new table, and
// those that remove it. Packets pass the guard of the old table first. If a packet finds that its
// rules are deleted, it then finds those in the new table.
//
// Errors: those of reading and writing the table.
func (g *translationGuards) guardRebuild(
	target *ruleset.State, d *readback.Difference,
) (guard, removal []ruleset.Op, err error) {
	keys := make([][]ruleset.Element, len(g.cfg.Translations))
	for i, t := range g.cfg.Translations {
		keys[i], err = g.foreignKeys(t)
		if err != nil && !errors.Is(err, errChanged) {
			return nil, nil, err
		}
		if target.Set(t.Map) == nil {
			continue
		}
		for _, el := range target.View(t.Map).Elements() {
			keys[i] = append(keys[i], ruleset.Element{Key: el.Key})
		}
		slices.SortFunc(keys[i], ruleset.CompareElements)
		keys[i] = slices.CompactFunc(keys[i], func(x, y ruleset.Element) bool {
			return ruleset.CompareElements(x, y) == 0
		})
	}
	name := func() string { return g.names.unused(target, d) }
	old, _ := g.guard(keys, priorityDestination-1, name)
	if added, err := g.addGuard(old); !added || err != nil {
		return nil, nil, err
	}
	guard, removal = g.guard(keys, priorityDestination, name)
	return guard, removal, nil
}

// changedKeys returns the keys that the operations add to the map of a Translation, remove from it
// or replace. If a foreign map has that name, it will be deleted, so the result has all its keys.
func (g *translationGuards) changedKeys(
	t ruleset.Translation, ops []ruleset.Op, d *readback.Difference, view *ruleset.State,
) ([]ruleset.Element, error) {
	keys := map[string]ruleset.Element{}
	add := func(elements []ruleset.Element) {
		for _, el := range elements {
			key := ruleset.Element{Key: el.Key}
			keys[string(new(ruleset.Set).ID(&key))] = key
		}
	}
	for i := range ops {
		op := &ops[i]
		if op.Set == nil || op.Set.Name != t.Map {
			continue
		}
		switch op.Kind {
		case ruleset.AddElements, ruleset.DeleteElements:
			add(op.Elements)
		case ruleset.DeleteSet:
			if view.Set(t.Map) != nil {
				add(view.View(t.Map).Elements())
			}
		}
	}
	if d != nil && slices.Contains(d.Foreign.Sets, t.Map) {
		foreign, err := g.foreignKeys(t)
		if err != nil {
			return nil, err
		}
		add(foreign)
	}
	return slices.SortedFunc(maps.Values(keys), ruleset.CompareElements), nil
}

// foreignKeys reads the keys of a map that is not desired. If the map has other fields than the
// Translation, it returns none.
func (g *translationGuards) foreignKeys(t ruleset.Translation) (keys []ruleset.Element, err error) {
	err = g.reader.Keys(t.Map, func() { keys = nil }, func(key []byte) {
		var el ruleset.Element
		for _, f := range t.Fields {
			size := f.Type().Size()
			padded := encode.Padded(size)
			if len(key) < padded {
				return
			}
			el.Key = append(el.Key, slices.Clone(key[:size]))
			key = key[padded:]
		}
		if len(key) == 0 {
			keys = append(keys, el)
		}
	})
	if errors.Is(err, fs.ErrNotExist) { // another process has removed the map
		return nil, errChanged
	}
	if err != nil {
		return nil, fmt.Errorf("applier: read map %s: %w", t.Map, err)
	}
	return keys, nil
}
