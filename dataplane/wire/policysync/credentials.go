// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// transport implements the credentials of the connections of an endpoint. The kernel identifies the
// peer; the peers exchange nothing and encrypt nothing.
type transport struct{ endpoint *endpoint }

var _ credentials.TransportCredentials = transport{}

// ServerHandshake checks the peer. If it returns an error, the connection is closed before anything
// is read from it.
func (t transport) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	e := t.endpoint
	id, err := e.identify(conn)
	if err != nil {
		if skipped, ok := e.refusals.log(time.Now()); ok {
			e.server.cfg.Logger.Warn("peer refused", "endpoint", e.key, "err", err, "not_logged", skipped)
		}
		return nil, nil, err
	}
	return conn, id, nil
}

// ClientHandshake implements credentials.TransportCredentials. It always returns an error.
func (t transport) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("policysync: the credentials are those of a server")
}

// Info implements credentials.TransportCredentials.
func (t transport) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}

// Clone implements credentials.TransportCredentials.
func (t transport) Clone() credentials.TransportCredentials { return t }

// OverrideServerName implements credentials.TransportCredentials. It does nothing.
func (t transport) OverrideServerName(string) error { return nil }

// identity is the peer of a connection, which may read the policy of the endpoint.
type identity struct {
	credentials.CommonAuthInfo
	endpoint *endpoint
	conn     net.Conn
	peer     Peer
}

// AuthType implements credentials.AuthInfo.
func (i *identity) AuthType() string { return "unix" }

// identify checks the peer of a connection.
func (e *endpoint) identify(conn net.Conn) (*identity, error) {
	p, err := peerOf(conn)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnauthorized, err)
	}
	p.node = e.server.node
	id := &identity{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		endpoint:       e, conn: conn, peer: p,
	}
	return id, id.check(e.current())
}

// check checks the peer against the current state of the endpoint.
func (i *identity) check(current *dataplane.Endpoint) error {
	if current == nil {
		return fmt.Errorf("%w: the endpoint is removed", errUnauthorized)
	}
	p := i.peer
	p.Endpoint = current
	if err := i.endpoint.server.authenticate(i.endpoint.key, p); err != nil {
		return fmt.Errorf("%w: process %d of user %d: %w", errUnauthorized, p.PID, p.User, err)
	}
	return nil
}

// authenticate calls ServerConfig.Authenticate. It waits while maxChecks other calls run.
func (s *Server) authenticate(key policy.Key, p Peer) error {
	s.checks <- struct{}{}
	defer func() { <-s.checks }()
	return s.cfg.Authenticate(key, p)
}
