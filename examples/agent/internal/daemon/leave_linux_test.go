// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/nflog"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/server"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// If a client that follows verdicts or events disconnects, its handler ends, and the agent stops
// following the kernel's group. This needs no further packet or event. It also works for a client
// that sends a body with its request, as earlier versions did.
func TestFollowerThatDisconnectsIsRemoved(t *testing.T) {
	p, err := pipeline.New(pipeline.Config{
		Manifests: t.TempDir(), Node: "n", NetNS: nstest.New(t).FD(),
		VerdictLog: render.VerdictLog{Enabled: true, Group: 3},
	})
	require.NoError(t, err)
	unfollowed := make(chan uint16, 100)
	d := &Daemon{events: newHub(), ruleCaches: map[*ruleCache]struct{}{}, pipeline: p, replaced: make(chan struct{})}
	d.taps = newTaps(func(ctx context.Context, group uint16, started func(), _ func(nflog.Entry) error) error {
		started()
		<-ctx.Done()
		unfollowed <- group
		return ctx.Err()
	})
	ended := make(chan struct{}, 100)
	mux := http.NewServeMux()
	for pattern, follow := range map[string]http.HandlerFunc{"GET /v1/watch": d.watch, "GET /v1/drops": d.drops} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			follow(w, r)
			ended <- struct{}{}
		})
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() {
		stopped <- server.Run(ctx, server.Config{Listener: l, Handler: mux, MaxConns: 10, MaxBody: maxBody})
	}()

	for range 3 {
		for _, request := range []string{"GET /v1/watch", "GET /v1/drops?rate=1"} {
			for _, body := range []string{"", "null"} {
				c, err := net.Dial("unix", path)
				require.NoError(t, err)
				require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
				head := request + " HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n"
				if body != "" {
					head += "Content-Length: 4\r\n"
				}
				_, err = io.WriteString(c, head+"\r\n"+body)
				require.NoError(t, err)
				_, err = io.ReadFull(c, make([]byte, len("HTTP/1.1 200 OK")))
				require.NoError(t, err, "the response begins before the first event")
				require.NoError(t, c.Close())
				<-ended
				if request != "GET /v1/watch" {
					require.Equal(t, uint16(3), <-unfollowed)
				}
			}
		}
	}
	require.Empty(t, d.events.watchers)
	require.Empty(t, d.ruleCaches)
	cancel()
	require.ErrorIs(t, <-stopped, context.Canceled)
	done, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, p.Run(done)) // closes what New opened
}
