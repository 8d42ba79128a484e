// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wayleave/wayleave/policy"
)

// slowReceiver waits in each Update and in Barrier.
type slowReceiver struct {
	release  chan struct{}
	updates  [][]policy.Update
	barriers int
}

func (r *slowReceiver) Update(_ context.Context, updates []policy.Update) error {
	<-r.release
	r.updates = append(r.updates, updates)
	return nil
}

func (r *slowReceiver) InSync(context.Context) error { return nil }

// Barrier counts calls. A calcgraph.Runner has this method.
func (r *slowReceiver) Barrier(context.Context) error {
	r.barriers++
	return nil
}

// Barrier returns once the receiver has all earlier updates. Later updates do not delay it.
func TestBarrierWaitsForEarlierPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(), &slowReceiver{release: make(chan struct{})}
		update := func(name string) policy.Update {
			return policy.Update{Key: policy.Key{Kind: policy.KindTier, Name: name}, Resource: &policy.Tier{Name: name}}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		q.setReceiver(r)
		go func() { _ = q.deliver(ctx, r) }()
		var returned atomic.Int32
		barrier := func() {
			go func() {
				require.NoError(t, q.barrier(ctx))
				returned.Add(1)
			}()
			synctest.Wait()
		}
		q.push(update("b"), update("a"), update("c"))
		synctest.Wait()
		barrier()
		r.release <- struct{}{}
		synctest.Wait()
		require.Zero(t, returned.Load(), "not in sync")
		q.setComplete()
		synctest.Wait()
		require.EqualValues(t, 1, returned.Load())
		require.Equal(t, 1, r.barriers)
		require.True(t, slices.IsSortedFunc(r.updates[0], func(a, b policy.Update) int { return a.Key.Compare(b.Key) }))

		q.push(update("d"))
		synctest.Wait()
		barrier()
		q.push(update("e"))
		synctest.Wait()
		barrier()
		require.EqualValues(t, 1, returned.Load(), "the receiver has neither")
		r.release <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, 2, returned.Load(), "the receiver has d")
		r.release <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, 3, returned.Load())
		barrier()
		require.EqualValues(t, 4, returned.Load(), "nothing to wait for")
	})
}

// Readers wait while the queue is full. A list after the first does not wait, because it is queued
// once it is complete.
func TestReadersWaitForFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(newConfig())
		require.NoError(t, err)
		o := s.kind("Namespace")
		ctx, cancel := context.WithCancel(t.Context())
		r := &reader{objects: o}
		h := &handler{ctx: ctx, objects: o, busy: make(chan struct{}, 1)}
		var ended atomic.Int32
		read := func(prefix string, set func(*corev1.Namespace) error) {
			go func() {
				for i := 0; ctx.Err() == nil; i++ {
					_ = set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(prefix, i)}})
				}
				ended.Add(1)
			}()
			synctest.Wait()
		}
		read("own", func(n *corev1.Namespace) error { return r.set(ctx, n) })
		require.Len(t, s.queue.pending, maxPending)
		read("shared", func(n *corev1.Namespace) error {
			h.OnAdd(n, false)
			return nil
		})
		require.Len(t, s.queue.pending, maxPending+1)
		o.synced = true
		o.begin()
		require.NoError(t, r.set(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "buffered"}}))
		require.Len(t, o.buffered, 1)
		require.Zero(t, ended.Load())
		cancel()
		synctest.Wait()
		require.EqualValues(t, 2, ended.Load())
	})
}
