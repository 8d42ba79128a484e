// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"syscall"
)

// Listen takes the lock of an agent's Unix socket, and listens on the socket. Only the user of this
// process and root can connect. Listen replaces the socket of an earlier process. The caller
// releases the lock by closing it.
//
// If a command holds the lock, Listen waits until the command releases it. If another agent holds
// the lock, Listen returns ErrRunning, because an agent keeps the lock until the agent ends.
//
// Errors: ErrRunning, the error of ctx, and errors of system calls.
func Listen(ctx context.Context, path string) (l net.Listener, lock io.Closer, err error) {
	held, err := lockAgent(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, held.Close())
		}
	}()
	if err := clear(path); err != nil {
		return nil, nil, err
	}
	// With this mask, the socket has mode 0600 from the beginning, so that no other user can
	// connect before chmod.
	old := syscall.Umask(0o177)
	l, err = net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return nil, nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, held, nil
}

// clear removes a socket on which no process listens. An agent of an earlier version listens
// without the lock, so clear checks whether a process listens.
func clear(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s: exists but is not a socket: remove it, or set another --socket", path)
	}
	conn, err := net.Dial("unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%s: %w", path, ErrRunning), conn.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, syscall.EAGAIN): // too many connections wait
		return fmt.Errorf("%s: %w", path, ErrRunning)
	}
	return err
}

// peerKey is the key of a connection's credentials in its context.
type peerKey struct{}

// WithPeer stores the user at the other end of a connection in the connection's context. It is for
// http.Server.ConnContext.
func WithPeer(ctx context.Context, conn net.Conn) context.Context {
	uid, err := peer(conn)
	if err != nil {
		return ctx // the user is unknown, and Guard refuses the request
	}
	return context.WithValue(ctx, peerKey{}, uid)
}

// Guard returns a handler that accepts only requests of root and of the user of this process,
// whatever the mode of the socket is.
func Guard(inner http.Handler) http.Handler {
	return guard(inner, uint32(os.Geteuid()))
}

func guard(inner http.Handler, own uint32) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if uid, known := r.Context().Value(peerKey{}).(uint32); !known || uid != 0 && uid != own {
			Fail(w, http.StatusForbidden, ErrRefused)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// Answer writes an answer with status 200 and a body as JSON.
func Answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has disconnected
}

// Fail writes an answer with an error status and the text of an error.
func Fail(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Failure{Error: err.Error()})
}
