// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
)

// ErrUnauthorized means that the peer may not connect. All errors of SameUser wrap it, and so do
// all errors of the functions that Users returns.
var ErrUnauthorized = errors.New("wire: peer is not authorized")

// Users returns a function for ServerConfig.Authenticate or ClientConfig.Authenticate. The function
// accepts the peer of a Unix socket if the peer runs as a user with one of the numeric ids. It
// works only on Linux, because it uses SO_PEERCRED (unix(7)).
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

// SameUser accepts the peer of a Unix socket if the peer runs as root or as the same user as this
// process. It is the default of ServerConfig.Authenticate.
func SameUser(conn net.Conn) error { return Users(0, uint32(os.Geteuid()))(conn) }
