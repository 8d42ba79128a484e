// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// discard is a receiver that discards updates.
type discard struct{}

func (discard) Update(context.Context, []policy.Update) error { return nil }
func (discard) InSync(context.Context) error                  { return nil }

// An object that several sources have is contested. It is removed from contested when only one
// source has it.
func TestContestedObjectsAreRemoved(t *testing.T) {
	conflicts := 0
	u := newUnion(make([]NamedSource, 2), newInterfaceIndex("n", nil, nil), unionHooks{
		updated:   func([]policy.Update) {},
		overruled: func(string, policy.Key, string) { conflicts++ },
	})
	send := func(source int, key policy.Key, r policy.Resource) {
		t.Helper()
		updates := []policy.Update{{Key: key, Resource: r}}
		require.NoError(t, (&sourceReceiver{u, source, discard{}}).Update(t.Context(), updates))
	}
	for n := range 100 {
		p := &policy.Policy{Namespace: "shop", Name: fmt.Sprint(n)}
		other := &policy.Policy{Namespace: "shop", Name: p.Name, Selector: "all()"}
		send(0, p.Key(), p)
		send(1, p.Key(), other)
		require.Contains(t, u.contested, p.Key())
		send(n%2, p.Key(), nil)
		require.Empty(t, u.contested)
		send(1-n%2, p.Key(), nil)
	}
	require.Equal(t, 100, conflicts)
	require.Zero(t, u.count())
}
