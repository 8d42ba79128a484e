// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/policy"
)

// TestRejected: what is invalid is absent and reported, with the object and the field (S101).
func TestRejected(t *testing.T) {
	rejected := map[policy.Key]error{}
	graph, err := calcgraph.New(calcgraph.Config{
		Node:  node,
		Hooks: calcgraph.Hooks{Rejected: func(k policy.Key, err error) { rejected[k] = err }},
	})
	require.NoError(t, err)
	graph.InSync()
	graph.Update(endpoint("x", "10.0.0.1"))
	require.Len(t, graph.Flush().Events, 2)

	bad := &policy.Policy{Name: "p", Selector: "a ==", Ingress: []policy.Rule{{}}}
	graph.Update(policy.Update{Key: bad.Key(), Resource: bad})
	require.Empty(t, graph.Flush().Events)
	require.ErrorContains(t, rejected[bad.Key()], "Policy/p")
	require.ErrorContains(t, rejected[bad.Key()], "selector")
	require.ErrorContains(t, rejected[bad.Key()], "ingress[0].action")

	// A resource under another key than its own is absent under the key of the update.
	u := endpoint("y", "10.0.0.2")
	u.Key = endpoint("x", "10.0.0.1").Key
	graph.Update(u)
	require.Contains(t, rejected, u.Key)
	require.Equal(t, "remove endpoint "+u.Key.String(), graph.Flush().Events[0].String())
}

// TestSecondInSync: in sync is said once, however often the source says it.
func TestSecondInSync(t *testing.T) {
	graph := newGraph(t)
	graph.InSync()
	graph.InSync()
	require.Len(t, graph.Flush().Events, 1)
	graph.InSync()
	require.Empty(t, graph.Flush().Events)
}

func TestFlushWithNothingToDoAllocatesLittle(t *testing.T) {
	graph := newGraph(t)
	graph.InSync()
	graph.Update(endpoint("x", "10.0.0.1"))
	graph.Flush()
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { graph.Flush() }), 20.0)
}
