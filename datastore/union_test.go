// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

// script is a source that makes the calls that it receives.
type script chan func(context.Context, datastore.Receiver) error

func (s script) Run(ctx context.Context, r datastore.Receiver) error {
	for {
		select {
		case step := <-s:
			if err := step(ctx, r); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// update makes the source send updates, and waits until the receiver has them.
func (s script) update(updates ...policy.Update) {
	done := make(chan struct{})
	s <- func(ctx context.Context, r datastore.Receiver) error {
		defer close(done)
		return r.Update(ctx, updates)
	}
	<-done
}

func (s script) inSync() {
	done := make(chan struct{})
	s <- func(ctx context.Context, r datastore.Receiver) error {
		defer close(done)
		return r.InSync(ctx)
	}
	<-done
}

// unite returns a union of n scripts, named "0", "1" and so on, which runs until the test ends.
func unite(t *testing.T, n int, cfg datastore.UnionConfig) (*datastore.Union, []script, *receiver) {
	t.Helper()
	var scripts []script
	for i := range n {
		scripts = append(scripts, make(script))
		s := datastore.NamedSource{Name: fmt.Sprint(i), Source: scripts[i], Yields: cfg.Exclude != nil && i == 1}
		cfg.Sources = append(cfg.Sources, s)
	}
	u, err := datastore.NewUnion(cfg)
	require.NoError(t, err)
	r := newReceiver()
	start(t, u, r)
	return u, scripts, r
}

// The object of the first source that has it is used. If that source deletes it, the object of the
// next one is used.
func TestUnionPrecedence(t *testing.T) {
	var overruled []string
	var updated [][]policy.Update
	u, s, r := unite(t, 3, datastore.UnionConfig{
		Overruled: func(source string, key policy.Key, counts string) {
			overruled = append(overruled, key.Name+" of "+source+" by "+counts)
		},
		Updated: func(updates []policy.Update) { updated = append(updated, updates) },
	})
	s[1].update(set("a", "1"), set("b", "1"))
	s[0].update(set("a", "0"))
	s[2].update(set("a", "2"), set("c", "2"), unset("never"))
	s[2].update(set("b", "1"))
	require.Equal(t, []string{"a of 1 by 0", "a of 2 by 0", "a of 2 by 1", "b of 2 by 1"}, overruled)
	require.Equal(t, []string{"a=1 b=1", "a=0", "c=2"}, r.take())
	a, b := profile("a", "").Key(), profile("b", "").Key()
	require.Equal(t, map[policy.Key]string{a: "0"}, u.Overruled("1"))
	require.Equal(t, map[policy.Key]string{a: "0"}, u.Overruled("2"), "b is equal in both")
	require.Equal(t, map[string]policy.Resource{"1": profile("b", "1"), "2": profile("b", "1")}, u.Versions(b))
	require.Equal(t, map[policy.Key]policy.Resource{a: profile("a", "1"), b: profile("b", "1")}, u.Objects("1"))
	require.Empty(t, u.Objects("none"))
	require.Equal(t, 3, u.Len())

	s[1].update(set("a", "8"), unset("b"))
	require.Empty(t, r.take(), "nothing changes")
	s[0].update(unset("a"))
	s[1].update(unset("a"))
	s[2].update(policy.Update{Key: a, Resource: (*policy.Profile)(nil)}, unset("b"), set("c", "3"))
	require.Equal(t, []string{"a=8", "a=2", "-a -b c=3"}, r.take())
	require.Empty(t, u.Overruled("2"))
	s[2].update(set("c", "4"), set("c", "5"), set("c", "3"))
	require.Empty(t, r.take(), "at most one update a key")
	require.Len(t, updated, 6)
	require.Equal(t, map[policy.Key]policy.Resource{profile("c", "").Key(): profile("c", "3")}, u.World())
}

// The receiver is in sync once all sources are, however often each reports it.
func TestUnionInSync(t *testing.T) {
	u, s, r := unite(t, 2, datastore.UnionConfig{})
	require.Equal(t, []string{"0", "1"}, u.Waiting())
	s[1].inSync()
	s[1].inSync()
	require.Equal(t, []string{"0"}, u.Waiting())
	select {
	case <-u.Synced():
		require.Fail(t, "a source is missing")
	default:
	}
	require.Empty(t, r.take())
	s[0].inSync()
	<-u.Synced()
	require.Empty(t, u.Waiting())
	s[0].inSync()
	require.Equal(t, []string{"in sync"}, r.take())
}

// Excluded objects of a source with Yields are not used. They come back with the update that
// includes them. Here an object of source 1 is left out while another source has its name after
// "claim-".
func TestUnionExclude(t *testing.T) {
	claims := map[string]bool{}
	u, s, r := unite(t, 3, datastore.UnionConfig{
		Exclude: func(declared, yielding []policy.Update) map[policy.Key]bool {
			answers := map[policy.Key]bool{}
			for _, up := range declared {
				if name, ok := strings.CutPrefix(up.Key.Name, "claim-"); ok {
					claims[name] = up.Resource != nil
					answers[profile(name, "").Key()] = up.Resource != nil
				}
			}
			for _, up := range yielding {
				answers[up.Key] = claims[up.Key.Name]
			}
			return answers
		},
	})
	s[1].update(set("a", "1"), set("b", "1"))
	s[2].update(set("b", "2"))
	require.Equal(t, []string{"a=1 b=1"}, r.take())
	s[0].update(set("claim-a", "0"))
	require.Equal(t, []string{"claim-a=0 -a"}, r.take(), "in one update")
	s[1].update(set("a", "2"))
	require.Empty(t, r.take(), "it stays excluded")
	s[2].update(set("claim-b", "2"), set("claim-a", "2"))
	require.Equal(t, []string{"claim-b=2 b=2"}, r.take(), "the next source takes its place")
	require.Empty(t, u.Overruled("2")[profile("b", "").Key()])
	require.Equal(t, 3, u.Len())
	require.Len(t, u.World(), 3)
	require.Len(t, u.Objects("1"), 2)
	s[0].update(unset("claim-a"))
	require.Equal(t, []string{"claim-a=2"}, r.take(), "source 2 still claims it")
	s[2].update(unset("claim-a"), unset("claim-b"))
	require.Equal(t, []string{"-claim-a -claim-b a=2 b=1"}, r.take())
}

// The receiver's state depends only on the objects of the sources, not on the order of their
// updates.
func TestUnionOfRandomUpdates(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		u, s, r := unite(t, 3, datastore.UnionConfig{})
		stored := []map[string]string{{}, {}, {}}
		for range 60 {
			source, updates := rng.IntN(3), []policy.Update(nil)
			for range 1 + rng.IntN(3) {
				name, value := fmt.Sprint(rng.IntN(4)), fmt.Sprint(rng.IntN(2))
				if rng.IntN(2) == 0 {
					updates = append(updates, unset(name))
					delete(stored[source], name)
				} else {
					updates = append(updates, set(name, value))
					stored[source][name] = value
				}
			}
			s[source].update(updates...)
			want := map[string]string{}
			for i := range stored {
				maps.Copy(want, stored[len(stored)-1-i])
			}
			require.Equal(t, want, r.state, "seed %d", seed)
			require.Equal(t, len(want), u.Len(), "seed %d", seed)
			require.Len(t, u.World(), len(want), "seed %d", seed)
		}
	}
}

// If one source ends, all end with its error. So does an error of the receiver.
func TestUnionEnds(t *testing.T) {
	run := func(end func(context.Context, datastore.Receiver) error, r datastore.Receiver) error {
		sources := []script{make(script), make(script)}
		u, err := datastore.NewUnion(datastore.UnionConfig{Sources: []datastore.NamedSource{
			{Name: "a", Source: sources[0]}, {Name: "b", Source: quits{sources[1]}},
		}})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- u.Run(t.Context(), r) }()
		sources[1] <- end
		err = finished(t, done)
		require.ErrorContains(t, u.Run(t.Context(), r), "runs once")
		return err
	}
	broken := errors.New("broken")
	require.ErrorIs(t, run(func(context.Context, datastore.Receiver) error { return broken }, newReceiver()), broken)
	require.ErrorContains(t, run(func(context.Context, datastore.Receiver) error { return errQuit }, newReceiver()),
		"source b has ended")
	r := newReceiver()
	r.fail = broken
	require.ErrorIs(t, run(func(ctx context.Context, out datastore.Receiver) error {
		return out.Update(ctx, []policy.Update{set("a", "1")})
	}, r), broken)

	u, err := datastore.NewUnion(datastore.UnionConfig{
		Sources: []datastore.NamedSource{{Name: "memory", Source: &datastore.Memory{}}},
	})
	require.NoError(t, err)
	stop := start(t, u, newReceiver())
	<-u.Synced()
	require.ErrorIs(t, stop(), context.Canceled)
}

var errQuit = errors.New("quit")

// quits is a source that returns nil for errQuit.
type quits struct{ script }

func (q quits) Run(ctx context.Context, r datastore.Receiver) error {
	if err := q.script.Run(ctx, r); !errors.Is(err, errQuit) {
		return err
	}
	return nil
}

func TestUnionConfig(t *testing.T) {
	_, err := datastore.NewUnion(datastore.UnionConfig{})
	require.ErrorContains(t, err, "datastore: UnionConfig.Sources: required")
	_, err = datastore.NewUnion(datastore.UnionConfig{Sources: []datastore.NamedSource{
		{Name: "a", Source: &datastore.Memory{}}, {Name: "a"}, {Source: &datastore.Memory{}},
	}})
	require.ErrorContains(t, err, "Sources[1].Source: required")
	require.ErrorContains(t, err, `Sources[1].Name: "a"`)
	require.ErrorContains(t, err, `Sources[2].Name: ""`)
}
