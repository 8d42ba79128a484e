// SPDX-License-Identifier: Apache-2.0

//go:build !noetcdserver

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// withoutMembarrier in the environment makes the test binary the agent, in a process to which the
// kernel refuses membarrier, as a container's filter does.
const withoutMembarrier = "TEST_WITHOUT_MEMBARRIER"

// execWithoutMembarrier replaces this process by the agent with the arguments.
func execWithoutMembarrier(args ...string) error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_MEMBARRIER},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	runtime.LockOSThread() // the filter is that of a thread
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
	if err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", append([]string{"agent"}, args...), append(os.Environ(), agentMode+"=1"))
}

// If the kernel refuses membarrier, the agent logs it once, and its status and 'agent status'
// report it. The agent still applies changes.
func TestAgentReportsRefusedMembarrier(t *testing.T) {
	if args := os.Getenv(withoutMembarrier); args != "" {
		require.NoError(t, execWithoutMembarrier(strings.Split(args, "\n")...))
	}
	dir := folderOf(t, map[string]string{"pods.yaml": goodPods, "policy.yaml": goodPolicy})
	agent := &agentProcess{t: t, ns: nstest.New(t), socket: filepath.Join(t.TempDir(), "agent.sock")}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAgentReportsRefusedMembarrier$")
	cmd.Env = append(os.Environ(), withoutMembarrier+"="+strings.Join([]string{
		"run", "--node", "n1", "--socket", agent.socket, "--endpoint-dir", "", "--http-address", "", "--manifests", dir,
	}, "\n"))
	agent.process = startProcess(t, agent.ns, cmd)
	s := agent.status("ready", func(s api.Status) bool { return s.Ready })
	require.Len(t, s.Kernel, 1)
	require.Contains(t, s.Kernel[0], "membarrier is refused")
	require.NoError(t, os.Remove(filepath.Join(dir, "policy.yaml")))
	agent.status("the next change", func(next api.Status) bool { return next.Objects < s.Objects })
	require.Equal(t, 1, strings.Count(agent.out.String(), "the kernel refuses membarrier"), agent.out.String())

	cmd = exec.Command("/proc/self/exe", "status", "--socket", agent.socket)
	cmd.Env = append(os.Environ(), agentMode+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `(?m)^kernel +membarrier is refused: `, string(out))
}
