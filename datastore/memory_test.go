// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

func update(t testing.TB, sink datastore.Sink, updates ...policy.Update) {
	t.Helper()
	require.NoError(t, sink.Update(t.Context(), updates))
}

func TestMemoryReplaysThenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m datastore.Memory
		update(t, &m, set("b", "1"), set("a", "1"), set("gone", "1"), unset("gone"))
		r := newReceiver()
		stop := start(t, &m, r)
		synctest.Wait()
		require.Equal(t, []string{"a=1 b=1", "in sync"}, r.take())

		update(t, &m, set("a", "2"), unset("b"), set("c", "1"), unset("never was")) // in one call
		synctest.Wait()
		require.Equal(t, []string{"a=2 -b c=1"}, r.take())

		update(t, &m, set("a", "2"), unset("b")) // S99: nothing new
		update(t, &m)
		synctest.Wait()
		require.Empty(t, r.take())

		world := m.World()
		require.Len(t, world, 2)
		for _, u := range []policy.Update{set("a", "2"), set("c", "1")} {
			require.True(t, policy.Equal(u.Resource, world[u.Key]))
		}
		clear(world)
		require.Len(t, m.World(), 2, "the map is the caller's")

		late := newReceiver()
		start(t, &m, late)
		synctest.Wait()
		require.Equal(t, []string{"a=2 c=1", "in sync"}, late.take())
		require.ErrorIs(t, stop(), context.Canceled)
		update(t, &m, unset("a"))
		synctest.Wait()
		require.Equal(t, []string{"-a"}, late.take())
		require.Empty(t, r.take())
	})
}

func TestMemoryEmptyIsInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		start(t, &datastore.Memory{}, r)
		synctest.Wait()
		require.Equal(t, []string{"in sync"}, r.take())
	})
}

// A slow receiver does not block others, and receives only the latest values.
func TestMemoryCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m datastore.Memory
		update(t, &m, set("a", "0"))
		slow, quick := newReceiver(), newReceiver()
		slow.gate = make(chan struct{})
		start(t, &m, slow)
		start(t, &m, quick)
		synctest.Wait()
		for i := 1; i <= 1000; i++ {
			update(t, &m, set("a", fmt.Sprint(i)), set("b", fmt.Sprint(i)), set(fmt.Sprint("x", i), ""))
			update(t, &m, unset(fmt.Sprint("x", i))) // created and deleted: not sent
		}
		synctest.Wait()
		require.Equal(t, "a=1000 b=1000", quick.text())
		require.Empty(t, slow.take())
		slow.gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"a=0", "in sync"}, slow.take())
		slow.gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"a=1000 b=1000"}, slow.take())
		update(t, &m, set("c", "1"))
		synctest.Wait() // the receiver has c and waits at the gate
		update(t, &m, set("a", "there"))
		update(t, &m, set("a", "1000")) // the value that the receiver has
		close(slow.gate)
		synctest.Wait()
		require.Equal(t, []string{"c=1"}, slow.take())
		require.Equal(t, "a=1000 b=1000 c=1", slow.text())
	})
}

func TestMemoryRefusesForeignKey(t *testing.T) {
	var m datastore.Memory
	wrong := set("b", "1")
	wrong.Key.Name = "c"
	err := m.Update(t.Context(), []policy.Update{set("a", "1"), wrong})
	require.ErrorIs(t, err, datastore.ErrKeyMismatch)
	require.EqualError(t, err, "datastore: update Profile/c: key does not belong to the resource Profile/b")
	// A nil pointer in Resource is a deletion, like nil.
	require.NoError(t,
		m.Update(t.Context(), []policy.Update{{Key: set("a", "").Key, Resource: (*policy.Profile)(nil)}}))
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		start(t, &m, r)
		synctest.Wait()
		require.Equal(t, []string{"in sync"}, r.take(), "all or nothing")
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.Update(ctx, []policy.Update{set("a", "1")}), context.Canceled)
	require.ErrorIs(t, m.Run(ctx, newReceiver()), context.Canceled)
}

func TestMemoryReceiverFails(t *testing.T) {
	var m datastore.Memory
	r := newReceiver()
	r.fail = errors.New("full")
	require.ErrorIs(t, m.Run(t.Context(), r), r.fail)
	require.Equal(t, []string{"in sync"}, r.take())
	update(t, &m, set("a", "1"))
	require.ErrorIs(t, m.Run(t.Context(), r), r.fail)
	require.Equal(t, []string{"a=1"}, r.take())
}

// Pairs that are written together are never received separately, and all receivers end with the
// same state.
func TestMemoryConcurrent(t *testing.T) {
	var m datastore.Memory
	receivers := make([]*pairReceiver, 4)
	for i := range receivers {
		receivers[i] = &pairReceiver{receiver: newReceiver()}
		start(t, &m, receivers[i])
	}
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(writer), 0))
			for range 500 {
				name, value := fmt.Sprint(rng.IntN(5)), fmt.Sprint(rng.IntN(3))
				if value == "0" {
					update(t, &m, unset("l"+name), unset("r"+name))
				} else {
					update(t, &m, set("l"+name, value), set("r"+name, value))
				}
			}
		})
	}
	wg.Wait()
	update(t, &m, set("last", "1"))
	var want []string
	for i := range 5 {
		update(t, &m, set(fmt.Sprint("l", i), "end"), set(fmt.Sprint("r", i), "end"))
		want = append(want, fmt.Sprint("l", i, "=end"))
	}
	want = append(want, "last=1")
	for i := range 5 {
		want = append(want, fmt.Sprint("r", i, "=end"))
	}
	for _, r := range receivers {
		r.wait(t, strings.Join(want, " "))
		r.mu.Lock()
		require.Empty(t, r.mismatches)
		r.mu.Unlock()
	}
}

// pairReceiver checks after each batch that "l" and "r" of a number are equal.
type pairReceiver struct {
	*receiver
	mismatches []string
}

func (p *pairReceiver) Update(ctx context.Context, updates []policy.Update) error {
	err := p.receiver.Update(ctx, updates)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range 5 {
		l, r := p.state[fmt.Sprint("l", i)], p.state[fmt.Sprint("r", i)]
		if l != r {
			p.mismatches = append(p.mismatches, fmt.Sprintf("%d: %q and %q", i, l, r))
		}
	}
	return err
}

// barrierReceiver has a Barrier, which waits for a token.
type barrierReceiver struct {
	*receiver
	pass chan error
}

func (b barrierReceiver) Barrier(context.Context) error { return <-b.pass }

// Barrier waits until all receivers have all earlier updates, and until the Barrier of each
// receiver returns.
func TestMemoryBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m datastore.Memory
		barrier := func() <-chan error {
			result := make(chan error, 1)
			go func() { result <- m.Barrier(t.Context()) }()
			synctest.Wait()
			return result
		}
		update(t, &m, set("a", "1"))
		early := barrier()
		require.Empty(t, early, "no run yet")
		slow, next := newReceiver(), barrierReceiver{newReceiver(), make(chan error)}
		slow.gate = make(chan struct{})
		start(t, &m, slow)
		start(t, &m, next)
		synctest.Wait()
		require.Empty(t, early, "one receiver has nothing yet")
		slow.gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, "a=1", slow.text())
		require.Empty(t, early, "the barrier of the other receiver")
		next.pass <- nil
		require.NoError(t, <-early)

		update(t, &m, set("a", "1")) // nothing to send
		same := barrier()
		next.pass <- context.Canceled
		require.ErrorIs(t, <-same, context.Canceled)

		update(t, &m, set("a", "2"))
		synctest.Wait()
		update(t, &m, set("a", "3")) // during the receiver's call with the previous value
		last := barrier()
		slow.gate <- struct{}{}
		synctest.Wait()
		require.Empty(t, last, "it has only the previous value")
		update(t, &m, set("b", "1")) // later than the barrier
		slow.gate <- struct{}{}
		next.pass <- nil
		require.NoError(t, <-last)
		require.Contains(t, slow.text(), "a=3")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		update(t, &m, set("b", "2"))
		require.ErrorIs(t, m.Barrier(ctx), context.Canceled)
		slow.gate <- struct{}{}
	})
}
