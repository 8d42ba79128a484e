// SPDX-License-Identifier: Apache-2.0

//go:build !noetcdserver

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/health"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// agentMode in the environment makes a process of the test binary the agent.
const agentMode = "TEST_IS_THE_AGENT"

// processOutput is the output of a process. It is safe for concurrent use.
type processOutput struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{} // closed at the next write; nil if no goroutine waits
}

func (o *processOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written != nil {
		close(o.written)
		o.written = nil
	}
	return o.text.Write(p)
}

// next returns the output so far, and a channel that is closed at the next write.
func (o *processOutput) next() (text string, written <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written == nil {
		o.written = make(chan struct{})
	}
	return o.text.String(), o.written
}

// await waits until a text is in the output.
func (o *processOutput) await(t *testing.T, want string) {
	t.Helper()
	timeout := time.After(waitTimeout)
	for {
		text, written := o.next()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-written:
		case <-timeout:
			require.Fail(t, "not in the output: "+want)
		}
	}
}

func (o *processOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process is a process in a namespace. It is killed when the test ends.
type process struct {
	cmd *exec.Cmd
	out processOutput
}

func startProcess(t *testing.T, ns *netns.NS, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	require.NoError(t, ns.Do(cmd.Start))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", cmd, &p.out)
		}
	})
	return p
}

// agentProcess is a process that runs the agent of node n1, in the namespace of the node.
type agentProcess struct {
	*process
	t      *testing.T
	ns     *netns.NS
	socket string
}

const agentHTTP = "127.0.0.1:9919"

func startAgentProcess(t *testing.T, ns *netns.NS, args ...string) *agentProcess {
	t.Helper()
	a := &agentProcess{t: t, ns: ns, socket: filepath.Join(t.TempDir(), "agent.sock")}
	cmd := exec.Command("/proc/self/exe", append([]string{
		"run", "--node", "n1", "--socket", a.socket, "--endpoint-dir", "", "--http-address", agentHTTP,
		"--log-level", "DEBUG",
	}, args...)...)
	cmd.Env = append(os.Environ(), agentMode+"=1")
	a.process = startProcess(t, ns, cmd)
	return a
}

// status polls the agent's status until holds reports true, and returns it. Most fields of the
// status change without an event or a line in the log.
func (a *agentProcess) status(what string, holds func(api.Status) bool) api.Status {
	a.t.Helper()
	var last api.Status
	await(a.t, what, func() bool {
		s, err := api.Get[api.Status](a.t.Context(), api.NewClient(a.socket), "/v1/status")
		if err == nil {
			last = s
		}
		return err == nil && holds(s)
	}, func() any { return last.Store })
	return last
}

// get sends an HTTP request to the agent, in its namespace.
func (a *agentProcess) get(path string) (code int, body []byte) {
	a.t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: dialIn(a.ns), DisableKeepAlives: true}}
	response, err := client.Get("http://" + agentHTTP + path)
	require.NoError(a.t, err)
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	require.NoError(a.t, err)
	return response.StatusCode, body
}

// source returns the state of the sources from /readyz, and the status code.
func (a *agentProcess) source() (code int, source health.Result) {
	a.t.Helper()
	code, body := a.get("/readyz")
	var r health.Report
	require.NoError(a.t, json.Unmarshal(body, &r))
	require.Equal(a.t, "source", r.Components[0].Name)
	return code, r.Components[0]
}

// await polls until holds reports true. For states with an event, see awaitStored and
// processOutput.await.
func await(t *testing.T, what string, holds func() bool, last ...func() any) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(waitTimeout); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			var seen []any
			for _, f := range last {
				seen = append(seen, f())
			}
			require.Fail(t, "timeout: "+what, "%+v", seen)
		}
	}
}

// awaitStored waits until holds reports true. Only a change of a key in etcd may change its result.
func awaitStored(t *testing.T, raw *clientv3.Client, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	changes := raw.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	for first := true; first || !holds(); first = false {
		_, ok := <-changes // the first message means that the watch has begun
		require.True(t, ok, "timeout: %s", what)
	}
}

func dialIn(ns *netns.NS) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = ns.Do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}

// nodeEtcd is an etcd in this process with its sockets in a namespace. It keeps its data over stop
// and start.
type nodeEtcd struct {
	t      *testing.T
	ns     *netns.NS
	config func(port int) *embed.Config
	etcd   *embed.Etcd
	url    string
}

func startNodeEtcd(t *testing.T, ns *netns.NS, scheme string, change func(*embed.Config)) *nodeEtcd {
	t.Helper()
	dir := t.TempDir()
	s := &nodeEtcd{t: t, ns: ns, url: fmt.Sprintf("%s://127.0.0.1:%d", scheme, etcdPort)}
	s.config = func(port int) *embed.Config {
		cfg := embed.NewConfig()
		cfg.Dir, cfg.UnsafeNoFsync, cfg.EnableGRPCGateway = dir, true, false
		cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		cfg.TickMs, cfg.ElectionMs = 10, 100
		cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
		cfg.ListenClientUrls = []url.URL{{Scheme: scheme, Host: fmt.Sprintf("127.0.0.1:%d", port)}}
		change(cfg)
		return cfg
	}
	s.start(etcdPort)
	t.Cleanup(s.stop)
	return s
}

// start starts the server, on an unknown port.
func (s *nodeEtcd) start(port int) {
	s.t.Helper()
	require.NoError(s.t, s.ns.Do(func() (err error) { // the server opens its sockets before StartEtcd returns
		s.etcd, err = embed.StartEtcd(s.config(port))
		return err
	}))
	select {
	case <-s.etcd.Server.ReadyNotify():
	case <-time.After(waitTimeout):
		require.Fail(s.t, "etcd does not start")
	}
}

func (s *nodeEtcd) stop() {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
}

// client returns a client whose connections are made in the namespace.
func (s *nodeEtcd) client(changes ...func(*clientv3.Config)) (*clientv3.Client, *etcd.Store) {
	s.t.Helper()
	raw, err := clientFrom(s.ns, s.url, changes...)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = raw.Close() })
	client, err := etcd.NewClient(etcd.Config{Etcd: raw})
	require.NoError(s.t, err)
	store, err := etcd.NewStore(etcd.StoreConfig{Client: client})
	require.NoError(s.t, err)
	return raw, store
}

// kernel returns the agent's table in the kernel, with handles: a new object has a new handle.
func (a *agentProcess) kernel() string {
	a.t.Helper()
	var out []byte
	require.NoError(a.t, a.ns.Do(func() (err error) {
		out, err = exec.Command(nftPath(), "-s", "-a", "list", "table", "inet", "wayleave").CombinedOutput()
		return err
	}), "%s", out)
	return nstest.WithoutOwner(string(out))
}

func nftPath() string {
	if path, err := exec.LookPath("/usr/sbin/nft"); err == nil {
		return path
	}
	return "nft"
}

// monitor records every change of nftables in the namespace.
type monitor struct {
	*process
	t  *testing.T
	ns *netns.NS
}

func startMonitor(t *testing.T, ns *netns.NS) *monitor {
	t.Helper()
	m := &monitor{process: startProcess(t, ns, exec.Command(nftPath(), "monitor")), t: t, ns: ns}
	m.mark("begin")
	return m
}

// mark makes a change of its own and waits until the monitor reports it. The monitor has then
// reported all earlier changes.
func (m *monitor) mark(name string) {
	m.t.Helper()
	await(m.t, "the monitor", func() bool {
		require.NoError(m.t, m.ns.Do(exec.Command(nftPath(), "add table ip "+name+"; delete table ip "+name).Run))
		return strings.Contains(m.out.String(), name)
	})
}

// changes returns the changes so far, without the marks and the changes of the table's owner.
func (m *monitor) changes() (lines []string) {
	m.t.Helper()
	m.mark("end")
	for line := range strings.Lines(m.out.String()) {
		if !strings.HasSuffix(line, "\n") {
			break // the last line is not complete yet
		}
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !strings.Contains(line, "table ip ") &&
			!strings.HasPrefix(line, "add table inet wayleave") {
			lines = append(lines, line)
		}
	}
	return lines
}
