// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// logIn returns an interceptor that reads the password for each login. Etcd's own client keeps its
// first password.
func logIn(read func() (Secret, error)) grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, in, out any, conn *grpc.ClientConn, next grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		user, ok := in.(*etcdserverpb.AuthenticateRequest)
		if !ok {
			return next(ctx, method, in, out, conn, opts...)
		}
		password, err := read()
		switch {
		case err != nil:
			return fmt.Errorf("read password: %w", err)
		case password == "":
			return errors.New("read password: it is empty")
		}
		return next(ctx, method, &etcdserverpb.AuthenticateRequest{Name: user.Name, Password: string(password)}, out,
			conn, opts...)
	}
}

// renewedTLS are the credentials of a TLS client that reads its files for each connection. Etcd's
// own loader reads the CA file once.
type renewedTLS struct {
	credentials.TransportCredentials
	files TLS
}

// ClientHandshake reads the files and makes the handshake.
func (r *renewedTLS) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	config, err := r.files.load()
	if err != nil {
		_ = raw.Close()
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
}

// Clone returns a copy.
func (r *renewedTLS) Clone() credentials.TransportCredentials {
	return &renewedTLS{r.TransportCredentials.Clone(), r.files}
}
