// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/internal/workload"
	"github.com/wayleave/wayleave/policy"
)

// sink is a dataplane that takes everything and does nothing.
type sink struct{ events atomic.Int64 }

func (s *sink) Apply(_ context.Context, b dataplane.Batch) error {
	s.events.Add(int64(len(b.Events)))
	return nil
}

func (s *sink) Resync(context.Context) error { return nil }

func (s *sink) Teardown(context.Context) error { return nil }

// counter counts the bytes that a client reads.
type counter struct {
	net.Conn
	read *atomic.Int64
}

func (c counter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// overWire connects a server and a client of a dataplane. It returns the number of bytes that the client has read.
func overWire(b *testing.B, dp dataplane.Dataplane) (server *wire.Server, read *atomic.Int64, end func()) {
	path := b.TempDir() + "/s"
	server, err := wire.NewServer(wire.ServerConfig{})
	require.NoError(b, err)
	listener, err := wire.Listen(path)
	require.NoError(b, err)
	client, err := wire.NewClient(wire.ClientConfig{Dataplane: dp})
	require.NoError(b, err)
	read = &atomic.Int64{}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{}, 2)
	go func() {
		_ = server.Serve(ctx, listener)
		ended <- struct{}{}
	}()
	go func() {
		_ = client.Run(ctx, func(ctx context.Context) (net.Conn, error) {
			conn, err := wire.Dial(path)(ctx)
			return counter{conn, read}, err
		})
		ended <- struct{}{}
	}()
	for !server.Connected() {
		select {
		case <-ended:
			b.Fatal("server or client ended")
		default:
		}
	}
	return server, read, func() {
		cancel()
		<-ended
		<-ended
	}
}

// BenchmarkW1 loads a large cluster: the graph alone, then the graph and a client behind a socket that has taken all
// of it. bytes/member are those of the events of sets.
func BenchmarkW1(b *testing.B) {
	w := workload.W1{Remote: 250_000, Policies: 10_000}
	updates := slices.Collect(w.Updates())
	load := func(b *testing.B) dataplane.Batch {
		graph, err := calcgraph.New(calcgraph.Config{Node: workload.Node})
		require.NoError(b, err)
		for _, u := range updates {
			graph.Update(u)
		}
		graph.InSync()
		return graph.Flush()
	}
	load(b) // the heap grows once, for neither
	b.Run("graph", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			runtime.GC()
			b.StartTimer()
			load(b)
		}
	})
	b.Run("wire", func(b *testing.B) {
		b.ReportAllocs()
		bytes, events, applied := int64(0), 0, time.Duration(0)
		for b.Loop() {
			b.StopTimer()
			dp := &sink{}
			server, read, end := overWire(b, dp)
			runtime.GC()
			b.StartTimer()
			batch := load(b)
			began := time.Now()
			require.NoError(b, server.Apply(b.Context(), batch))
			applied += time.Since(began)
			b.StopTimer()
			require.EqualValues(b, len(batch.Events), dp.events.Load())
			bytes, events = read.Load(), len(batch.Events)
			end()
			b.StartTimer()
		}
		b.ReportMetric(float64(applied.Milliseconds())/float64(b.N), "ms/apply")
		b.ReportMetric(float64(bytes), "bytes")
		b.ReportMetric(float64(bytes)/float64(events), "bytes/event")
		b.ReportMetric(perMember(b, load(b)), "bytes/member")
	})
}

// perMember returns the size of the events of sets in bytes, for each member.
func perMember(b *testing.B, batch dataplane.Batch) float64 {
	size, members := 0, 0
	for _, e := range batch.Events {
		if set, ok := e.(*dataplane.IPSetUpdate); ok {
			m, err := codec.Encode(e)
			require.NoError(b, err)
			size += proto.Size(m)
			members += len(set.Members)
		}
	}
	return float64(size) / float64(members)
}

// BenchmarkLabelChange changes a label of a remote endpoint in W1, so that it leaves a set and joins another: the graph
// alone, then until the client has acknowledged it.
func BenchmarkLabelChange(b *testing.B) {
	w := workload.W1{Remote: 25_000, Policies: 1_000}
	m := workload.Markers()
	change := func(i int) policy.Update {
		e := w.Endpoint(m, 1)
		e.Labels = map[string]string{m[3+i%2]: "true"}
		return policy.Update{Key: e.Key(), Resource: e}
	}
	loaded := func(b *testing.B) (*calcgraph.Graph, dataplane.Batch) {
		graph, err := calcgraph.New(calcgraph.Config{Node: workload.Node})
		require.NoError(b, err)
		for u := range w.Updates() {
			graph.Update(u)
		}
		graph.InSync()
		return graph, graph.Flush()
	}
	b.Run("graph", func(b *testing.B) {
		graph, _ := loaded(b)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			graph.Update(change(i))
			graph.Flush()
		}
	})
	b.Run("wire", func(b *testing.B) {
		graph, first := loaded(b)
		server, read, end := overWire(b, &sink{})
		defer end()
		require.NoError(b, server.Apply(b.Context(), first))
		before := read.Load()
		b.ReportAllocs()
		changes := 0
		for ; b.Loop(); changes++ {
			graph.Update(change(changes))
			require.NoError(b, server.Apply(b.Context(), graph.Flush()))
		}
		b.ReportMetric(float64(read.Load()-before)/float64(changes), "bytes/change")
	})
}
