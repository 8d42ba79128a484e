// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/internal/state"
	"github.com/wayleave/wayleave/policy/worlds"
)

// TestStateIsThatOfMirror: after each batch of random worlds, a snapshot has the state of the
// Mirror. The changes since the former state lead to it too.
func TestStateIsThatOfMirror(t *testing.T) {
	for seed := range uint64(20) {
		gen := worlds.New(worlds.Config{Seed: seed})
		graph, err := calcgraph.New(calcgraph.Config{Node: worlds.Node})
		require.NoError(t, err)
		graph.InSync()
		mirror, s, follower := dptest.NewMirror(), state.New(), state.New()
		copied := dptest.NewMirror()
		for range 10 {
			for range 20 {
				graph.Update(gen.Update())
			}
			b := graph.Flush()
			require.NoError(t, mirror.Play(b))
			s.Apply(b)
			snapshot := dptest.NewMirror()
			require.NoError(t, snapshot.Play(s.Snapshot()))
			require.Equal(t, mirror.State().String(), snapshot.State().String())
			changes := follower.ChangesTo(s)
			require.NoError(t, copied.Play(changes))
			follower.Apply(changes)
			require.Equal(t, mirror.State().String(), copied.State().String())
			require.True(t, s.InSync())
		}
	}
}

// TestManyChanges: changes of a set do not change earlier batches.
func TestManyChanges(t *testing.T) {
	member := func(i int) dataplane.Member {
		return dataplane.Member{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)}
	}
	s := state.New()
	s.Apply(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.IPSetUpdate{ID: "s:a", Members: []dataplane.Member{member(0)}},
	}})
	first := s.Snapshot()
	text := fmt.Sprint(first)
	for i := range 1000 {
		s.Apply(dataplane.Batch{Events: []dataplane.Event{
			&dataplane.IPSetDelta{
				ID: "s:a", Added: []dataplane.Member{member(i + 1)}, Removed: []dataplane.Member{member(i)},
			},
		}})
	}
	require.Equal(t, text, fmt.Sprint(first))
	set := s.Snapshot().Events[0].(*dataplane.IPSetUpdate)
	require.Equal(t, []dataplane.Member{member(1000)}, set.Members)
	require.Empty(t, s.ChangesTo(s).Events)
	s.Apply(dataplane.Batch{Events: []dataplane.Event{&dataplane.IPSetRemove{ID: "s:a"}}})
	require.Empty(t, s.Snapshot().Events)
}
