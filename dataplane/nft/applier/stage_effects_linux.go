// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// stageEffects finds changes of elements that have no effect at a stage. At a stage, rules use the
// data of a map only as keys of other maps (see ruleset.Stage). So the change of an element has no
// effect if neither its old nor its new data is a key of another map. For example, an address gets
// another class, and untracked policy distinguishes neither class.
type stageEffects struct {
	*stageGuard
	after *stageReach
	// changed has the elements of sets at the stage that the operations add or delete, including
	// Unseen ones. Its keys are the name of the set and the id of the element.
	changed map[string]map[string]bool
	// maps has, for a map, the sets at the stage whose key type is the map's data type. ranges has,
	// for a map, the interval maps at the stage with the same key and data types.
	maps   map[string][]*ruleset.Set
	ranges map[string][]*ruleset.Set
}

func (g *stageGuard) stageEffects(ops []ruleset.Op, after *stageReach) *stageEffects {
	f := &stageEffects{
		stageGuard: g, after: after, changed: map[string]map[string]bool{},
		maps: map[string][]*ruleset.Set{}, ranges: map[string][]*ruleset.Set{},
	}
	for i := range ops {
		op := &ops[i]
		if op.Set == nil || !after.sets[op.Set.Name] {
			continue
		}
		name := op.Set.Name
		if f.changed[name] == nil {
			f.changed[name] = map[string]bool{}
		}
		for k := range op.Elements {
			f.changed[name][string(op.Set.ID(&op.Elements[k]))] = true
		}
	}
	return f
}

// mayLackEffect reports whether changes of a set's elements may have no effect: it is a map with
// data, and its type does not change.
func (f *stageEffects) mayLackEffect(s *ruleset.Set) bool {
	old := f.view.Set(s.Name)
	return len(s.Data) > 0 && f.after.sets[s.Name] && old != nil && slices.Equal(old.Key, s.Key) &&
		slices.Equal(old.Data, s.Data) && old.Interval == s.Interval
}

// hasEffect reports whether an operation on a set at the stage may change a decision of the stage.
func (f *stageEffects) hasEffect(op *ruleset.Op) bool {
	if len(op.Elements) == 0 || !f.mayLackEffect(op.Set) {
		return true
	}
	for i := range op.Elements {
		e := &op.Elements[i]
		old, replaces := f.view.View(op.Set.Name).Get(op.Set.ID(e))
		if replaces && f.isKey(op.Set, old.Data) || op.Kind == ruleset.AddElements && f.isKey(op.Set, e.Data) {
			return true
		}
		if !op.Set.Interval && f.isWithin(op.Set, e.Key) {
			return true
		}
	}
	return false
}

// isKey reports whether the data of a map is a key of a set at the stage, before or after the
// change.
func (f *stageEffects) isKey(of *ruleset.Set, data []ruleset.Value) bool {
	maps, known := f.maps[of.Name]
	if !known {
		for name := range f.after.sets {
			if s := f.head(name); s != nil && name != of.Name && slices.Equal(s.Key, of.Data) {
				maps = append(maps, s)
			}
		}
		f.maps[of.Name] = maps
	}
	return slices.ContainsFunc(maps, func(s *ruleset.Set) bool {
		id := s.ID(&ruleset.Element{Key: data})
		return s.Interval || f.changed[s.Name][string(id)] ||
			f.view.Set(s.Name) != nil && f.view.View(s.Name).Contains(id)
	})
}

// isWithin reports whether an interval map at the stage has an element that contains a key of map s
// and has an effect. The element has an effect if its data is a key. Packets use this element while
// s lacks the key. A change of this element is an operation of its own.
func (f *stageEffects) isWithin(s *ruleset.Set, key []ruleset.Value) bool {
	ranges, known := f.ranges[s.Name]
	if !known {
		for name := range f.after.sets {
			r := f.view.Set(name)
			if r != nil && r.Interval && slices.Equal(r.Key, s.Key) && slices.Equal(r.Data, s.Data) {
				ranges = append(ranges, r)
			}
		}
		f.ranges[s.Name] = ranges
	}
	return slices.ContainsFunc(ranges, func(r *ruleset.Set) bool {
		if len(key) != 1 { // Around does not support concatenations
			return true
		}
		e, ok := f.view.View(r.Name).Around(key[0])
		return ok && f.isKey(r, e.Data)
	})
}
