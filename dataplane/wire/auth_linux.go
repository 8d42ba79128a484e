// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// peerUser returns the user that the peer of a Unix socket ran as when it connected.
func peerUser(conn net.Conn) (uint32, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("the connection is not a Unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var failure error
	err = raw.Control(func(fd uintptr) {
		credentials, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failure); err != nil {
		return 0, err
	}
	return credentials.Uid, nil
}
