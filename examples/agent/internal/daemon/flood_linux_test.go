// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/gobuild"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Hundreds of idle or slow connections to the HTTP address prevent neither a probe there nor
// commands on the socket.
func TestFloodOfConnections(t *testing.T) {
	const many = 600
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	address := regexp.MustCompile(`serving health and metrics" address=(\S+)`).FindStringSubmatch(r.log.String())[1]
	flood(t, node, address, many)
	for range 3 {
		code, _ := r.http(t, "/livez")
		require.Equal(t, 200, code)
		require.True(t, get[api.Status](t, r, "/v1/status").Ready)
	}
	require.Contains(t, r.log.String(), "connection limit reached")
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		_, err := r.Raw(t.Context(), path)
		require.NoError(t, err, "the socket serves it, too")
	}
	r.end(t)
}

// flood opens connections to an address of a node until the test ends. They are idle, have sent a
// part of a header, or have sent nothing.
func flood(t *testing.T, node *netns.NS, address string, many int) {
	t.Helper()
	var conns []net.Conn
	t.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	require.NoError(t, node.Do(func() error {
		for i := range many {
			c, err := net.Dial("tcp", address)
			if err != nil {
				return err
			}
			conns = append(conns, c)
			text := []string{"GET /livez HTTP/1.1\r\nHost: agent\r\n\r\n", "GET /livez HTTP/1.1\r\nHost: ", ""}[i%3]
			if _, err := io.WriteString(c, text); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Clients that reconnect to the HTTP address all the time, with or without requests, prevent
// neither a probe there nor a command on the socket. The limit of connections does not close the
// connection of a probe before the probe has its answer.
func TestReconnectingClientsKeepNoProbeOut(t *testing.T) {
	const clients, times = 400, 10_000
	probes := 20
	if testing.Short() {
		probes = 3 // they wait for a processor in a slow guest
	}
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	address := regexp.MustCompile(`serving health and metrics" address=(\S+)`).FindStringSubmatch(r.log.String())[1]
	stop := reconnect(t, node, address, clients, times)
	r.log.await(t, "connection limit reached")
	// A kubelet ends a container whose liveness probe fails three times in a row. On a busy machine
	// the limit may close the connection of a client that waits too long for its processor.
	answered := func(probe func() error) {
		t.Helper()
		err := probe()
		for try := 1; err != nil && try < 3; try++ {
			err = probe()
		}
		require.NoError(t, err)
	}
	for range probes {
		answered(func() error { return live(r.node, address) })
		answered(func() error {
			_, err := r.WithTimeout(waitTimeout).Raw(t.Context(), "/livez")
			return err
		})
	}
	connections := stop()
	_, metrics := r.http(t, "/metrics")
	closed := regexp.MustCompile(`(?m)^wayleave_connections_closed_total (\S+)$`).FindStringSubmatch(metrics)
	require.Len(t, closed, 2)
	t.Logf("%d connections, %s closed by the limit, %d probes each", connections, closed[1], probes)
	r.end(t)
}

// live requests /livez over TCP, from the namespace of the node.
func live(node *netns.NS, address string) error {
	return node.Do(func() error {
		c, err := net.DialTimeout("tcp", address, waitTimeout)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(waitTimeout))
		if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: agent\r\n\r\n"); err != nil {
			return err
		}
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

// reconnect starts clients that connect repeatedly, each at most the given number of times, until
// stop is called. stop returns the number of connections. The clients request health or metrics,
// send a part of a header, send nothing, or disconnect at once.
func reconnect(t *testing.T, node *netns.NS, address string, clients, times int) (stop func() int64) {
	t.Helper()
	var running sync.WaitGroup
	var ending atomic.Bool
	var connections atomic.Int64
	texts := []string{
		"GET /livez HTTP/1.1\r\nHost: agent\r\n\r\n", "GET /metrics HTTP/1.1\r\nHost: agent\r\n\r\n",
		"GET /livez HTTP/1.1\r\nHost: ", "", "",
	}
	connect := func(kind int) {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		connections.Add(1)
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(c, texts[kind])
		switch kind {
		case 0, 1: // reads the beginning of the answer
			_, _ = c.Read(make([]byte, 4096))
		case 2, 3: // waits until the agent closes the connection
			_, _ = io.Copy(io.Discard, c)
		}
	}
	for i := range clients {
		running.Go(func() {
			_ = node.Do(func() error {
				for n := 0; n < times && !ending.Load(); n++ {
					connect(i % len(texts))
				}
				return nil
			})
		})
	}
	stop = func() int64 {
		ending.Store(true)
		running.Wait()
		return connections.Load()
	}
	t.Cleanup(func() { stop() })
	return stop
}

// An agent with few file descriptors has enough of them for the socket, however many connections
// the HTTP address has. If the agent is stopped by SIGSTOP, commands end with a timeout.
func TestFloodWithFewDescriptors(t *testing.T) {
	node, dir := shop(t)
	state := t.TempDir()
	binary := filepath.Join(state, "agent")
	err := gobuild.Build(binary, "github.com/wayleave/wayleave/examples/agent")
	require.NoError(t, err)
	socket := filepath.Join(state, "s")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -n 256 && exec "$0" "$@"`, binary, "run", "--node", "n",
		"--manifests", dir, "--http-address", "127.0.0.1:0", "--socket", socket,
		"--endpoint-dir", filepath.Join(state, "endpoints"))
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, node.Do(cmd.Start))
	var rest bytes.Buffer
	read := make(chan struct{})
	defer func() {
		require.NoError(t, cmd.Process.Kill())
		<-read
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the agent's log:\n%s", rest.String())
		}
	}()
	address, lines := "", bufio.NewScanner(io.TeeReader(stderr, &rest))
	serving := regexp.MustCompile(`serving health and metrics" address=(\S+)`)
	for address == "" && lines.Scan() {
		if found := serving.FindStringSubmatch(lines.Text()); found != nil {
			address = found[1]
		}
	}
	go func() { // reads all, so that the agent's writes never block
		defer close(read)
		_, _ = io.Copy(&rest, stderr)
	}()
	require.NotEmpty(t, address)

	flood(t, node, address, 500)
	client := api.NewClient(socket).WithTimeout(waitTimeout)
	_, err = client.Raw(t.Context(), "/livez")
	require.NoError(t, err)
	require.NoError(t, node.Do(func() error {
		c, err := net.DialTimeout("tcp", address, waitTimeout)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, err = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: agent\r\n\r\n")
		if err = errors.Join(err, c.SetDeadline(time.Now().Add(waitTimeout))); err != nil {
			return err
		}
		answer := make([]byte, len("HTTP/1.1 200"))
		_, err = io.ReadFull(c, answer)
		require.Equal(t, "HTTP/1.1 200", string(answer))
		return err
	}))

	nstest.Stop(t, cmd.Process)
	_, err = api.Get[api.Status](t.Context(), client.WithTimeout(20*time.Millisecond), "/v1/status")
	require.ErrorIs(t, err, api.ErrNoAnswer)
}
