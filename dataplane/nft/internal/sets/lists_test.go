// SPDX-License-Identifier: Apache-2.0

package sets_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// A verdict map of ranges has a name that depends on its ranges and verdicts, and exists while a
// chain looks it up. A map of single values stays in its rule.
func TestVerdictMapsOfRanges(t *testing.T) {
	chains := sets.NewChains()
	set := func(name string, last uint16, v ruleset.Verdict) {
		e := sets.Element(&v, ruleset.Port(80))
		if last != 80 {
			e.Last = ruleset.Port(last)
		}
		vmap := ruleset.VMap{Fields: []ruleset.Field{ruleset.Dport}, Elements: []ruleset.Element{e}}
		chains.Set(&ruleset.Chain{Name: name, Rules: []ruleset.Rule{build.Always(vmap)}})
	}
	flush := func() (added []*ruleset.Set, deleted []string) {
		d := &ruleset.Delta{}
		chains.Flush(d)
		return d.Sets, d.DeleteSets
	}
	set("a", 90, build.Drop())
	set("b", 90, build.Drop())
	set("c", 90, build.Accept())
	set("d", 80, build.Accept())
	added, deleted := flush()
	require.Len(t, added, 2)
	require.Empty(t, deleted)
	for _, s := range added {
		require.True(t, s.Interval && s.Verdicts)
		require.Len(t, s.Elements, 1)
	}
	require.NotEqual(t, added[0].Elements[0].Verdict, added[1].Elements[0].Verdict)
	chains.Drop("a")
	set("c", 80, build.Accept())
	added, deleted = flush()
	require.Empty(t, added)
	require.Len(t, deleted, 1)
	set("b", 91, build.Drop())
	added, deleted = flush()
	require.Len(t, added, 1)
	require.Len(t, deleted, 1)
}
