// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// RunUntilSend runs a command whose process calls TraceSends. It kills the process with SIGKILL
// when the process is about to send its nth message over a socket. If n is 0, or if the process
// sends fewer messages, the command runs to its end. RunUntilSend returns the number of messages
// that the process tried to send. Stdin, Stdout and Stderr of the command must be of type *os.File
// or nil.
func RunUntilSend(t testing.TB, cmd *exec.Cmd, n int) (sends int) {
	t.Helper()
	runtime.LockOSThread() // only the thread that starts a process may trace it
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	require.NoError(t, cmd.Start())
	process := cmd.Process.Pid
	require.NoError(t, cmd.Process.Release()) // this function waits for the process
	var status unix.WaitStatus
	_, err := unix.Wait4(process, &status, unix.WALL, nil)
	require.NoError(t, err)
	require.NoError(t, unix.PtraceSetOptions(process,
		unix.PTRACE_O_EXITKILL|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESECCOMP))
	for thread, signal := process, 0; ; {
		if err := unix.PtraceCont(thread, signal); err != nil {
			require.ErrorIs(t, err, unix.ESRCH, "unless the thread was killed")
		}
		for thread = 0; thread == 0; {
			thread, err = unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
			require.True(t, err == nil || errors.Is(err, unix.EINTR), err)
			switch ended := err == nil && !status.Stopped(); {
			case ended && thread == process:
				require.True(t, status.Signaled() || status.ExitStatus() == 0, "exit status %d", status.ExitStatus())
				return sends
			case ended || err != nil:
				thread = 0
			}
		}
		signal = 0
		switch stop := status.StopSignal(); {
		case status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
			if sends++; sends == n {
				require.NoError(t, unix.Kill(process, unix.SIGKILL))
			}
		case stop != unix.SIGTRAP && stop != unix.SIGSTOP: // a signal of a new thread
			signal = int(stop)
		}
	}
}

// TraceSends makes the kernel stop this process each time that the process is about to send a
// message over a socket. RunUntilSend needs this. TraceSends must be the first call of the process.
func TraceSends(t testing.TB) {
	t.Helper()
	// The kernel then permits the filter also without CAP_SYS_ADMIN.
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	const load, jumpIfEqual, result = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ, unix.BPF_RET
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // the number of the system call
		{Code: jumpIfEqual, K: unix.SYS_SENDTO, Jt: 2},
		{Code: jumpIfEqual, K: unix.SYS_SENDMSG, Jt: 1},
		{Code: result, K: unix.SECCOMP_RET_ALLOW},
		{Code: result, K: unix.SECCOMP_RET_TRACE},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	require.Zero(t, errno, errno.Error())
}
