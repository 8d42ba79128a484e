// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Stop stops a child process with SIGSTOP, and returns once all of its threads have stopped.
func Stop(t testing.TB, child *os.Process) {
	t.Helper()
	require.NoError(t, child.Signal(unix.SIGSTOP))
	require.NoError(t, unix.Waitid(unix.P_PID, child.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil))
}
