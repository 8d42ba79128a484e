// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

// In random worlds, the endpoints that a policy selects are those to which the evaluator applies
// it.
func TestSelectionsMatchEvaluator(t *testing.T) {
	selected := 0
	for seed := range uint64(300) {
		world := verdict.World{}
		world.Set(worlds.New(worlds.Config{Seed: seed, OnlyValid: true}).World()...)
		selections, err := selectionsOf(world)
		require.NoError(t, err, "seed %d", seed)
		evaluator := verdict.New(world)
		for key, resource := range world {
			if resource.Key().Kind != policy.KindWorkloadEndpoint {
				continue
			}
			var got []policy.Key
			for _, s := range selections {
				name := strings.TrimPrefix(key.String(), "WorkloadEndpoint/")
				if slices.Contains(s.Endpoints, name) && !isStaged(world, s.Policy) {
					got = append(got, keyOf(world, s.Policy))
				}
			}
			selected += len(got)
			require.ElementsMatch(t, evaluator.Policies(key), got, "seed %d: %s", seed, key)
		}
	}
	require.NotZero(t, selected)
}

func keyOf(world verdict.World, name string) policy.Key {
	for key := range world {
		if key.String() == name {
			return key
		}
	}
	return policy.Key{}
}

func isStaged(world verdict.World, name string) bool {
	p, ok := world[keyOf(world, name)].(*policy.Policy)
	return ok && p.Staged
}
