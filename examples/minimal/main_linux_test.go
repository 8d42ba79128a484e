// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

func TestMain(m *testing.M) { nstest.Main(m) }

const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"

const allow80 = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: web}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{ports: [{protocol: TCP, port: 80}]}]
`

func write(t *testing.T, dir, file, content string) {
	t.Helper()
	half := filepath.Join(dir, "."+file)
	require.NoError(t, os.WriteFile(half, []byte(content), 0o600))
	require.NoError(t, os.Rename(half, filepath.Join(dir, file)))
}

// pod makes a pod: its manifest, its network namespace and its interface.
func pod(t *testing.T, node *netns.NS, dir, name, address string) *netns.Workload {
	t.Helper()
	write(t, dir, name+".yaml", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: %s, labels: {app: %s}}
spec: {nodeName: n, containers: [{name: c}]}
status: {podIPs: [{ip: %q}]}
`, name, name, address))
	return nstest.NewWorkload(t, node, convert.InterfaceName("shop", name), address)
}

// listen accepts connections of a pod on a port.
func listen(t *testing.T, pod *netns.Workload, address string) {
	t.Helper()
	require.NoError(t, pod.NS.Do(func() error {
		l, err := net.Listen("tcp", address)
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
		}
		return err
	}))
}

// connect connects from a pod, and waits for the given time.
func connect(from *netns.Workload, address string, wait time.Duration) error {
	return from.NS.Do(func() error {
		conn, err := net.DialTimeout("tcp", address, wait)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// The agent programs the routes of pods and their policy, and every change of it.
func TestAgentProgramsPolicy(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	write(t, dir, "namespace.yaml", namespace)
	client, web := pod(t, node, dir, "client", "10.0.0.1"), pod(t, node, dir, "web", "10.0.0.2")
	listen(t, web, "10.0.0.2:80")
	listen(t, web, "10.0.0.2:81")

	a, err := newAgent(config{
		manifests: dir, node: "n", netns: node.FD(), logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx) }()
	wait, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	key := func(name string) policy.Key {
		return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: name}
	}
	require.NoError(t, a.driver.WaitProgrammed(wait, key("client")))
	require.NoError(t, a.driver.WaitProgrammed(wait, key("web")))
	require.NoError(t, connect(client, "10.0.0.2:80", 5*time.Second))
	require.NoError(t, connect(client, "10.0.0.2:81", 5*time.Second))

	write(t, dir, "policy.yaml", allow80)
	require.NoError(t, a.driver.WaitEndpoint(wait, key("web"), func(e *dataplane.Endpoint) bool {
		return len(e.Ingress) > 0
	}))
	require.NoError(t, connect(client, "10.0.0.2:80", 5*time.Second))
	var blocked net.Error
	require.ErrorAs(t, connect(client, "10.0.0.2:81", 300*time.Millisecond), &blocked)
	require.True(t, blocked.Timeout(), "policy drops the packets")

	stop()
	require.NoError(t, <-ended)
	require.ErrorAs(t, connect(client, "10.0.0.2:81", 300*time.Millisecond), &blocked, "the kernel keeps the policy")
}

// The agent ends with an error if a part fails, here because the folder does not exist.
func TestAgentFails(t *testing.T) {
	cfg := config{
		manifests: filepath.Join(t.TempDir(), "none"), node: "n", netns: nstest.New(t).FD(),
		logger: slog.New(slog.DiscardHandler),
	}
	require.ErrorIs(t, run(t.Context(), cfg), os.ErrNotExist)
	cfg.node = ""
	err := run(t.Context(), cfg)
	require.Error(t, err)
	require.False(t, errors.Is(err, os.ErrNotExist))
}
