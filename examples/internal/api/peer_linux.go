// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"net"
	"syscall"
)

// peer returns the user of the process at the other end of a Unix connection, at the time when that
// process connected.
func peer(conn net.Conn) (uid uint32, err error) {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("api: not a Unix connection")
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	return credentials.Uid, nil
}
