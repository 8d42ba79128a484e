// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// Each pod has a socket while the pipeline runs, which closes connections of processes that are not
// in the pod.
func TestPolicySyncSockets(t *testing.T) {
	node, dir, folder := nstest.New(t), t.TempDir(), filepath.Join(t.TempDir(), "sync")
	nstest.NewWorkload(t, node, convert.InterfaceName("shop", "web"), "10.0.0.1")
	write(t, dir, "pods.yaml", namespace+"---"+pod("web", "10.0.0.1"))
	s := settings.Defaults()
	s.Node, s.Manifests, s.Socket, s.PolicySyncDir = "n", dir, "", folder
	cfg := pipeline.FromSettings(s)
	cfg.NetNS = node.FD()
	inSync := make(chan struct{}, 1)
	cfg.Programmed = func(s pipeline.State) {
		if s.InSync {
			select {
			case inSync <- struct{}{}:
			default:
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- pipeline.Run(ctx, cfg) }()
	<-inSync
	path := filepath.Join(folder, "shop", "web.sock")
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "this process is not in the pod")
	require.NoError(t, conn.Close())
	cancel()
	require.NoError(t, <-ended)
	require.NoFileExists(t, path)
}
