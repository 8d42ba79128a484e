// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/wire/internal/sockets"
)

// peerUser returns the user that the peer of a Unix socket ran as when it connected.
func peerUser(conn net.Conn) (uint32, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("the connection is not a Unix socket")
	}
	var credentials *unix.Ucred
	err := sockets.Control(socket, func(fd int) (err error) {
		credentials, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	if err != nil {
		return 0, err
	}
	return credentials.Uid, nil
}
