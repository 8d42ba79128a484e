// SPDX-License-Identifier: Apache-2.0

//go:build !noetcdserver

package main

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// fillBacklog connects to a socket of a stopped process until there is no room for more.
func fillBacklog(t *testing.T, path string) (conns int) {
	t.Helper()
	const most = 1 << 16
	for ; conns < most; conns++ {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = syscall.Close(fd) })
		if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
			require.ErrorIs(t, err, syscall.EAGAIN)
			return conns
		}
	}
	t.Fatal("the backlog has no limit")
	return 0
}

// A SIGHUP while the agent shuts down does not end it early.
func TestHangupDuringShutdown(t *testing.T) {
	a := startAgentProcess(t, nstest.New(t), "--manifests", folderOf(t, map[string]string{"pods.yaml": onePod}))
	a.status("the agent is ready", func(s api.Status) bool { return s.Ready })
	require.NoError(t, a.cmd.Process.Signal(syscall.SIGTERM))
	ended := make(chan error, 1)
	go func() { ended <- a.cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			require.NoError(t, err)
			return
		default:
			_ = a.cmd.Process.Signal(syscall.SIGHUP) // fails once it has ended
		}
	}
}

// A second agent, and teardown, detect a running agent at once. They detect the agent while it
// answers, while it is stopped and its backlog is full, and after its socket was removed. A killed
// agent does not prevent a start.
func TestTwoAgentsOnOneSocket(t *testing.T) {
	node, dir := nstest.New(t), folderOf(t, map[string]string{"pods.yaml": onePod})
	first := startAgentProcess(t, node, "--manifests", dir)
	first.status("the agent is ready", func(s api.Status) bool { return s.Ready })
	env := []string{agentMode + "=1"}
	again := []string{
		"run", "--node", "n1", "--socket", first.socket, "--endpoint-dir", "", "--http-address", "", "--manifests", dir,
	}
	refused := func() {
		t.Helper()
		for _, args := range [][]string{again, {"teardown", "--socket", first.socket}} {
			code, out := runIn(t, node, env, "/proc/self/exe", args...)
			require.Equal(t, 1, code, "%q: %s", args, out)
			require.Contains(t, out, first.socket+": an agent is running there already")
		}
	}
	refused()
	nstest.Stop(t, first.cmd.Process)
	t.Logf("%d connections wait", fillBacklog(t, first.socket))
	refused()
	require.NoError(t, os.Remove(first.socket))
	refused()

	left, err := net.Listen("unix", first.socket) // as a killed agent leaves it
	require.NoError(t, err)
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, errors.Join(left.Close(), first.cmd.Process.Kill()))
	require.Error(t, first.cmd.Wait())
	second := startAgentProcess(t, node, "--socket", first.socket, "--manifests", dir)
	second.socket = first.socket
	second.status("the next agent is ready", func(s api.Status) bool { return s.Ready })
}
