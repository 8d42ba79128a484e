// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// RemoveStale removes a socket that no process listens on. Errors: another process listens on it, or the path exists
// and is not a socket; those of the system.
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
	conn, err := net.Dial("unix", path)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case err == nil:
		return errors.Join(fmt.Errorf("%s: another process listens on it", path), conn.Close())
	}
	return fmt.Errorf("%s: another process may listen on it: %w", path, err) // as if its backlog is full
}
