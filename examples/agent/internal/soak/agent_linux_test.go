// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/gobuild"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// agent is the agent on a node: one process after the other.
type agent struct {
	t                 *testing.T
	node              *netns.NS
	binary, manifests string
	state             string
	client            *api.Client
	process           *exec.Cmd
	log               processLog
}

// processLog is the output of a process. It is safe for concurrent use: a test reads it while the
// process writes.
type processLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *processLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *processLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *processLog) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// httpAddress is the HTTP address of the agent, in the node's namespace.
const httpAddress = "127.0.0.1:9919"

func newAgent(t *testing.T, node *netns.NS) *agent {
	t.Helper()
	dir := t.TempDir()
	a := &agent{
		t: t, node: node, binary: filepath.Join(dir, "agent"), manifests: filepath.Join(dir, "manifests"), state: dir,
	}
	err := gobuild.Build(a.binary, "github.com/wayleave/wayleave/examples/agent")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(a.manifests, 0o700))
	a.client = api.NewClient(filepath.Join(dir, "agent.sock"))
	return a
}

// start starts the process, which ends with the test at the latest.
func (a *agent) start() {
	a.t.Helper()
	a.log.Reset()
	cmd := exec.Command(a.binary, "run", "--node", "n", "--manifests", a.manifests, "--socket",
		filepath.Join(a.state, "agent.sock"),
		"--endpoint-dir", filepath.Join(a.state, "endpoints"), "--http-address", httpAddress, "--log-level", "WARN")
	cmd.Stderr = &a.log
	require.NoError(a.t, a.node.Do(cmd.Start))
	a.process = cmd
	a.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if a.t.Failed() {
				a.t.Logf("the agent's log:\n%s", a.log.String())
			}
		}
	})
}

// end ends the process.
func (a *agent) end(signal os.Signal) {
	a.t.Helper()
	require.NoError(a.t, a.process.Process.Signal(signal))
	err := a.process.Wait()
	early := strings.Contains(fmt.Sprint(err), "signal: "+signal.String()) // before the agent handled signals
	if signal != os.Kill && !early {
		require.NoError(a.t, err, a.log.String())
	}
}

// ready waits until everything is programmed and nothing is at fault.
func (a *agent) ready() {
	a.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(waitTimeout); ; <-ticker.C {
		s, err := api.Get[api.Status](a.t.Context(), a.client, "/v1/status")
		if err == nil && s.Ready && !s.Pending && s.LastError == "" {
			return
		}
		require.False(a.t, time.Now().After(deadline), "is not ready: %v %+v\n%s", err, s, a.log.String())
	}
}

// wait waits until an endpoint is programmed.
func (a *agent) wait(endpoint string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), waitTimeout)
	defer cancel()
	_, err := api.Send[struct{}](ctx, a.client, http.MethodPost, "/v1/wait", api.Wait{Endpoint: endpoint})
	require.NoError(a.t, err)
}

// command runs a command on the node and returns its output.
func (a *agent) command(name string, args ...string) string {
	a.t.Helper()
	if path, err := exec.LookPath("/usr/sbin/" + name); err == nil {
		name = path
	}
	cmd := exec.Command(name, args...)
	var out []byte
	err := a.node.Do(func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	require.NoError(a.t, err, "%s", out)
	return string(out)
}

// kernel returns the agent's objects in the node's kernel, sorted.
func (a *agent) kernel() []string {
	a.t.Helper()
	rules := "" // if there is no table
	if strings.Contains(a.command("nft", "list", "tables"), "inet wayleave") {
		rules = nstest.WithoutEpoch(nstest.WithoutOwner(a.command("nft", "-s", "list", "table", "inet", "wayleave")))
	}
	return append(sorted(rules), sorted(a.command("ip", "route", "show", "proto", "219"))...)
}

// usage has the resources that the process uses.
type usage struct{ memory, goroutines, descriptors int }

func (u usage) String() string {
	return fmt.Sprintf("%d MiB, %d, %d", u.memory>>20, u.goroutines, u.descriptors)
}

func (a *agent) usage() usage {
	a.t.Helper()
	a.readyToServe()
	dial := func(context.Context, string, string) (conn net.Conn, err error) {
		err = a.node.Do(func() error {
			conn, err = net.Dial("tcp", httpAddress)
			return err
		})
		return conn, err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	response, err := client.Get("http://" + httpAddress + "/metrics")
	require.NoError(a.t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(a.t, err)
	require.NoError(a.t, response.Body.Close())
	number := func(name string) int {
		found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(body)
		require.Len(a.t, found, 2, name)
		value, err := strconv.ParseFloat(string(found[1]), 64)
		require.NoError(a.t, err)
		return int(value)
	}
	return usage{number("process_resident_memory_bytes"), number("go_goroutines"), number("process_open_fds")}
}

// readyToServe waits until the agent answers.
func (a *agent) readyToServe() {
	a.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(waitTimeout); ; <-ticker.C {
		if s, err := api.Get[api.Status](a.t.Context(), a.client, "/v1/status"); err == nil && s.Ready {
			return
		}
		require.False(a.t, time.Now().After(deadline), "does not answer\n%s", a.log.String())
	}
}
