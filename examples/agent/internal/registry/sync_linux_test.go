// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/examples/agent/internal/registry"
)

// Offsets in struct seccomp_data: of the system call, and of the flags of openat.
const number, openFlags = 0, 32

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// unlessEqual jumps over some instructions unless the loaded value is k.
func unlessEqual(k uint32, over uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: over}
}

func result(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
}

// filtered calls do on a new thread with a system call filter, and returns the error of do.
func filtered(t *testing.T, program []unix.SockFilter, do func() error) error {
	t.Helper()
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	var installed, err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine, and its filter with the thread
		installed = errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
			unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0))
		if installed == nil {
			err = do()
		}
	}()
	<-done
	require.NoError(t, installed)
	return err
}

// failedAt requires that an operation on a file failed because of the filter, and returns the file.
func failedAt(t *testing.T, err error, op string) string {
	t.Helper()
	var path *os.PathError
	require.ErrorAs(t, err, &path)
	require.Equal(t, op, path.Op)
	require.ErrorIs(t, err, unix.EXDEV)
	return path.Path
}

// Put syncs the file and then the directory. If the kernel refuses to sync the file, the file is
// not renamed. If the kernel then refuses to open or sync the directory, Put and Delete fail.
func TestSync(t *testing.T) {
	refused, granted := result(unix.SECCOMP_RET_ERRNO|uint32(unix.EXDEV)), result(unix.SECCOMP_RET_ALLOW)
	noSync := []unix.SockFilter{load(number), unlessEqual(unix.SYS_FSYNC, 1), refused, granted}
	noOpen := []unix.SockFilter{ // except for new files
		load(number), unlessEqual(unix.SYS_OPENAT, 3), load(openFlags),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.O_CREAT, Jt: 1},
		refused, granted,
	}
	dir := t.TempDir()
	r, _, err := registry.Open(dir)
	require.NoError(t, err)
	put := func() error { return r.Put(t.Context(), endpoint("a")) }

	file := failedAt(t, filtered(t, noSync, put), "sync")
	require.Equal(t, dir, filepath.Dir(file))
	require.NoFileExists(t, file)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Nil(t, r.Get(endpoint("a").Key()))

	require.Equal(t, dir, failedAt(t, filtered(t, noOpen, put), "open"), "the directory was not synced")
	require.Nil(t, r.Get(endpoint("a").Key()))
	require.NoError(t, put())
	remove := func() error { return r.Delete(t.Context(), endpoint("a").Key()) }
	require.Equal(t, dir, failedAt(t, filtered(t, noSync, remove), "sync"))
}
