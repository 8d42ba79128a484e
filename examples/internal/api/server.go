// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
)

// Listen listens at a unix socket that nobody but the user of this process can connect to. What an earlier run left there is
// taken over, but no socket at which somebody listens.
//
// Errors: those of the system; an agent that is there already.
func Listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := clear(path); err != nil {
		return nil, err
	}
	// Nobody can connect between bind and chmod either: the mask makes the socket with mode 0600.
	old := syscall.Umask(0o177)
	listener, err := net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// clear removes a socket that nobody listens at.
func clear(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s: is there, and is no socket", path)
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("%s: an agent is running there already", path), conn.Close())
	}
	return os.Remove(path)
}

// peerKey is the key of a connection's credentials in its context.
type peerKey struct{}

// WithPeer notes in the context of a connection who is at its other end; it is for http.Server.ConnContext.
func WithPeer(ctx context.Context, conn net.Conn) context.Context {
	uid, err := peer(conn)
	if err != nil {
		return ctx // nobody knows who, so nobody is let in
	}
	return context.WithValue(ctx, peerKey{}, uid)
}

// Guard lets in requests by root and by this process's own user alone, whatever the mode of the socket.
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

// Answer writes a success.
func Answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // whoever asked has gone
}

// Fail writes a failure.
func Fail(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Failure{Error: err.Error()})
}
