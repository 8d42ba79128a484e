// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// recorder records the calls that it receives.
type recorder struct{ log []string }

func (r *recorder) Update(_ context.Context, updates []policy.Update) error {
	var words []string
	for _, u := range updates {
		if u.Resource == nil {
			words = append(words, "-"+u.Key.Name)
		} else {
			words = append(words, u.Key.Name+"="+u.Resource.(*policy.Profile).LabelsToApply["v"])
		}
	}
	r.log = append(r.log, strings.Join(words, " "))
	return nil
}

func (r *recorder) InSync(context.Context) error {
	r.log = append(r.log, "in sync")
	return nil
}

// profiles reads "a=1 -b".
func profiles(text string) (updates []policy.Update) {
	for word := range strings.FieldsSeq(text) {
		if name, ok := strings.CutPrefix(word, "-"); ok {
			updates = append(updates, policy.Update{Key: policy.Key{Kind: policy.KindProfile, Name: name}})
			continue
		}
		name, value, _ := strings.Cut(word, "=")
		p := &policy.Profile{Name: name, LabelsToApply: map[string]string{"v": value}}
		updates = append(updates, policy.Update{Key: p.Key(), Resource: p})
	}
	return updates
}

// A new pipeline receives the kept objects, and then the differences from the store. If the kept
// objects were never complete, it receives only those of the store.
func TestReplica(t *testing.T) {
	var r replica
	ctx := t.Context()
	run := func(words ...string) []string {
		t.Helper()
		out := &recorder{}
		in, err := r.begin(ctx, out)
		require.NoError(t, err)
		for _, w := range words {
			if w == "in sync" {
				require.NoError(t, in.InSync(ctx))
			} else {
				require.NoError(t, in.Update(ctx, profiles(w)))
			}
		}
		return out.log
	}
	require.Equal(t, []string{"a=1 x=1"}, run("a=1 x=1"), "interrupted before the list was complete")
	require.Equal(t, []string{"a=1 b=1", "c=1", "in sync", "b=2", "-c"}, run("a=1 b=1", "c=1", "in sync", "b=2", "-c"))
	require.Equal(t, []string{"a=1 b=2", "in sync"}, run(), "the store is unavailable")
	require.Equal(t, []string{"a=1 b=2", "in sync", "d=1", "-b", "-d"}, run("a=1", "d=1", "in sync", "-d"))
	require.Equal(t, []string{"a=1", "in sync", "a=2"}, run("a=2"), "interrupted while the store was read again")
	require.Equal(t, []string{"a=2", "in sync", "e=1"}, run("e=1 a=2", "in sync", "a=2"))
}
