// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Early elements are added before all other changes, and Late ones are deleted after them. Elements
// that replace another or are replaced are an exception: packets look these up at any time.
func TestUnseenElements(t *testing.T) {
	one := func(key, data uint32) ruleset.Element {
		return ruleset.Element{Key: []ruleset.Value{ruleset.Uint32(key)}, Data: []ruleset.Value{ruleset.Uint32(data)}}
	}
	mark := []ruleset.Type{ruleset.TypeMark}
	s, err := ruleset.StateOf(&ruleset.Table{Name: "t", Sets: []*ruleset.Set{
		{Name: "a", Key: mark, Data: mark, Elements: []ruleset.Element{one(1, 1), one(2, 1), one(3, 1)}},
		{Name: "b", Key: mark, Data: mark, Elements: []ruleset.Element{one(1, 1)}},
	}})
	require.NoError(t, err)
	c, err := s.Prepare(&ruleset.Delta{Elements: []ruleset.ElementDelta{
		{Set: "a", Late: []ruleset.Element{one(1, 1), one(2, 1)}, Add: []ruleset.Element{one(2, 2)}},
		{Set: "b", Early: []ruleset.Element{one(1, 2), one(5, 1)}, Add: []ruleset.Element{one(6, 1)}},
	}})
	require.NoError(t, err)
	type step struct {
		kind   ruleset.OpKind
		set    string
		unseen bool
		keys   []uint32
	}
	var steps []step
	for _, op := range c.Ops {
		got := step{op.Kind, op.Set.Name, op.Unseen, nil}
		for _, e := range op.Elements {
			for k := range uint32(10) {
				if string(ruleset.Uint32(k)) == string(e.Key[0]) {
					got.keys = append(got.keys, k)
				}
			}
		}
		steps = append(steps, got)
	}
	require.Equal(t, []step{
		{ruleset.AddElements, "b", true, []uint32{5}},
		{ruleset.DeleteElements, "a", false, []uint32{2}},
		{ruleset.AddElements, "a", false, []uint32{2}},
		{ruleset.DeleteElements, "b", false, []uint32{1}},
		{ruleset.AddElements, "b", false, []uint32{6, 1}},
		{ruleset.DeleteElements, "a", true, []uint32{1}},
	}, steps)
	s.Commit(c)
	require.Equal(t, []ruleset.Element{one(2, 2), one(3, 1)}, s.View("a").Elements())
	require.Equal(t, []ruleset.Element{one(1, 2), one(5, 1), one(6, 1)}, s.View("b").Elements())
}
