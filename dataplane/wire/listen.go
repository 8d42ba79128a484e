// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/wayleave/wayleave/dataplane/wire/internal/sockets"
)

// Listen listens on a Unix socket to which only the user of this process and root can connect. It
// creates the folder of the socket, and replaces a socket that no process listens on.
//
// Errors: another process listens on the path, or the path is not a socket; errors of system calls.
func Listen(path string) (net.Listener, error) {
	const onlyOwner = 0o700
	if err := os.MkdirAll(filepath.Dir(path), onlyOwner); err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	if err := sockets.RemoveStale(path); err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	// The socket gets its mode first and its final name afterwards, so that no other user can
	// connect in between.
	temporary := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := sockets.RemoveStale(temporary); err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	err = os.Chmod(temporary, 0o600)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wire: %w", err), listener.Close(), os.Remove(temporary))
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
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}
