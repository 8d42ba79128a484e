// SPDX-License-Identifier: Apache-2.0

package nstest_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// senderEnv is set in a process that sends three packets over file 3.
const senderEnv = "NSTEST_SENDER"

// The process is killed before it sends for the nth time.
func TestRunUntilSend(t *testing.T) {
	const packets = 3
	if os.Getenv(senderEnv) != "" {
		nstest.TraceSends(t)
		for range packets - 1 {
			require.NoError(t, unix.Sendmsg(3, []byte("hello"), nil, nil, 0))
		}
		require.NoError(t, unix.Send(3, []byte("hello"), 0)) // by sendto
		return
	}
	for n, want := range []int{packets, 0, 1, 2, packets, packets} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		sender := os.NewFile(uintptr(pair[0]), "sender")
		cmd := exec.Command(os.Args[0], "-test.run=^TestRunUntilSend$")
		cmd.Env, cmd.ExtraFiles = append(os.Environ(), senderEnv+"=1"), []*os.File{sender}
		sends := nstest.RunUntilSend(t, cmd, n)
		require.Equal(t, min(want+1, packets), sends, n)
		require.NoError(t, sender.Close())
		received := 0
		for {
			if _, _, err = unix.Recvfrom(pair[1], make([]byte, 100), unix.MSG_DONTWAIT); err != nil {
				break
			}
			received++
		}
		require.ErrorIs(t, err, unix.EAGAIN)
		require.Equal(t, want, received, n)
		require.NoError(t, unix.Close(pair[1]))
	}
}
