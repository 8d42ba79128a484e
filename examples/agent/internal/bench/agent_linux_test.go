// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/gobuild"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// layout is a form of a world for the agent: files of one kind in a folder.
type layout struct {
	name string
	// iface is the name of a local endpoint's interface.
	iface func(i int) string
	write func(tb testing.TB, dir string, s scale)
	// writeOne writes the endpoint after the local ones with another role.
	writeOne func(tb testing.TB, dir string, role int)
}

func layouts() []layout {
	return []layout{
		{"resources", func(i int) string { return "way" + strconv.Itoa(i) }, writeResources, writeResource},
		{
			"manifests", func(i int) string { return convert.InterfaceName("ns", "e"+strconv.Itoa(i)) }, writeManifests,
			writeManifest,
		},
	}
}

// writeResources writes the world as resources, one file each.
func writeResources(tb testing.TB, dir string, s scale) {
	tb.Helper()
	for i, u := range world(s) {
		data, err := policy.Encode(u.Resource)
		require.NoError(tb, err)
		replace(tb, filepath.Join(dir, strconv.Itoa(i)+".json"), data)
	}
}

func writeResource(tb testing.TB, dir string, role int) {
	tb.Helper()
	data, err := policy.Encode(endpoint(locals, role))
	require.NoError(tb, err)
	replace(tb, filepath.Join(dir, strconv.Itoa(locals)+".json"), data)
}

// replace puts a file in place.
func replace(tb testing.TB, path string, data []byte) {
	tb.Helper()
	require.NoError(tb, os.WriteFile(path+".half", data, 0o600))
	require.NoError(tb, os.Rename(path+".half", path))
}

// writeManifests writes the same as manifests of Kubernetes, a thousand objects a file.
func writeManifests(tb testing.TB, dir string, s scale) {
	tb.Helper()
	file, count := bytes.Buffer{}, 0
	add := func(format string, args ...any) {
		fmt.Fprintf(&file, format+"---\n", args...)
		if count++; count%1000 == 0 {
			replace(tb, filepath.Join(dir, fmt.Sprintf("%06d.yaml", count)), file.Bytes())
			file.Reset()
		}
	}
	add("apiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n")
	for i := range s.endpoints {
		if i == locals {
			continue // has a file of its own
		}
		add("%s", podManifest(endpoint(i, i%roles)))
	}
	writeManifest(tb, dir, 0)
	for i := range s.policies {
		add(`apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: ns, name: p%d}
spec:
  podSelector: {matchLabels: {app: a%d}}
  ingress: [{from: [{podSelector: {matchLabels: {role: r%d}}}], ports: [{port: %d}]}]
`, i, i%locals, i%roles, 1+i)
	}
	replace(tb, filepath.Join(dir, "rest.yaml"), file.Bytes())
}

func writeManifest(tb testing.TB, dir string, role int) {
	tb.Helper()
	replace(tb, filepath.Join(dir, "one.yaml"), []byte(podManifest(endpoint(locals, role))))
}

func podManifest(e *policy.WorkloadEndpoint) string {
	var labels []string
	for k, v := range e.Labels {
		labels = append(labels, fmt.Sprintf("%s: %q", k, v))
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {namespace: ns, name: %s, labels: {%s}}
spec: {nodeName: %s, containers: [{name: c}]}
status: {podIPs: [{ip: %s}]}
`, e.Name, strings.Join(labels, ", "), e.Node, e.Addresses[0])
}

// process is an agent that runs by itself.
type process struct {
	*exec.Cmd
	client *api.Client
	said   *bytes.Buffer
}

func startProcess(tb testing.TB, ns *netns.NS, binary, layout, dir string) *process {
	tb.Helper()
	state := tb.TempDir()
	socket := filepath.Join(state, "s")
	p := &process{client: api.NewClient(socket), said: &bytes.Buffer{}}
	p.Cmd = exec.Command(binary, "run", "--node", "n", "--"+layout, dir, "--socket", socket, "--http-address", "",
		"--endpoint-dir", filepath.Join(state, "endpoints"), "--log-level", "WARN")
	p.Stderr = p.said
	require.NoError(tb, ns.Do(p.Start))
	tb.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// ready waits until all is programmed.
func (p *process) ready(tb testing.TB) {
	tb.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(waitTimeout); ; <-ticker.C {
		s, err := api.Get[api.Status](tb.Context(), p.client, "/v1/status")
		if err == nil && s.Ready && !s.Pending && s.LastError == "" {
			return
		}
		require.False(tb, time.Now().After(deadline), "is not ready: %v %+v\n%s", err, s, p.said)
	}
}

func (p *process) resident(tb testing.TB, what string) int {
	return resident(tb, strconv.Itoa(p.Process.Pid), what)
}

// heap returns the agent's heap in use after a collection, in bytes, and its profile.
func (p *process) heap(tb testing.TB) (int, []byte) {
	tb.Helper()
	text, err := p.client.Raw(tb.Context(), "/v1/profile?name=heap&text=true")
	require.NoError(tb, err)
	found := regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`).FindSubmatch(text)
	require.Len(tb, found, 2, "%s", text)
	value, err := strconv.Atoi(string(found[1]))
	require.NoError(tb, err)
	profile, err := p.client.Raw(tb.Context(), "/v1/profile?name=heap")
	require.NoError(tb, err)
	return value, profile
}

// change changes a label of a peer again and again, as happens after a start.
func (p *process) change(b *testing.B, l layout, dir string) {
	const changes = 1000
	for i := range changes {
		before := p.attempts(b)
		l.writeOne(b, dir, (i+1)%roles)
		for deadline := time.Now().Add(waitTimeout); p.attempts(b) == before; {
			require.False(b, time.Now().After(deadline), "a change is not programmed; %s", p.said)
		}
	}
}

func (p *process) attempts(b *testing.B) uint64 {
	s, err := api.Get[api.Status](b.Context(), p.client, "/v1/status")
	require.NoError(b, err)
	return s.Attempts
}

// build builds the agent without the race detector, which multiplies its memory.
func build(tb testing.TB) string {
	tb.Helper()
	return buildWith(tb, gobuild.NoRace)
}

// buildWith builds the agent with flags of gobuild.Build.
func buildWith(tb testing.TB, flags ...string) string {
	tb.Helper()
	binary := filepath.Join(tb.TempDir(), "agent")
	err := gobuild.Build(binary, "github.com/wayleave/wayleave/examples/agent", flags...)
	require.NoError(tb, err)
	return binary
}

// TestLayouts checks that an agent reads the expected objects from each layout.
func TestLayouts(t *testing.T) {
	s := scale{endpoints: 1300, policies: roles}
	binary := buildWith(t)
	for _, l := range layouts() {
		dir, ns := t.TempDir(), nstest.New(t)
		l.write(t, dir, s)
		links(t, ns, l.iface)
		p := startProcess(t, ns, binary, l.name, dir)
		p.ready(t)
		requireClasses(t, ns, s)
		inUse, profile := p.heap(t)
		require.NotZero(t, inUse)
		require.NotEmpty(t, profile)
		require.NoError(t, p.Process.Signal(os.Interrupt))
		require.NoError(t, p.Wait(), p.said)
	}
}

// BenchmarkAgent runs an agent in a process of its own, which reads a folder. It measures the time
// until the agent is ready, and three figures after the start and a thousand changes: RSS, peak RSS
// and the heap in use.
func BenchmarkAgent(b *testing.B) {
	binary := build(b)
	for _, l := range layouts() {
		b.Run(l.name, func(b *testing.B) {
			each(b, func(b *testing.B, s scale) { benchmarkAgent(b, s, l, binary) })
		})
	}
}

func benchmarkAgent(b *testing.B, s scale, l layout, binary string) {
	dir := b.TempDir()
	l.write(b, dir, s)
	var took time.Duration
	rss, peak, heap, n := 0, 0, 0, 0
	for b.Loop() {
		ns := nstest.New(b)
		links(b, ns, l.iface)
		began := time.Now()
		p := startProcess(b, ns, binary, l.name, dir)
		p.ready(b)
		took += time.Since(began)
		requireClasses(b, ns, s)
		p.change(b, l, dir)
		rss, peak = max(rss, p.resident(b, "VmRSS")), max(peak, p.resident(b, "VmHWM"))
		inUse, profile := p.heap(b)
		heap = max(heap, inUse)
		if *profiles != "" {
			name := fmt.Sprintf("%s-%d-%d.heap", l.name, s.endpoints, s.policies)
			require.NoError(b, os.WriteFile(filepath.Join(*profiles, name), profile, 0o600))
		}
		require.NoError(b, p.Process.Signal(os.Interrupt))
		require.NoError(b, p.Wait(), p.said)
		n++
	}
	b.ReportMetric(float64(took.Milliseconds())/float64(n), "ready-ms")
	b.ReportMetric(float64(rss)/1e6, "rss-MB")
	b.ReportMetric(float64(peak)/1e6, "peak-rss-MB")
	b.ReportMetric(float64(heap)/1e6, "heap-MB")
	b.ReportMetric(0, "ns/op") // it includes the making of the node
}
