// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

func TestMain(m *testing.M) { nstest.Main(m) }

const deadline = 20 * time.Second

const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"

func pod(name, ip string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: %s}
spec: {nodeName: n, containers: [{name: c}]}
status: {podIPs: [{ip: %q}]}
`, name, ip)
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	half := filepath.Join(dir, "."+name)
	require.NoError(t, os.WriteFile(half, []byte(content), 0o600))
	require.NoError(t, os.Rename(half, filepath.Join(dir, name)))
}

// log has the text that was logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a running pipeline on a node of the test.
type running struct {
	config pipeline.Config
	log    *log
	states chan pipeline.State
	stop   context.CancelFunc
	ended  chan error
}

func start(t *testing.T, node *netns.NS, dir string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{log: &log{}, states: make(chan pipeline.State, 1000), stop: cancel, ended: make(chan error, 1)}
	r.config = pipeline.Config{
		Manifests: dir, Node: "n", NetNS: node.FD(), ForwardIPv6: true,
		Logger: slog.New(slog.NewTextHandler(r.log, nil)), Programmed: func(s pipeline.State) { r.states <- s },
	}
	go func() { r.ended <- pipeline.Run(ctx, r.config) }()
	t.Cleanup(cancel)
	return r
}

// end stops the pipeline, and requires that it ends without an error.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		require.NoError(t, err)
	case <-time.After(deadline):
		t.Fatal("does not end")
	}
}

// until waits for a state for which holds reports true.
func (r *running) until(t *testing.T, holds func(pipeline.State) bool) {
	t.Helper()
	timeout := time.After(deadline)
	for {
		select {
		case s := <-r.states:
			if holds(s) {
				return
			}
		case err := <-r.ended:
			t.Fatalf("ended: %v", err)
		case <-timeout:
			t.Fatalf("no such state; log:\n%s", r.log)
		}
	}
}

// programmed returns a function that reports whether the current manifests are in the kernel.
func (r *running) programmed(t *testing.T) func(pipeline.State) bool {
	t.Helper()
	world, _ := pipeline.Load(r.config)
	want, err := pipeline.Render(r.config, world)
	require.NoError(t, err)
	return func(s pipeline.State) bool { return s.Err == nil && s.Table() != nil && s.Table().Equal(want) }
}

func TestRun(t *testing.T) {
	node := nstest.New(t)
	dir := t.TempDir()
	nstest.NewWorkload(t, node, convert.InterfaceName("shop", "web"), "10.0.0.1", "2001:db8::1")
	write(t, dir, "a.yaml", namespace)
	write(t, dir, "web.yaml", pod("web", "10.0.0.1"))
	write(t, dir, "broken.yaml", pod("db", "10.0.0"))
	r := start(t, node, dir)
	r.until(t, r.programmed(t))
	require.Contains(t, r.log.String(), "file=broken.yaml document=1 line=6")
	require.Contains(t, r.log.String(), `object="Pod shop/db" field=status.podIPs[0].ip`)

	// S124: once the file is corrected, its pod has no interface yet. That is not a failure.
	write(t, dir, "broken.yaml", pod("db", "10.0.0.2"))
	line := `level=INFO msg="endpoint is down" endpoint=WorkloadEndpoint/shop/db`
	down := func(n int) func(pipeline.State) bool {
		return func(pipeline.State) bool { return strings.Count(r.log.String(), line) == n }
	}
	r.until(t, down(1))

	// The interface appears. At the end of the pod, the interface is removed before the file.
	nstest.NewWorkload(t, node, convert.InterfaceName("shop", "db"), "10.0.0.2")
	r.until(t, func(pipeline.State) (there bool) {
		require.NoError(t, node.Do(func() error {
			routes, err := exec.Command("ip", "route", "show", "10.0.0.2").Output()
			there = len(routes) > 0
			return err
		}))
		return there
	})
	require.NoError(t, node.DeleteLink(convert.InterfaceName("shop", "db")))
	r.until(t, down(2))
	require.NoError(t, os.Remove(filepath.Join(dir, "broken.yaml")))
	r.until(t, r.programmed(t))
	require.NotContains(t, r.log.String(), "level=WARN")
	require.NotContains(t, r.log.String(), "programming works again", "nothing failed")
	r.end(t)

	// The next pipeline takes over.
	r = start(t, node, dir)
	r.until(t, r.programmed(t))
	require.NotContains(t, r.log.String(), "level=ERROR")
	r.end(t)
}

func TestRunFails(t *testing.T) {
	node := nstest.New(t)
	run := func(cfg pipeline.Config) error { return pipeline.Run(t.Context(), cfg) }
	err := run(pipeline.Config{})
	require.ErrorContains(t, err, "Manifests")
	require.ErrorContains(t, err, "Node")
	require.Error(t, run(pipeline.Config{
		Manifests: t.TempDir(), Node: "n", NetNS: node.FD(), InterfacePrefix: "longer-than-any-name",
	}))
	_, err = pipeline.Render(pipeline.Config{}, nil)
	require.ErrorContains(t, err, "Node")
}
