// SPDX-License-Identifier: Apache-2.0

package nstest_test

import (
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// senderEnv is set, to an address, in a process that sends three packets there.
const senderEnv = "NSTEST_SENDER"

// The process is killed before it sends for the nth time.
func TestRunUntilSend(t *testing.T) {
	const packets = 3
	if address := os.Getenv(senderEnv); address != "" {
		nstest.TraceSends(t)
		conn, err := net.Dial("udp", address)
		require.NoError(t, err)
		for range packets {
			_, _, err := conn.(*net.UDPConn).WriteMsgUDP([]byte("hello"), nil, nil) // by sendmsg
			require.NoError(t, err)
		}
		return
	}
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	received := func() (number int) {
		require.NoError(t, server.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		for {
			if _, _, err := server.ReadFrom(make([]byte, 100)); err != nil {
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				return number
			}
			number++
		}
	}
	for n, want := range []int{packets, 0, 1, 2, packets, packets} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRunUntilSend$")
		cmd.Env = append(os.Environ(), senderEnv+"="+server.LocalAddr().String())
		sends := nstest.RunUntilSend(t, cmd, n)
		require.Equal(t, min(want+1, packets), sends, n)
		require.Equal(t, want, received(), n)
	}
}
