// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

var (
	full     = flag.Bool("full", false, "measure the large worlds too")
	profiles = flag.String("profiles", "", "folder for profiles of the heap of the agent that runs by itself")
)

func TestMain(m *testing.M) { nstest.Main(m) }

const (
	locals      = 100
	roles       = 50
	waitTimeout = time.Minute
)

// scale is the size of a world.
type scale struct {
	endpoints, policies int
	large               bool
}

func scales() []scale {
	return []scale{
		{1_000, 100, false}, {10_000, 100, false}, {10_000, 1_000, true}, {100_000, 100, true}, {100_000, 1_000, true},
	}
}

// each runs a benchmark for every selected size.
func each(b *testing.B, run func(b *testing.B, s scale)) {
	for _, s := range scales() {
		if !s.large || *full {
			b.Run(fmt.Sprintf("eps=%dk/pols=%d", s.endpoints/1000, s.policies), func(b *testing.B) { run(b, s) })
		}
	}
}

// endpoint returns endpoint i: the first ones are local, and policies select them; the others are
// peers with a role.
func endpoint(i, role int) *policy.WorkloadEndpoint {
	e := &policy.WorkloadEndpoint{
		Namespace: "ns", Name: "e" + strconv.Itoa(i), Node: "remote", Interface: "way" + strconv.Itoa(i),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(1 + i>>16), byte(i >> 8), byte(i)})},
		Labels: map[string]string{
			"role": "r" + strconv.Itoa(role), "rack": strconv.Itoa(i % 1000), "name": "e" + strconv.Itoa(i),
		},
	}
	if i < locals {
		e.Node, e.Labels = "n", map[string]string{"app": "a" + strconv.Itoa(i)}
	}
	return e
}

// world returns a world of some size.
func world(s scale) []policy.Update {
	var updates []policy.Update
	add := func(r policy.Resource) { updates = append(updates, policy.Update{Key: r.Key(), Resource: r}) }
	for i := range s.endpoints {
		add(endpoint(i, i%roles))
	}
	for i := range s.policies {
		add(&policy.Policy{
			Name: "p" + strconv.Itoa(i), Selector: fmt.Sprintf("app == 'a%d'", i%locals),
			Ingress: []policy.Rule{{
				Action: policy.Allow, Protocol: policy.ProtocolTCP,
				Source:      policy.EntityRule{Selector: fmt.Sprintf("role == 'r%d'", i%roles)},
				Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(uint16(1 + i))}},
			}},
		})
	}
	return updates
}

// memory returns a source that has a world.
func memory(tb testing.TB, s scale) *datastore.Memory {
	tb.Helper()
	m := &datastore.Memory{}
	require.NoError(tb, m.Update(tb.Context(), world(s)))
	return m
}

// node returns a node with the interfaces of the local endpoints.
func node(tb testing.TB) *netns.NS {
	tb.Helper()
	ns := nstest.New(tb)
	links(tb, ns, func(i int) string { return "way" + strconv.Itoa(i) })
	return ns
}

// links makes the interfaces of the local endpoints.
func links(tb testing.TB, ns *netns.NS, name func(i int) string) {
	tb.Helper()
	for i := range locals {
		_, _, err := netns.Veth(netns.End{NS: ns, Name: name(i)}, netns.End{NS: ns, Name: "peer" + strconv.Itoa(i)})
		require.NoError(tb, err)
	}
}

// running is a pipeline at work.
type running struct {
	states chan pipeline.State
	stop   context.CancelFunc
	ended  chan error
}

func start(tb testing.TB, ns *netns.NS, m *datastore.Memory) *running {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	r := &running{states: make(chan pipeline.State, 100), stop: cancel, ended: make(chan error, 1)}
	cfg := pipeline.Config{
		Node: "n", NetNS: ns.FD(), Sources: []datastore.NamedSource{{Name: "memory", Source: m}},
		Programmed: func(s pipeline.State) {
			if s.Events > 0 && s.InSync { // nothing is written before
				r.states <- s
			}
		},
	}
	go func() { r.ended <- pipeline.Run(ctx, cfg) }()
	tb.Cleanup(cancel)
	return r
}

// programmed waits for the next batch to be in the kernel.
func (r *running) programmed(tb testing.TB) {
	tb.Helper()
	select {
	case s := <-r.states:
		require.NoError(tb, s.Err)
	case err := <-r.ended:
		tb.Fatalf("ended: %v", err)
	case <-time.After(waitTimeout):
		tb.Fatal("nothing is programmed")
	}
}

func (r *running) end(tb testing.TB) {
	tb.Helper()
	r.stop()
	require.NoError(tb, <-r.ended)
}

// BenchmarkChange measures how long it takes until a change of a peer's label is in the kernel.
func BenchmarkChange(b *testing.B) {
	each(b, func(b *testing.B, s scale) {
		m := memory(b, s)
		ns := node(b)
		r := start(b, ns, m)
		r.programmed(b)
		requireAll(b, ns, r, s)
		runtime.GC()
		var times []time.Duration
		role := 0
		for b.Loop() {
			role++
			e := endpoint(locals, role%roles)
			began := time.Now()
			require.NoError(b, m.Update(b.Context(), []policy.Update{{Key: e.Key(), Resource: e}}))
			r.programmed(b)
			times = append(times, time.Since(began))
		}
		requireRole(b, ns, r, role%roles)
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-us")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-us")
		r.end(b)
	})
}

// BenchmarkStart measures how long a start takes until all objects are programmed. It measures a
// start on a node without any objects, and then a start on the node where all are programmed. It
// also measures the memory of the process:
//
//   - the resident memory when all objects are programmed, with the source and the garbage of the
//     start
//   - the part of the heap that the source alone uses
//   - the part of the heap that is in use when all objects are programmed
func BenchmarkStart(b *testing.B) {
	each(b, func(b *testing.B, s scale) {
		m := memory(b, s)
		var cold, again time.Duration
		source := inUse()
		rss, all, n := 0, 0, 0
		for b.Loop() {
			ns := node(b)
			for _, total := range []*time.Duration{&cold, &again} {
				began := time.Now()
				r := start(b, ns, m)
				r.programmed(b)
				*total += time.Since(began)
				rss = max(rss, resident(b, "self", "VmRSS"))
				all = max(all, inUse())
				requireAll(b, ns, r, s)
				r.end(b)
			}
			n++
		}
		b.ReportMetric(float64(cold.Milliseconds())/float64(n), "cold-ms")
		b.ReportMetric(float64(again.Milliseconds())/float64(n), "restart-ms")
		b.ReportMetric(float64(rss>>20), "rss-MiB")
		b.ReportMetric(float64(source>>20), "source-MiB")
		b.ReportMetric(float64(all>>20), "heap-MiB")
		b.ReportMetric(0, "ns/op") // it includes the making of the node
	})
}

// resident returns a memory figure of a process, in bytes: VmRSS is its RSS, VmHWM is its peak RSS.
func resident(tb testing.TB, pid, what string) int {
	tb.Helper()
	status, err := os.ReadFile("/proc/" + pid + "/status")
	require.NoError(tb, err)
	found := regexp.MustCompile(what + `:\s+(\d+) kB`).FindSubmatch(status)
	require.Len(tb, found, 2)
	kb, err := strconv.Atoi(string(found[1]))
	require.NoError(tb, err)
	return kb << 10
}

// inUse returns the heap of this process in use, in bytes.
func inUse() int {
	runtime.GC()
	runtime.GC() // the second one frees objects of a sync.Pool
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// TestWorlds checks that the smallest world can be measured, and that the kernel then has its
// state.
func TestWorlds(t *testing.T) {
	s := scale{endpoints: 300, policies: 50}
	m, ns := memory(t, s), node(t)
	r := start(t, ns, m)
	r.programmed(t)
	requireAll(t, ns, r, s)
	for role := range 5 {
		e := endpoint(locals, role+1)
		require.NoError(t, m.Update(t.Context(), []policy.Update{{Key: e.Key(), Resource: e}}))
		r.programmed(t)
		requireRole(t, ns, r, role+1)
	}
	r.end(t)
}
