// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/server"
)

// flood is a number of clients that connect repeatedly.
type flood struct {
	clients     sync.WaitGroup
	ending      atomic.Bool
	connections atomic.Int64
}

// startFlood starts clients that connect repeatedly, each at most the given number of times, until
// the test ends. Some send a request and read the answer. Some send a part of a header, or nothing,
// and wait until the server closes the connection. The last kind disconnects at once, over TCP
// only: on a Unix socket, they would fill the queue of the listener.
func startFlood(t *testing.T, network, address string, clients, times int) *flood {
	t.Helper()
	f := &flood{}
	t.Cleanup(f.stop)
	for i := range clients {
		f.clients.Go(func() {
			for n := 0; n < times && !f.ending.Load(); n++ {
				c, err := net.DialTimeout(network, address, time.Second)
				if err != nil {
					continue
				}
				f.connections.Add(1)
				_ = c.SetDeadline(time.Now().Add(time.Second))
				switch i % 4 {
				case 0:
					_, _ = io.WriteString(c, get)
					_, _ = c.Read(make([]byte, 4096))
				case 1:
					_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: ")
					_, _ = io.Copy(io.Discard, c)
				case 2:
					_, _ = io.Copy(io.Discard, c)
				case 3:
					if network == "unix" {
						_, _ = io.Copy(io.Discard, c)
					}
				}
				_ = c.Close()
			}
		})
	}
	return f
}

// stop ends the flood, and waits until all clients have ended.
func (f *flood) stop() {
	f.ending.Store(true)
	f.clients.Wait()
}

// probe sends a request on a new connection and reads the answer.
func probe(network, address string) error {
	c, err := net.DialTimeout(network, address, waitTimeout)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(waitTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, get); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	_, err = io.ReadAll(response.Body)
	return err
}

// Clients that reconnect all the time make the limit close a connection for each new one. It does
// not close the connection of a probe before the probe has its answer.
func TestReconnectingClientsKeepNoProbeOut(t *testing.T) {
	const limit, clients, times, probes = 64, 200, 20_000, 10
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			l, err := net.Listen(network, address)
			require.NoError(t, err)
			var closed atomic.Int64
			ended := make(chan error, 1)
			go func() {
				ended <- server.Run(t.Context(), server.Config{
					Listener: l, Handler: http.HandlerFunc(ok), MaxConns: limit, Closed: func() { closed.Add(1) },
					EvictAfter: 250 * time.Millisecond, // on a busy machine a probe may take some of that
				})
			}()
			address = l.Addr().String()
			f := startFlood(t, network, address, clients, times)
			failed, begun := 0, time.Now()
			for range probes {
				if err := probe(network, address); err != nil {
					t.Log(err)
					failed++
				}
			}
			duration := time.Since(begun)
			f.stop()
			t.Logf("%d connections, %d closed by the limit of %d, %d of %d probes failed in %s", f.connections.Load(),
				closed.Load(), limit, failed, probes, duration)
			require.Zero(t, failed)
			require.Greater(t, closed.Load(), int64(limit), "no flood")
		})
	}
}
