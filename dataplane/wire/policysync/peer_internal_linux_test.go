// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Without SO_PEERPIDFD, a process is found by its number, if it has one.
func TestProcessByNumber(t *testing.T) {
	fd, err := Peer{PID: os.Getpid()}.processByNumber()
	require.NoError(t, err)
	require.NoError(t, unix.PidfdSendSignal(fd, 0, nil, 0))
	require.NoError(t, unix.Close(fd))
	_, err = Peer{}.processByNumber()
	require.ErrorContains(t, err, "PID namespace")
}
