// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
)

// ErrUnauthorized is wrapped by the errors of Users and SameUser about a peer that may not connect.
var ErrUnauthorized = errors.New("wire: peer is not authorized")

// Users returns a function for ServerConfig.Authenticate or ClientConfig.Authenticate that accepts peers on a Unix
// socket that run as one of the users, by their numeric ids. It needs Linux (SO_PEERCRED, unix(7)).
func Users(ids ...uint32) func(net.Conn) error {
	return func(conn net.Conn) error {
		id, err := peerUser(conn)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnauthorized, err)
		}
		if !slices.Contains(ids, id) {
			return fmt.Errorf("%w: it runs as user %d", ErrUnauthorized, id)
		}
		return nil
	}
}

// SameUser accepts peers on a Unix socket that run as this process's user or as root. It is the default of
// ServerConfig.Authenticate.
func SameUser(conn net.Conn) error { return Users(0, uint32(os.Geteuid()))(conn) }
