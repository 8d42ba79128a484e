// SPDX-License-Identifier: Apache-2.0

package worldgen_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/worldgen"
	"github.com/wayleave/wayleave/policy"
)

func TestUpdatesAreMostlyValidAndOfEveryKind(t *testing.T) {
	gen := worldgen.New(1)
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
	require.Less(t, invalid, 600, "only those that were spoilt on purpose")
}

func TestEqualSeedsGiveEqualSequences(t *testing.T) {
	a, b := worldgen.New(7), worldgen.New(7)
	for range 200 {
		ua, ub := a.Update(), b.Update()
		require.Equal(t, ua, ub)
		require.Equal(t, a.Packet(), b.Packet())
	}
}

// Packets have every field of a header, and rules match every one.
func TestHeadersAreComplete(t *testing.T) {
	gen, set := worldgen.New(1), map[string]bool{}
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
