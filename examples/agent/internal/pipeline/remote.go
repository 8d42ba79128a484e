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

// ErrRemote is returned for data that only the process with the dataplanes has; see Config.Sockets.
var ErrRemote = errors.New("pipeline: the dataplanes are in another process")

// remoteNames returns the names of the sockets, in the order in which the dataplanes are called.
func remoteNames() []string { return []string{"policy", "routes"} }

// ServeDataplanes runs nftables and routes for the pipeline of another process, whose Config.Sockets is cfg.Sockets,
// until ctx is done. It waits for that process, also after it has ended. Without that process, and after the end, the
// kernel state stays. Of cfg, it uses the fields that configure the kernel state, except Wireguard. It does not use
// fields about sources, and hooks.
//
// Errors: an invalid configuration; sockets and files that cannot be opened; nil once ctx is done.
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

// remote is the dataplanes of another process, which runs ServeDataplanes.
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

// serve accepts the other process until ctx is done.
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
