// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// BenchmarkPolicyChanges measures single changes, from the update of the graph. The first end is
// when packets see the change and the next batch may come. The second end is when unused objects
// are deleted too. One change is the label of a remote endpoint, which moves it from one set to
// another. The other is a rule of a policy that applies to half of the 200 local endpoints. Each
// step must be a transaction.
func BenchmarkPolicyChanges(b *testing.B) {
	w := sized(snapshot{100_000, 10_000}, snapshot{10_000, 1000})
	label, edit := &comparison{}, &comparison{}
	for _, f := range forms() {
		graph, first := w.load(b)
		ns := nstest.New(b)
		d := open(b, ns, f.config)
		require.NoError(b, d.Apply(b.Context(), first))
		change := func(resource policy.Resource, whole bool) float64 {
			before, begin := generation(b, ns), time.Now()
			graph.Update(policy.Update{Key: resource.Key(), Resource: resource})
			require.NoError(b, d.ApplyVisible(b.Context(), graph.Flush()))
			took := time.Since(begin)
			require.NoError(b, d.Finish(b.Context()))
			if whole {
				took = time.Since(begin)
			}
			require.Greater(b, generation(b, ns), before, "the kernel has the change")
			return float64(took)
		}
		graph.Update(policy.Update{Key: w.wide(0).Key(), Resource: w.wide(0)})
		added := graph.Flush()
		require.Equal(b, 100, endpointsIn(added))
		require.NoError(b, d.Apply(b.Context(), added))
		labels, edits := 0, 0
		label.add("label/"+w.String(), f.name, "ns", func(*testing.B) float64 {
			labels++
			return change(w.moved(labels), false)
		})
		edit.add("edit-on-100/"+w.String(), f.name, "ns", func(*testing.B) float64 {
			edits++
			return change(w.wide(edits), false)
		})
		edit.add("edit-on-100-finished/"+w.String(), f.name, "ns", func(*testing.B) float64 {
			edits++
			return change(w.wide(edits), true)
		})
	}
	label.run(b, sized(500, 50))
	edit.run(b, sized(60, 10))
}

// moved returns a remote endpoint. Odd steps, from 1, move an endpoint to another set. The next
// step moves it back.
func (w snapshot) moved(step int) policy.Resource {
	s := 1 + (step-1)/2%w.remote
	e := w.endpoint(s)
	if step%2 == 1 {
		e.Labels = w.endpoint(s + 2).Labels // the endpoint after the next always has another marker
	}
	return e
}

// wide is a policy that applies to half of the local endpoints. Each version differs from all
// others in one rule, so the kernel never has its chains already.
func (w snapshot) wide(version int) policy.Resource {
	p := w.policy(0)
	p.Ingress[2].Protocol = policy.ProtocolTCP
	p.Ingress[2].Destination.Ports = []policy.Port{policy.PortRange(1, uint16(1+version))}
	p.Name, p.Selector = "wide", "one-in-10 in {'value-0', 'value-2', 'value-4', 'value-6', 'value-8'}"
	return p
}

// Every step of the measured changes changes the batch.
func TestMeasuredChangesHaveAnEffect(t *testing.T) {
	w := snapshot{100, 31}
	graph, _ := w.load(t)
	set := func(r policy.Resource) dataplane.Batch {
		graph.Update(policy.Update{Key: r.Key(), Resource: r})
		return graph.Flush()
	}
	require.Equal(t, 100, endpointsIn(set(w.wide(0))))
	for step := 1; step <= 2*w.remote; step++ {
		require.NotEmpty(t, set(w.moved(step)).Events, "label, step %d", step)
		require.NotEmpty(t, set(w.wide(step)).Events, "edit, step %d", step)
	}
}

// endpointsIn counts the endpoints in a batch.
func endpointsIn(batch dataplane.Batch) (count int) {
	for _, e := range batch.Events {
		if _, ok := e.(*dataplane.EndpointUpdate); ok {
			count++
		}
	}
	return count
}

// BenchmarkPolicyEmpty measures how long it takes to program W1 from empty after the graph has
// computed the events. It also measures the kernel memory: the growth of slab, per-CPU and vmalloc
// memory.
func BenchmarkPolicyEmpty(b *testing.B) {
	w := sized(snapshot{250_000, 10_000}, snapshot{25_000, 1000})
	_, first := w.load(b)
	c := &comparison{}
	for _, f := range forms() {
		var used float64
		c.add("program/"+w.String(), f.name, "ns", func(b *testing.B) float64 {
			// The namespaces stay until the end: their deletion runs in the background, and frees
			// memory.
			d, err := nft.New(nft.Config{Renderer: f.config, NetNS: nstest.New(b).FD()})
			require.NoError(b, err)
			memory := kernelMemory(b)
			begin := time.Now()
			require.NoError(b, d.Apply(b.Context(), first))
			took := time.Since(begin)
			used = kernelMemory(b) - memory
			require.NoError(b, d.Close())
			return float64(took)
		})
		c.add("memory/"+w.String(), f.name, "B", func(*testing.B) float64 { return used })
	}
	c.run(b, 3)
}

// kernelMemory returns the memory that the kernel uses for its own data, in bytes.
func kernelMemory(b *testing.B) (bytes float64) {
	b.Helper()
	for range 2 { // memory is free after a grace period
		_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, 1, 0, 0) // MEMBARRIER_CMD_GLOBAL
		require.Zero(b, errno)
	}
	file, err := os.Open("/proc/meminfo")
	require.NoError(b, err)
	defer func() { require.NoError(b, file.Close()) }()
	found := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if slices.Contains([]string{"SUnreclaim:", "Percpu:", "VmallocUsed:"}, fields[0]) {
			kB, err := strconv.ParseFloat(fields[1], 64)
			require.NoError(b, err)
			bytes += kB * 1024
			found++
		}
	}
	require.Equal(b, 3, found)
	return bytes
}
