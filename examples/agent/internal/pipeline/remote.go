// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire"
)

// ErrRemote means that only the process that programs the kernel has the data; see Config.Sockets.
var ErrRemote = errors.New("pipeline: the dataplanes are in another process")

// remoteNames returns the names of the sockets, in the order in which the dataplanes are called.
func remoteNames() []string { return []string{"policy", "routes"} }

// ServeDataplanes programs nftables and routes for a pipeline in another process, until ctx is
// done. The pipeline's Config.Sockets must be the same folder as cfg.Sockets. ServeDataplanes waits
// until the other process connects. After the other process has ended, it waits for the next
// connection. The kernel state stays while it waits, and after it has returned.
//
// ServeDataplanes uses the fields of cfg that configure the kernel state, except Wireguard. It
// ignores the fields about sources, and all functions except BeforeWrite.
//
// Errors: the configuration is invalid, or a socket or file cannot be opened. It returns nil once
// ctx is done.
func ServeDataplanes(ctx context.Context, cfg Config) (err error) {
	cfg = cfg.withDefaults()
	cfg.Wireguard = nil
	k, err := openKernel(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	var tasks []func(context.Context) error
	for i, name := range remoteNames() {
		client, err := wire.NewClient(wire.ClientConfig{
			Dataplane: k.dataplanes()[i], Name: "agent dataplane", Authenticate: wire.SameUser,
			Logger: cfg.Logger.With("dataplane", name),
		})
		if err != nil {
			return err
		}
		dial := wire.Dial(filepath.Join(cfg.Sockets, name))
		tasks = append(tasks, func(ctx context.Context) error { return client.Run(ctx, dial) })
	}
	return Together(ctx, tasks...)
}

// remote has the dataplanes that stand for those of another process, which runs ServeDataplanes.
type remote struct {
	servers   []*wire.Server
	listeners []net.Listener
}

// listen opens the sockets in a folder.
func listen(folder string, log *slog.Logger) (*remote, error) {
	r := &remote{}
	for _, name := range remoteNames() {
		server, err := wire.NewServer(wire.ServerConfig{Name: "agent", Logger: log.With("dataplane", name)})
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		listener, err := wire.Listen(filepath.Join(folder, name))
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.servers, r.listeners = append(r.servers, server), append(r.listeners, listener)
	}
	return r, nil
}

func (r *remote) dataplanes() (list []dataplane.Dataplane) {
	for _, s := range r.servers {
		list = append(list, s)
	}
	return list
}

// serve accepts connections of the other process until ctx is done.
func (r *remote) serve(ctx context.Context) error {
	var tasks []func(context.Context) error
	for i, s := range r.servers {
		tasks = append(tasks, func(ctx context.Context) error { return s.Serve(ctx, r.listeners[i]) })
	}
	return Together(ctx, tasks...)
}

func (r *remote) close() (err error) {
	for _, l := range r.listeners {
		if cause := l.Close(); !errors.Is(cause, net.ErrClosed) {
			err = errors.Join(err, cause)
		}
	}
	return err
}
