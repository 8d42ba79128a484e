// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

// endpoint returns the i-th of many endpoints, with labels as in a cluster.
func endpoint(i int) *policy.WorkloadEndpoint {
	labels := map[string]string{}
	for _, n := range []int{10, 11, 20, 30, 40} {
		labels[fmt.Sprint("one-in-", n)] = fmt.Sprint("value-", i%n)
	}
	labels["marker"] = "true"
	a := 10<<24 + uint32(i) + 1
	return &policy.WorkloadEndpoint{
		Namespace: fmt.Sprint("namespace-", i%100),
		Name:      fmt.Sprint("workload-", i), Node: fmt.Sprint("node-", i%100), Interface: fmt.Sprint("cali", i),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)})},
		Labels:    labels, Profiles: []string{fmt.Sprint("namespace-", i%100)},
	}
}

// counter is a receiver that keeps nothing.
type counter struct {
	n      int
	inSync context.CancelFunc
}

func (c *counter) Update(_ context.Context, updates []policy.Update) error {
	c.n += len(updates)
	return nil
}

func (c *counter) InSync(context.Context) error {
	c.inSync()
	return nil
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkInitialSync reads a whole cluster: from Run to InSync, into a receiver that keeps
// nothing. Server and source share the machine and the process.
func BenchmarkInitialSync(b *testing.B) {
	for _, size := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("eps=%dk", size/1000), func(b *testing.B) {
			_, client, store := newStoreOn(b)
			var updates []policy.Update
			for i := range size {
				e := endpoint(i)
				updates = append(updates, policy.Update{Key: e.Key(), Resource: e})
			}
			for chunk := range slices.Chunk(updates, etcd.MaxWrites) {
				update(b, store, chunk...)
			}
			updates = nil
			var held uint64
			b.ReportAllocs()
			for b.Loop() {
				source, err := etcd.NewSource(etcd.SourceConfig{Client: client})
				require.NoError(b, err)
				before := heap()
				ctx, cancel := context.WithCancel(b.Context())
				c := &counter{inSync: func() {
					b.StopTimer()
					if now := heap(); now > before {
						held = now - before
					}
					b.StartTimer()
					cancel()
				}}
				require.ErrorIs(b, source.Run(ctx, c), context.Canceled)
				require.Equal(b, size, c.n)
			}
			b.ReportMetric(float64(held)/float64(size), "held-B/object")
		})
	}
}

// BenchmarkPropagation writes 1,000 updates of endpoints a second. It measures the time from the
// start of each write until a receiver on the same machine has the update. One iteration is one
// update: -benchtime=60000x takes a minute. Most of the time is that of the disk. TMPDIR=/dev/shm
// excludes the disk.
func BenchmarkPropagation(b *testing.B) {
	srv := newServer(b, func(cfg *embed.Config) { cfg.UnsafeNoFsync, cfg.TickMs, cfg.ElectionMs = false, 100, 1000 })
	client := newClient(b, srv.url)
	store := newStore(b, client)
	require.NoError(b, store.Init(b.Context()))
	var mu sync.Mutex
	begun, took, wrote := map[int]time.Time{}, []time.Duration{}, []time.Duration{}
	r := newReceiver()
	r.onBatch = func(updates []policy.Update) {
		now := time.Now()
		mu.Lock()
		defer mu.Unlock()
		for _, u := range updates {
			n, _ := strconv.Atoi(u.Resource.(*policy.WorkloadEndpoint).Labels["n"])
			took = append(took, now.Sub(begun[n]))
			delete(begun, n)
		}
	}
	source, _ := start(b, etcd.SourceConfig{Client: newClient(b, srv.url)}, r)
	r.waitInSync(b)
	work := make(chan int, 1000)
	var writers sync.WaitGroup
	for range 32 {
		writers.Go(func() {
			for n := range work {
				e := endpoint(n % 20_000)
				e.Labels["n"] = fmt.Sprint(n)
				began := time.Now()
				if _, err := store.Put(b.Context(), e, etcd.Any); err != nil {
					b.Error(err)
				}
				mu.Lock()
				wrote = append(wrote, time.Since(began))
				mu.Unlock()
			}
		})
	}
	began := time.Now()
	b.ResetTimer()
	for n := range b.N {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Millisecond)))
		mu.Lock()
		begun[n] = time.Now()
		mu.Unlock()
		work <- n
	}
	close(work)
	writers.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "updates/s")
	eventually(b, "the last", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(begun) == 0
	})
	for what, times := range map[string][]time.Duration{"": took, "write-": wrote} {
		slices.Sort(times)
		for _, p := range []int{50, 99} {
			b.ReportMetric(float64(times[len(times)*p/100].Microseconds())/1000, fmt.Sprintf("%sp%d-ms", what, p))
		}
	}
	require.Equal(b, uint64(1), source.Stats().Lists)
}
