// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// refuseMembarrier makes the kernel refuse membarrier to this thread, as a container's filter does.
func refuseMembarrier(t *testing.T) {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: unix.SYS_MEMBARRIER},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	require.NoError(t, unix.Prctl(
		unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0,
	))
}

// A kernel that refuses membarrier is reported, once.
func TestKernelRefusesMembarrier(t *testing.T) {
	ns := nstest.New(t)
	var log bytes.Buffer
	var stats applier.Stats
	done := make(chan error)
	go func() { // the thread ends with this goroutine
		runtime.LockOSThread()
		refuseMembarrier(t)
		a, err := applier.New(applier.Config{
			Name: tableName, NetNS: ns.FD(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err == nil {
			for range 2 {
				err = a.Apply(bg, tenBy(10, rule(drop)))
			}
			stats = a.Stats()
			_ = a.Close()
		}
		done <- err
	}()
	require.NoError(t, <-done)
	require.True(t, stats.NoGracePeriod)
	require.Equal(t, 1, strings.Count(log.String(), "no grace periods"), log.String())
	require.Contains(t, log.String(), "membarrier: operation not permitted")
}

// Late elements are still in the kernel during the grace period that begins after the other
// changes, and are deleted at its end.
func TestLateElementsAreDeletedAfterGracePeriod(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	table := epochTable(9)
	table.Sets[1].Elements = toDrop("192.0.2.1")
	require.NoError(t, a.Apply(bg, table))
	var during []string
	applier.SetSynchronize(a, func() error {
		during = append(during, nft(t, ns, "", "list", "map", "inet", tableName, "m"))
		return nil
	})
	require.NoError(t, a.Update(bg, addToDrop("192.0.2.2")))
	require.Empty(t, during, "nothing is late")
	change := addToDrop("192.0.2.3")
	change.Elements[0].Late = toDrop("192.0.2.1")
	require.NoError(t, a.Update(bg, change))
	require.Len(t, during, 1)
	require.Contains(t, during[0], "192.0.2.1")
	require.Contains(t, during[0], "192.0.2.3")
	require.NotContains(t, nft(t, ns, "", "list", "map", "inet", tableName, "m"), "192.0.2.1")
}

// waitsFor reports whether a goroutine is blocked on a channel in a function. Only its stack
// distinguishes that from slow work.
func waitsFor(function string) bool {
	stacks := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, " [chan receive") && strings.Contains(stack, function+"(") {
			return true
		}
	}
	return false
}

// A change that needs a new epoch waits for the end of the grace period after the previous one, and
// so does Close. A change of one element does not.
func TestEpochWaitsForGracePeriod(t *testing.T) {
	ns := nstest.New(t)
	a, err := applier.New(applier.Config{Name: tableName, NetNS: ns.FD(), Epoch: epoch(), Shared: true})
	require.NoError(t, err)
	end, begun := make(chan struct{}), make(chan struct{}, 10)
	applier.SetSynchronize(a, func() error {
		begun <- struct{}{}
		<-end
		return nil
	})
	begins := func() {
		t.Helper()
		select {
		case <-begun:
		case <-time.After(20 * time.Second):
			require.Fail(t, "no grace period begins")
		}
	}
	require.NoError(t, a.Apply(bg, epochTable(9)))
	begins()
	require.NoError(t, a.Update(bg, addToDrop("192.0.2.1")), "one element")
	require.Empty(t, begun)

	waits := func(do func() error) {
		t.Helper()
		before, done := generation(t, ns), make(chan error, 1)
		go func() { done <- do() }()
		deadline := time.Now().Add(20 * time.Second)
		for ; !waitsFor("applier.(*graceWaiter).await"); runtime.Gosched() {
			require.Empty(t, done, "does not wait")
			require.True(t, time.Now().Before(deadline), "neither waits nor returns")
		}
		require.Equal(t, before, generation(t, ns))
		for range 3 { // the transactions before may have one grace period each
			end <- struct{}{}
			select {
			case err := <-done:
				require.NoError(t, err)
				return
			case <-time.After(time.Second):
			}
		}
		require.Fail(t, "does not return")
	}
	waits(func() error { return a.Apply(bg, epochTable(11)) })
	begins()
	waits(a.Close)
}
