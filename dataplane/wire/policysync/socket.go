// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/wayleave/wayleave/dataplane/wire/internal/sockets"
	"github.com/wayleave/wayleave/policy"
)

// suffix ends the file names of sockets.
const suffix = ".sock"

// Folder returns the default of ServerConfig.Socket: a function that returns the path of an
// endpoint's socket. NewServer calls Folder with ServerConfig.Folder. The path is
// folder/NAMESPACE/NAME.sock. In the two names, ASCII letters, digits, "-", "_" and "." stay as
// they are. Other bytes, and a "." at the start, become "%" and two hexadecimal digits. The folder
// of endpoints without a namespace is "%".
//
// All workloads that mount the folder of their namespace see the sockets of the other workloads in
// the namespace. InWorkload prevents a workload from using such a socket. Mount the folder
// read-only, so that no workload can replace the socket of another workload by its own.
//
// A file name has at most 255 bytes. If the file name of an endpoint's socket would be longer, the
// Server reports an error for the endpoint. A path may be longer than the 107 bytes of sun_path
// (unix(7)): on Linux, a Client can connect to it nevertheless.
func Folder(folder string) func(policy.Key) string {
	return func(key policy.Key) string {
		return filepath.Join(folder, fileName(key.Namespace), fileName(key.Name)+suffix)
	}
}

// fileName returns a file name for a text. Different texts have different names.
func fileName(text string) string {
	if text == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// removeStale removes stale sockets from the folders in a folder. A socket is stale if no process
// listens on it, because its server was killed. Errors: those of the system.
func removeStale(folder string) error {
	namespaces, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, namespace := range namespaces {
		if !namespace.IsDir() {
			continue
		}
		path := filepath.Join(folder, namespace.Name())
		files, err := os.ReadDir(path)
		errs = append(errs, err)
		for _, file := range files {
			if file.Type() == fs.ModeSocket && strings.HasSuffix(file.Name(), suffix) {
				errs = append(errs, sockets.RemoveStale(filepath.Join(path, file.Name())))
			}
		}
	}
	return errors.Join(errs...)
}

// socket is a listener that limits the connections, and removes its file when it is closed.
type socket struct {
	*net.UnixListener
	path string
	file os.FileInfo
	// slots has a token for each connection.
	slots chan struct{}
	// done is closed by Close.
	done   chan struct{}
	closed atomic.Bool

	mu sync.Mutex
	// accepted are the connections that are open.
	accepted map[*connection]struct{}
}

// connection is a connection of a socket.
type connection struct {
	*net.UnixConn
	release func()

	mu sync.Mutex
	// namespace is the network namespace of the peer; nil until needed.
	namespace *os.File
	closed    bool
}

// withNamespace calls a function with the file descriptor of the peer's network namespace. The
// first call opens the namespace. The file descriptor stays open until Close, so that the kernel
// does not reuse the inode number of the namespace.
func (c *connection) withNamespace(open func() (*os.File, error), do func(fd int) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if c.namespace == nil {
		namespace, err := open()
		if err != nil {
			return err
		}
		c.namespace = namespace
	}
	return do(int(c.namespace.Fd()))
}

// Close closes the connection. It may be called again.
func (c *connection) Close() error {
	defer c.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.namespace != nil {
		_ = c.namespace.Close()
		c.namespace = nil
	}
	return c.UnixConn.Close()
}

// listen listens on a Unix socket to which every user may connect, because a process of a workload
// may run as any user. ServerConfig.Authenticate checks the process later. listen creates the
// folder, and replaces a socket that no process listens on. Connections beyond the limit wait in
// the kernel, so that a workload cannot use up the file descriptors of the server.
func listen(path string, limit int) (*socket, error) {
	const folderMode, socketMode = 0o755, 0o666
	listener, err := sockets.Listen(path, folderMode, socketMode)
	if err != nil {
		return nil, err
	}
	s := &socket{
		UnixListener: listener, path: path, slots: make(chan struct{}, limit), done: make(chan struct{}),
		accepted: map[*connection]struct{}{},
	}
	if s.file, err = os.Lstat(path); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return s, nil
}

// Accept waits for a connection. It accepts none while the number of connections is at the limit.
func (s *socket) Accept() (net.Conn, error) {
	select {
	case s.slots <- struct{}{}:
	case <-s.done:
		return nil, net.ErrClosed
	}
	conn, err := s.AcceptUnix()
	if err != nil {
		<-s.slots
		return nil, err
	}
	c := &connection{UnixConn: conn}
	c.release = sync.OnceFunc(func() {
		s.mu.Lock()
		delete(s.accepted, c)
		s.mu.Unlock()
		<-s.slots
	})
	s.mu.Lock()
	s.accepted[c] = struct{}{}
	s.mu.Unlock()
	if s.closed.Load() { // closeAccepted may have missed this connection
		_ = c.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// closeAccepted closes all connections.
func (s *socket) closeAccepted() {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.accepted))
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// intact reports whether the socket's file still exists at the path, and was not replaced.
func (s *socket) intact() bool {
	info, err := os.Lstat(s.path)
	return err == nil && os.SameFile(info, s.file)
}

// Close closes the socket, and removes its file unless another file has replaced it. It may be
// called again.
func (s *socket) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	close(s.done)
	var err error
	if s.intact() {
		err = os.Remove(s.path)
	}
	return errors.Join(err, s.UnixListener.Close())
}
