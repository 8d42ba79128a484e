// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
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

// sinkEnv has the path of a socket if this process is a client with a sink.
const sinkEnv = "WIRE_TEST_SINK"

// sink is a dataplane that accepts everything and does nothing.
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

// runSink runs a client with a sink. It answers each line of its standard input with the number of
// bytes that it has read and the number of events.
func runSink(path string) error {
	dp, read := &sink{}, &atomic.Int64{}
	client, err := wire.NewClient(wire.ClientConfig{Dataplane: dp})
	if err != nil {
		return err
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		conn, err := wire.Dial(path)(ctx)
		return counter{conn, read}, err
	}
	go func() { _ = client.Run(context.Background(), dial) }()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(read.Load(), dp.events.Load())
	}
	return nil
}

// process is a client with a sink in another process.
type process struct{ *program }

// received returns the number of bytes that the client has read, and the number of events.
func (p process) received(b *testing.B) (bytes, events int) {
	b.Helper()
	answer, err := p.request("")
	require.NoError(b, err)
	_, err = fmt.Sscan(answer, &bytes, &events)
	require.NoError(b, err, answer)
	return bytes, events
}

// overWire connects a server here and a client in another process.
func overWire(b *testing.B) (server *wire.Server, client process, end func()) {
	b.Helper()
	path := b.TempDir() + "/s"
	server, err := wire.NewServer(wire.ServerConfig{})
	require.NoError(b, err)
	listener, err := wire.Listen(path)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(ctx, listener)
	}()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), sinkEnv+"="+path)
	client = process{start(b, cmd)}
	client.connected(server)
	return server, client, func() {
		client.kill()
		cancel()
		<-ended
	}
}

// BenchmarkW1 loads a large cluster: only the graph, then the graph and a client in another process
// that has received everything. Allocations are those of this process. bytes/member is the size of
// the events of sets for each member.
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
	load(b) // the heap grows once, and that is not part of the results
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
		bytes, events, applied := 0, 0, time.Duration(0)
		for b.Loop() {
			b.StopTimer()
			server, client, end := overWire(b)
			runtime.GC()
			b.StartTimer()
			batch := load(b)
			began := time.Now()
			require.NoError(b, server.Apply(b.Context(), batch))
			applied += time.Since(began)
			b.StopTimer()
			bytes, events = client.received(b)
			require.Len(b, batch.Events, events)
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

// BenchmarkLabelChange changes a label of a remote endpoint in W1, so that it moves from one set to
// another. It measures only the graph, and then the time until the client has acknowledged the
// change.
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
		server, client, end := overWire(b)
		defer end()
		require.NoError(b, server.Apply(b.Context(), first))
		before, _ := client.received(b)
		b.ReportAllocs()
		changes := 0
		for ; b.Loop(); changes++ {
			graph.Update(change(changes))
			require.NoError(b, server.Apply(b.Context(), graph.Flush()))
		}
		bytes, _ := client.received(b)
		b.ReportMetric(float64(bytes-before)/float64(changes), "bytes/change")
	})
}
