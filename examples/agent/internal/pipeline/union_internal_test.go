// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// deaf is a receiver.
type deaf struct{}

func (deaf) Update(context.Context, []policy.Update) error { return nil }
func (deaf) InSync(context.Context) error                  { return nil }

// What sources had in common and have no more is forgotten, also where nobody asks what is absent.
func TestUnionForgets(t *testing.T) {
	conflicts := 0
	u := newUnion(make([]NamedSource, 2), func([]policy.Update) {}, func(string, policy.Key, string) { conflicts++ })
	say := func(source int, key policy.Key, r policy.Resource) {
		t.Helper()
		require.NoError(t, (&member{u, source, deaf{}}).Update(t.Context(), []policy.Update{{Key: key, Resource: r}}))
	}
	for n := range 100 {
		p := &policy.Policy{Namespace: "shop", Name: fmt.Sprint(n)}
		other := &policy.Policy{Namespace: "shop", Name: p.Name, Selector: "all()"}
		say(0, p.Key(), p)
		say(1, p.Key(), other)
		require.Contains(t, u.contested, p.Key())
		say(n%2, p.Key(), nil)
		require.Empty(t, u.contested)
		say(1-n%2, p.Key(), nil)
	}
	require.Equal(t, 100, conflicts)
	require.Zero(t, u.count())
}
