// SPDX-License-Identifier: Apache-2.0

package nsthread_test

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/nsthread"
)

func TestThrowaway(t *testing.T) {
	boom := errors.New("boom")
	require.Equal(t, boom, nsthread.Throwaway(func() error { return boom }))
	require.NoError(t, nsthread.Throwaway(func() error { return nil }))
	require.Error(t, nsthread.Throwaway(func() error { runtime.Goexit(); return nil }))
	seen := map[int]bool{}
	for range 50 {
		require.NoError(t, nsthread.Throwaway(func() error { seen[unix.Gettid()] = true; return nil }))
	}
	require.NotContains(t, seen, os.Getpid(), "the main thread is never used")
}

func TestInRefusesOtherFiles(t *testing.T) {
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	err = nsthread.In(int(file.Fd()), func() error { t.Error("must not run"); return nil })
	require.Error(t, err)
}
