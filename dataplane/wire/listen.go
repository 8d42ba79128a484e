// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/wayleave/wayleave/dataplane/wire/internal/sockets"
)

// Listen listens on a Unix socket to which only the user of this process and root can connect. It
// creates the folder of the socket, and replaces a socket that no process listens on. On Linux the
// path may be longer than the 107 bytes of sun_path (unix(7)).
//
// Errors: another process listens on the path, or the path is not a socket; errors of system calls.
func Listen(path string) (net.Listener, error) {
	const folderMode, socketMode = 0o700, 0o600
	listener, err := sockets.Listen(path, folderMode, socketMode)
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	return &socket{UnixListener: listener, path: path}, nil
}

// socket removes the file of a listener when it is closed.
type socket struct {
	*net.UnixListener
	path   string
	closed atomic.Bool
}

// Close removes the socket's file and closes the socket. A second call removes nothing and returns
// net.ErrClosed, because the file may belong to another listener by then.
func (s *socket) Close() error {
	if s.closed.Swap(true) {
		return net.ErrClosed
	}
	return errors.Join(os.Remove(s.path), s.UnixListener.Close())
}

// Dial returns a function for Client.Run that connects to a Unix socket.
func Dial(path string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return sockets.Dial(ctx, path) }
}
