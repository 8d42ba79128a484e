// SPDX-License-Identifier: Apache-2.0

package readback

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// A listing that is truncated or in an unknown form must compare as different, without a panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{16, 0, 1, 0, 8, 0, 1, 0, 10, 0, 0, 1, 0, 0, 0, 0})
	f.Add([]byte{12, 0, 1, 0, 8, 0, 1, 0, 10, 0, 0, 1, 5, 0, 6, 0, 0, 0, 0, 0})
	f.Add([]byte{28, 0, 1, 0, 20, 0, 1, 0, 'e', 't', 'h', '0', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{24, 0, 1, 0, 20, 0, 1, 0, 'e', 't', 'h', '0', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, set := range []*ruleset.Set{
			{Name: "a", Key: []ruleset.Type{ruleset.TypeIPv4}, Verdicts: true},
			{Name: "b", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true},
			{Name: "c", Key: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService}, Interval: true},
			{Name: "d", Key: []ruleset.Type{ruleset.TypeIfname}, Data: []ruleset.Type{ruleset.TypeMark}},
		} {
			state := ruleset.NewState(ruleset.FamilyINet, "t")
			change, err := state.Prepare(&ruleset.Delta{Sets: []*ruleset.Set{set}})
			require.NoError(t, err)
			state.Commit(change)
			s := &setComparer{set: set, view: state.View(set.Name), seen: map[string]bool{}}
			known := s.element(data) == nil
			if known && s.end() == nil {
				inverse, repair := s.deltas(set.Name)
				require.Empty(t, repair.Add)
				require.Len(t, repair.Delete, len(inverse.Add))
			}
		}
		_ = ruleOf(data)
		_ = sameExprs(data, data[len(data)/2:])
		_ = sameSet(data, data[len(data)/2:])
		_, _ = hookOf(data)
		_ = anonymousMap(data)
		_ = rawOf(&rule{exprs: data})
	})
}
