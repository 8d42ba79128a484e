// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Table may be called beside all other methods. It returns the state before or after a change,
// never a part of one.
func TestTableBesideChanges(t *testing.T) {
	a := open(t, nstest.New(t))
	require.Nil(t, a.Table())
	set := &ruleset.Set{Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}}
	require.NoError(t, a.Apply(bg, &ruleset.Table{Name: tableName, Sets: []*ruleset.Set{set}}))
	const few, many = 10, 1000
	content := addresses(many)
	done := make(chan struct{})
	var readers sync.WaitGroup
	defer readers.Wait()
	defer close(done)
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				table := a.Table()
				if table == nil {
					continue // between Teardown and Apply
				}
				if n := len(table.Sets[0].Elements); n != 0 && n != few && n != many {
					t.Errorf("a table with %d elements", n)
					return
				}
			}
		})
	}
	update := func(d ruleset.ElementDelta) {
		d.Set = "s"
		require.NoError(t, a.Update(bg, &ruleset.Delta{Elements: []ruleset.ElementDelta{d}}))
	}
	for range 20 {
		update(ruleset.ElementDelta{Add: content[:few]})
		update(ruleset.ElementDelta{Add: content[few:]})
		require.NoError(t, a.Verify(bg))
		require.Len(t, a.Table().Sets[0].Elements, many)
		require.NoError(t, a.Teardown(bg))
		require.NoError(t, a.Apply(bg, &ruleset.Table{Name: tableName, Sets: []*ruleset.Set{set}}))
	}
}
