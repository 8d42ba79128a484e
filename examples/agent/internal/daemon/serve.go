// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wayleave/wayleave/examples/agent/internal/metrics"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/server"
	"github.com/wayleave/wayleave/examples/internal/api"
)

// maxBody is the maximum size of a request in bytes: a folder of manifests may be large.
const maxBody = 64 << 20

// listen takes the lock of the socket, and opens the listeners that the settings name. It returns
// the servers as tasks. closeAll closes the listeners whose server never ran.
func (d *Daemon) listen(ctx context.Context) (servers []func(context.Context) error, closeAll func(), err error) {
	var open []io.Closer
	closeOpen := func() {
		for _, l := range open {
			_ = l.Close() // closed already if its server has run
		}
	}
	defer func() {
		if err != nil {
			closeOpen()
		}
	}()
	publicConns, socketConns := connLimits()
	public, err := d.public()
	if err != nil {
		return nil, nil, err
	}
	if path := d.local.Socket; path != "" {
		l, lock, err := api.Listen(ctx, path)
		if err != nil {
			return nil, nil, err
		}
		open = append(open, l, lock)
		servers = append(servers, d.serve(server.Config{
			Listener: l, Handler: api.Guard(d.socketHandler(public)), MaxConns: socketConns, MaxBody: maxBody,
			ConnContext: api.WithPeer,
		}))
	}
	if address := d.local.HTTPAddress; address != "" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, nil, fmt.Errorf("http-address: %w", err)
		}
		open = append(open, l)
		servers = append(servers, d.serve(server.Config{
			Listener: l, Handler: public, MaxConns: publicConns, EndRequestsAfter: time.Second,
			BodyTimeout: 10 * time.Second,
		}))
		d.logger.Info("serving health and metrics", "address", l.Addr().String())
	}
	return servers, closeOpen, nil
}

// serve returns a task that runs a server until its context is done. It does not wait for answers
// in progress.
func (d *Daemon) serve(cfg server.Config) func(context.Context) error {
	cfg.Closed = func() { d.closedConns.Add(1) }
	cfg.Logger = d.logger.With("listener", cfg.Listener.Addr().String())
	return func(ctx context.Context) error { return server.Run(ctx, cfg) }
}

// connLimits returns the maximum numbers of connections of the HTTP address and of the socket.
// Together they are less than half of the process's limit of file descriptors. So clients of one
// listener cannot use up the file descriptors that the other needs.
func connLimits() (public, socket int) {
	const atMost = 8192
	var descriptors syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &descriptors); err != nil {
		descriptors.Cur = 1024 // the usual limit
	}
	n := int(min(descriptors.Cur, atMost))
	return min(max(n/8, 4), 256), min(max(n/4, 8), 1024)
}

// public returns the handler for the HTTP address: health and metrics.
func (d *Daemon) public() (http.Handler, error) {
	registry, err := metrics.New(d.snapshot)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /livez", d.health.Live())
	mux.Handle("GET /readyz", d.health.Ready())
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, nil
}

func (d *Daemon) snapshot() metrics.Snapshot {
	s := metrics.Snapshot{
		Rejected: d.rejected.Load(), Restarts: d.restarts.Load(), ClosedConns: d.closedConns.Load(),
		Ready: d.health.CheckReady().OK,
	}
	if d.cluster != nil {
		s.Store = d.cluster.Stats()
	}
	if d.kube != nil {
		status := d.kube.Status()
		s.Kubernetes = &status
	}
	s.Flows = d.flows.stats()
	if p := d.current(); p != nil {
		s.Status, s.Driver, s.Runner = p.Status(), p.Driver().Stats(), p.RunnerStats()
		s.Classes = p.ClassStats()
		s.Doubts, s.Disputes = len(p.Doubts()), len(p.Driver().Disputes())
	}
	return s
}

// socketHandler returns the handler for the socket: the API, and the same health and metrics as on
// the HTTP address.
func (d *Daemon) socketHandler(public http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", public)
	// These requests are answered even while the first pipeline waits for a directory.
	early := map[string]bool{"GET /v1/status": true, "GET /v1/config": true}
	handle := func(pattern string, answer func(*http.Request, *pipeline.Pipeline) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			p := d.current()
			if p == nil && (!early[pattern] || len(d.unreadable(nil)) == 0) {
				api.Fail(w, http.StatusServiceUnavailable, d.starting())
				return
			}
			body, err := answer(r, p)
			if err != nil {
				api.Fail(w, http.StatusUnprocessableEntity, err)
				return
			}
			api.Answer(w, body)
		})
	}
	handle("GET /v1/status", d.status)
	handle("GET /v1/config", d.config)
	handle("GET /v1/endpoints", d.endpoints)
	handle("GET /v1/policies", d.policies)
	handle("GET /v1/sets", d.sets)
	handle("GET /v1/routes", d.routes)
	handle("GET /v1/ruleset", d.ruleset)
	handle("GET /v1/flows", d.answerFlows)
	handle("POST /v1/explain", d.explain)
	handle("POST /v1/plan", d.plan)
	handle("POST /v1/wait", d.wait)
	handle("PUT /v1/registry", d.register)
	handle("GET /v1/registry", d.registered)
	handle("DELETE /v1/registry", d.unregister)
	mux.HandleFunc("GET /v1/verify", d.verify)
	mux.HandleFunc("GET /v1/watch", d.watch)
	mux.HandleFunc("GET /v1/drops", d.drops)
	mux.HandleFunc("GET /v1/profile", profile)
	return mux
}

// profile writes a profile of package runtime/pprof, in the format of go tool pprof or as text.
func profile(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	p := pprof.Lookup(name)
	if p == nil {
		api.Fail(w, http.StatusUnprocessableEntity, fmt.Errorf("there is no profile %q", name))
		return
	}
	debug := 0
	if r.URL.Query().Get("text") == "true" {
		debug = 1
	}
	runtime.GC()
	runtime.GC()            // a heap profile shows an earlier collection
	_ = p.WriteTo(w, debug) // an error means that the client has disconnected
}

// read decodes the body of a request. An unknown field is an error, because the field may be a
// restriction.
func read[T any](r *http.Request) (body T, err error) {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&body)
	return body, err
}

// watch sends events until the client disconnects.
func (d *Daemon) watch(w http.ResponseWriter, r *http.Request) {
	watcher := d.events.join()
	defer d.events.leave(watcher)
	w.Header().Set("Content-Type", "application/json")
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	// the next call returns the error
	_ = errors.Join(out.Encode(api.Event{Time: time.Now(), Type: "watching"}), flush.Flush())
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-watcher.events:
			if err := errors.Join(out.Encode(e), flush.Flush()); err != nil {
				return
			}
		}
	}
}
