// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Listen listens on a Unix socket. It creates the folder of the socket, and replaces a socket that
// no process listens on. It sets the mode of the socket's file before the file appears at the path.
// So a user whom the mode excludes can never connect by this path. Closing the listener does not
// remove the file. On Linux the path may be longer than sun_path.
//
// Errors: those of RemoveStale and of the system; the path is the name of an abstract socket, which
// has no mode.
func Listen(path string, folderMode, mode fs.FileMode) (*net.UnixListener, error) {
	if strings.HasPrefix(path, "@") {
		return nil, fmt.Errorf("%s is the name of an abstract socket", path)
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return nil, err
	}
	if err := RemoveStale(path); err != nil {
		return nil, err
	}
	// The socket gets its final name last, because bind does not accept a long name.
	temporary := fmt.Sprintf(".%08x.sock", rand.Uint32())
	if len(folder)+1+len(temporary) > maxPath {
		short, file, err := shorten(folder)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		folder = short
	}
	temporary = filepath.Join(folder, temporary)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err = os.Chmod(temporary, mode); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close(), os.Remove(temporary))
	}
	return listener, nil
}

// Dial connects to a Unix socket. On Linux the path may be longer than sun_path. Errors: those of
// the system.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	if len(path) > maxPath {
		short, file, err := shorten(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		path = short
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}

// RemoveStale removes a socket that no process listens on. It returns an error if another process
// listens on the socket, the path exists and is not a socket, or a system call fails.
func RemoveStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	conn, err := Dial(context.Background(), path)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case err == nil:
		return errors.Join(fmt.Errorf("%s: another process listens on it", path), conn.Close())
	}
	return fmt.Errorf("%s: another process may listen on it: %w", path, err) // for example, its backlog is full
}

// Control calls a function with the file descriptor of a connection. It returns nil only if it has
// called the function, and the function returned nil.
func Control(conn syscall.Conn, do func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Control(func(fd uintptr) { failure = do(int(fd)) })
	return errors.Join(err, failure)
}
