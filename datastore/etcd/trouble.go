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

// troubles remembers why the last connection to each server failed. Etcd's client tries again until
// the time is up, and then says no more than that.
//
// It is safe for concurrent use.
type troubles struct {
	mu   sync.Mutex
	last map[string]string // address -> why; none where it is well
	made uint64            // connections that worked
}

func (t *troubles) connections() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.made
}

// note takes down how a connection to an address went.
func (t *troubles) note(address string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var op *net.OpError
	switch {
	case err == nil:
		t.made++
		delete(t.last, address)
		return
	case errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed):
		return // we gave it up ourselves
	case errors.Is(err, io.EOF):
		err = errors.New("closed by the server before it said anything")
	case errors.As(err, &op) && op.Op == "remote error":
		err = fmt.Errorf("the server says: %w", op.Err)
	case errors.As(err, &op):
		err = op.Err // the rest has our own port in it, which is another one each time
	}
	if t.last == nil {
		t.last = map[string]string{}
	}
	t.last[address] = err.Error()
}

// forget takes back what was noted of an address.
func (t *troubles) forget(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, address)
}

// text returns "address: why" of all that are in trouble.
func (t *troubles) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, address := range slices.Sorted(maps.Keys(t.last)) {
		all = append(all, address+": "+t.last[address])
	}
	return strings.Join(all, ", ")
}

// options make etcd's client tell of its connections.
func (t *troubles) options(inner credentials.TransportCredentials) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			switch {
			case err != nil:
				t.note(address, err)
			case conn.RemoteAddr().String() != address: // all else is noted of that
				t.forget(address)
			}
			return conn, err
		}),
		grpc.WithTransportCredentials(&watchedCredentials{inner, t}),
	}
}

// watchedCredentials tell of handshakes that fail.
type watchedCredentials struct {
	credentials.TransportCredentials
	troubles *troubles
}

func (w *watchedCredentials) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		w.troubles.note(raw.RemoteAddr().String(), err)
		return conn, info, err
	}
	return &watchedConn{Conn: conn, troubles: w.troubles}, info, nil
}

func (w *watchedCredentials) Clone() credentials.TransportCredentials {
	return &watchedCredentials{w.TransportCredentials.Clone(), w.troubles}
}

// watchedConn tells how the first read went: not before then is a client told that its certificate
// was refused.
type watchedConn struct {
	net.Conn
	troubles *troubles
	once     sync.Once
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.once.Do(func() {
		if n > 0 {
			c.troubles.note(c.RemoteAddr().String(), nil)
		} else {
			c.troubles.note(c.RemoteAddr().String(), err)
		}
	})
	return n, err
}

// explain adds to the error of a request which servers it was for, and what is wrong with those
// that cannot be reached.
func (c *Client) explain(err error) error {
	var said rpctypes.EtcdError
	// what etcd itself says needs no other cause
	if trouble := c.troubles.text(); trouble != "" && !errors.As(err, &said) {
		return fmt.Errorf("%w (%s)", err, trouble)
	}
	if len(c.config.Endpoints) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(c.config.Endpoints, ", "))
}
