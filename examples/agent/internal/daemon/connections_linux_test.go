// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

const connectionsKept = `apiVersion: wayleave.dev/v1
kind: AgentConfig
metadata: {name: default}
spec: {conntrack-policy: keep, tcp-from-syn: false}
`

// A connection ends if an edited policy denies it, unless a setting in the manifests keeps it.
func TestDeniedConnectionsEnd(t *testing.T) {
	for name, kept := range map[string]bool{"end": false, "keep": true} {
		t.Run(name, func(t *testing.T) {
			node, dir := nstest.New(t), t.TempDir()
			web := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "web"), "10.0.0.1")
			cart := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "cart"), "10.0.0.2")
			write(t, dir, "pods.yaml", namespace+pod("web", "10.0.0.1")+pod("cart", "10.0.0.2"))
			write(t, dir, "policy.yaml", allow("cart", "web", 80))
			if kept {
				write(t, dir, "settings.yaml", connectionsKept)
			}
			r := start(t, node, dir, t.TempDir())
			r.until(t, well)
			table := get[api.Ruleset](t, r, "/v1/ruleset").Table
			require.Equal(t, !kept, strings.Contains(table, "TCP in the middle of a connection"))

			conn := connect(t, cart.NS, web.NS, "10.0.0.1:80")
			require.True(t, answered(conn, waitTimeout))

			write(t, dir, "policy.yaml", allow("cart", "web", 81))
			r.until(t, func(s pipeline.State) bool { return well(s) && s.Events > 0 })
			if kept {
				require.True(t, answered(conn, waitTimeout))
				return
			}
			require.Eventually(t, func() bool { return !answered(conn, 200*time.Millisecond) }, waitTimeout,
				time.Millisecond)
			require.False(t, answered(conn, 200*time.Millisecond))
		})
	}
}

// connect opens a TCP connection to an echo server.
func connect(t *testing.T, from, to *netns.NS, address string) (conn net.Conn) {
	t.Helper()
	var listener net.Listener
	require.NoError(t, to.Do(func() (err error) { listener, err = net.Listen("tcp", address); return err }))
	require.NoError(t, from.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", address, waitTimeout)
		return err
	}))
	far, err := listener.Accept()
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	var echo sync.WaitGroup
	echo.Go(func() { _, _ = io.Copy(far, far) })
	t.Cleanup(func() {
		_, _ = conn.Close(), far.Close()
		echo.Wait()
	})
	return conn
}

// answered reports whether the server sends a byte back.
func answered(conn net.Conn, timeout time.Duration) bool {
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if _, err := conn.Write([]byte{1}); err != nil {
		return false
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err == nil
}
