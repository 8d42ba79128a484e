// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// dialErrors has the error of the last connection to each server. Etcd's client retries until the
// timeout, and then returns only the timeout.
//
// It is safe for concurrent use.
type dialErrors struct {
	mu   sync.Mutex
	last map[string]string // by address; a successful connection removes the entry
	made uint64            // number of successful connections
}

func (t *dialErrors) connections() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.made
}

// record records the result of a connection to an address.
func (t *dialErrors) record(address string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var op *net.OpError
	switch {
	case err == nil:
		t.made++
		delete(t.last, address)
		return
	case errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed):
		return // this client ended the attempt
	case errors.Is(err, io.EOF):
		err = errors.New("closed by the server before it sent anything")
	case errors.As(err, &op) && op.Op == "remote error":
		err = fmt.Errorf("the server's error: %w", op.Err)
	case errors.As(err, &op):
		err = op.Err // op.Err is without our own port, which differs at each attempt
	}
	if t.last == nil {
		t.last = map[string]string{}
	}
	t.last[address] = err.Error()
}

// forget deletes the error of an address.
func (t *dialErrors) forget(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, address)
}

// text returns "address: error" of all servers whose last connection failed.
func (t *dialErrors) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, address := range slices.Sorted(maps.Keys(t.last)) {
		all = append(all, address+": "+t.last[address])
	}
	return strings.Join(all, ", ")
}

// options returns dial options that record the results of connections.
func (t *dialErrors) options(inner credentials.TransportCredentials) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			switch {
			case err != nil:
				t.record(address, err)
			case conn.RemoteAddr().String() != address: // further errors are recorded for that address
				t.forget(address)
			}
			return conn, err
		}),
		grpc.WithTransportCredentials(&watchedCredentials{inner, t}),
	}
}

// watchedCredentials record failed handshakes.
type watchedCredentials struct {
	credentials.TransportCredentials
	dialErrors *dialErrors
}

func (w *watchedCredentials) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		w.dialErrors.record(raw.RemoteAddr().String(), err)
		return conn, info, err
	}
	return &watchedConn{Conn: conn, dialErrors: w.dialErrors}, info, nil
}

func (w *watchedCredentials) Clone() credentials.TransportCredentials {
	return &watchedCredentials{w.TransportCredentials.Clone(), w.dialErrors}
}

// watchedConn records the result of the first read. If the server refuses the client's certificate,
// that read has the error.
type watchedConn struct {
	net.Conn
	dialErrors *dialErrors
	once       sync.Once
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.once.Do(func() {
		if n > 0 {
			c.dialErrors.record(c.RemoteAddr().String(), nil)
		} else {
			c.dialErrors.record(c.RemoteAddr().String(), err)
		}
	})
	return n, err
}

// explain adds the servers that cannot be reached, with their errors, to the error of a request.
func (c *Client) explain(err error) error {
	var etcdErr rpctypes.EtcdError
	// An error of etcd itself needs no further cause.
	if unreachable := c.dialErrors.text(); unreachable != "" && !errors.As(err, &etcdErr) {
		return fmt.Errorf("%w (%s)", err, unreachable)
	}
	if len(c.config.Endpoints) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(c.config.Endpoints, ", "))
}
