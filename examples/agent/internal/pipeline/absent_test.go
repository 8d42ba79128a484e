// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/policy"
)

// Absent lists the objects of a source that are not used, with the reason. An object leaves the
// list when it is used.
func TestAbsent(t *testing.T) {
	first, second := &datastore.Memory{}, &datastore.Memory{}
	update := func(m *datastore.Memory, key policy.Key, r policy.Resource) {
		t.Helper()
		require.NoError(t, m.Update(t.Context(), []policy.Update{{Key: key, Resource: r}}))
	}
	allow := &policy.Policy{Namespace: "shop", Name: "allow", Selector: "all()"}
	other := &policy.Policy{Namespace: "shop", Name: "allow", Selector: "app == 'x'"}
	same := &policy.Profile{Name: "same"}
	invalid := &policy.Policy{Namespace: "shop", Name: "invalid", Selector: "app =="}
	update(first, allow.Key(), allow)
	update(second, allow.Key(), other)
	update(first, same.Key(), same)
	update(second, same.Key(), &policy.Profile{Name: "same"})
	update(first, endpoint("way-a", "10.0.0.1").Key(), endpoint("way-a", "10.0.0.1")) // like a registered endpoint
	update(second, endpoint("way-b", "10.0.0.1").Key(), endpoint("way-b", "10.0.0.1"))
	update(second, invalid.Key(), invalid)
	p, r := startSources(t, func(c *pipeline.Config) {
		c.Sources = []datastore.NamedSource{{Name: "first", Source: first}, {Name: "second", Source: second}}
	})
	// Sources send in their own goroutines: the world shows whether their updates have arrived.
	absent := func(source string, holds func(map[policy.Key]error) bool) map[policy.Key]error {
		t.Helper()
		for t.Context().Err() == nil {
			if a := p.Absent(source); holds(a) {
				return a
			}
		}
		return nil
	}
	require.NoError(t, p.WaitApplied(t.Context()))
	require.Empty(t, p.Absent("first"))
	a := absent("second", func(a map[policy.Key]error) bool { return len(a) == 2 })
	require.EqualError(t, a[allow.Key()],
		"pipeline: Policy/shop/allow: ignored: first has a different version, which is used")
	require.ErrorContains(t, a[invalid.Key()], "selector: ")

	update(first, allow.Key(), nil)
	update(second, invalid.Key(), &policy.Policy{Namespace: "shop", Name: "invalid", Selector: "all()"})
	absent("second", func(a map[policy.Key]error) bool { return len(a) == 0 })
	update(second, invalid.Key(), invalid)
	absent("second", func(a map[policy.Key]error) bool { return len(a) == 1 })
	update(second, invalid.Key(), nil)
	absent("second", func(a map[policy.Key]error) bool { return len(a) == 0 })
	r.stop()
	require.NoError(t, <-r.ended)
}
