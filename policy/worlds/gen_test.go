// SPDX-License-Identifier: Apache-2.0

package worlds_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/worlds"
)

func TestUpdatesAreMostlyValidAndOfEveryKind(t *testing.T) {
	gen := worlds.New(worlds.Config{Seed: 1})
	valid, invalid, deleted := map[policy.Kind]int{}, 0, 0
	for range 5000 {
		u := gen.Update()
		switch {
		case u.Resource == nil:
			deleted++
		case u.Validate() != nil:
			invalid++
		default:
			valid[u.Key.Kind]++
		}
	}
	for _, kind := range []policy.Kind{
		policy.KindPolicy, policy.KindStagedPolicy, policy.KindTier, policy.KindProfile,
		policy.KindNetworkSet, policy.KindWorkloadEndpoint,
	} {
		require.Greater(t, valid[kind], 100, "%s", kind)
	}
	require.Greater(t, deleted, 500)
	require.Greater(t, invalid, 100)
	require.Less(t, invalid, 600, "only updates that spoil made invalid")
}

func TestEqualSeedsGiveEqualSequences(t *testing.T) {
	a, b := worlds.New(worlds.Config{Seed: 7}), worlds.New(worlds.Config{Seed: 7})
	for range 200 {
		ua, ub := a.Update(), b.Update()
		require.Equal(t, ua, ub)
		require.Equal(t, a.Packet(), b.Packet())
	}
}

// Every field of a header is set in some packet, and some rule matches it.
func TestHeadersAreComplete(t *testing.T) {
	gen, set := worlds.New(worlds.Config{Seed: 1}), map[string]bool{}
	note := func(v reflect.Value) {
		for i := range v.NumField() {
			name := v.Type().String() + "." + v.Type().Field(i).Name
			set[name] = set[name] || !v.Field(i).IsZero()
		}
	}
	for range 2000 {
		note(reflect.ValueOf(gen.Packet().Header))
		if p, ok := gen.Update().Resource.(*policy.Policy); ok {
			for _, r := range p.Ingress {
				note(reflect.ValueOf(r.HeaderMatch))
			}
		}
	}
	require.NotEmpty(t, set)
	for name, ok := range set {
		require.True(t, ok, name)
	}
}

// A world has the sizes of its configuration and each key once.
func TestWorldHasItsSize(t *testing.T) {
	cfg := worlds.Config{
		Policies: 5, Endpoints: 6, NetworkSets: 2, Rules: 1, Interfaces: []string{"a", "b", "c"}, OnlyValid: true,
	}
	for cfg.Seed = range 100 {
		cfg.Open = cfg.Seed%2 == 1
		kinds, keys := map[policy.Kind]int{}, map[policy.Key]bool{}
		for _, r := range worlds.New(cfg).World() {
			require.NoError(t, r.Validate())
			require.False(t, keys[r.Key()], "%s", r.Key())
			keys[r.Key()] = true
			kinds[r.Key().Kind]++
			if p, ok := r.(*policy.Policy); ok {
				require.LessOrEqual(t, max(len(p.Ingress), len(p.Egress)), 1)
			}
		}
		require.Equal(t, 5, kinds[policy.KindPolicy]+kinds[policy.KindStagedPolicy])
		require.Equal(t, 6, kinds[policy.KindWorkloadEndpoint])
		require.Equal(t, 2, kinds[policy.KindNetworkSet])
	}
}

// With interfaces, an interface and an address each belong to one endpoint, whatever the updates.
func TestInterfacesIdentifyEndpoints(t *testing.T) {
	interfaces := []string{"a", "b", "c"}
	gen := worlds.New(worlds.Config{Seed: 3, Interfaces: interfaces})
	owners, locals := map[any]policy.Key{}, 0
	for range 3000 {
		w, ok := gen.Update().Resource.(*policy.WorkloadEndpoint)
		if !ok || w.Node != worlds.Node {
			continue
		}
		locals++
		claims := []any{w.Interface}
		for _, a := range w.Addresses {
			claims = append(claims, a)
		}
		for _, claim := range claims {
			if claim != "" { // made invalid by spoil
				require.Contains(t, []policy.Key{{}, w.Key()}, owners[claim], "%v", claim)
				owners[claim] = w.Key()
			}
		}
	}
	require.Len(t, owners, 9, "three interfaces with two addresses each")
	require.Greater(t, locals, 100)
}
