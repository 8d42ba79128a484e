// SPDX-License-Identifier: Apache-2.0

package rcu_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/rcu"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestSynchronize(t *testing.T) {
	err := rcu.Synchronize()
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) {
		nstest.Skip(t, fmt.Sprintf("the kernel refuses membarrier: %v", err))
	}
	require.NoError(t, err)
}

// refuseMembarrier makes the kernel refuse membarrier to this thread with one error for
// MEMBARRIER_CMD_GLOBAL and another for every other command.
func refuseMembarrier(global, others unix.Errno) error {
	// offsets in struct seccomp_data: of the system call, and of the low half of its first argument
	const number, command = 0, 16
	load := uint16(unix.BPF_LD | unix.BPF_W | unix.BPF_ABS)
	equal := uint16(unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K)
	ret := uint16(unix.BPF_RET | unix.BPF_K)
	program := []unix.SockFilter{
		{Code: load, K: number},
		{Code: equal, K: unix.SYS_MEMBARRIER, Jt: 1},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		{Code: load, K: command},
		{Code: equal, K: 1, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(global)},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(others)},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
}

// Synchronize calls membarrier with MEMBARRIER_CMD_GLOBAL, the one command that waits for a grace
// period of RCU, and Supported calls it with another one. A filter sees the calls and refuses both
// with errors of their own.
func TestSynchronizeCallsMembarrier(t *testing.T) {
	var filtered, supported, synchronized error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine, and its filter with the thread
		if filtered = refuseMembarrier(unix.EDOM, unix.EXDEV); filtered == nil {
			supported, synchronized = rcu.Supported(), rcu.Synchronize()
		}
	}()
	<-done
	require.NoError(t, filtered)
	require.ErrorIs(t, synchronized, unix.EDOM)
	require.ErrorContains(t, synchronized, "rcu: membarrier: ")
	require.ErrorIs(t, supported, unix.EXDEV)
}
