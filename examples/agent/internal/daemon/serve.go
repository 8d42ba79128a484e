// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wayleave/wayleave/examples/agent/internal/metrics"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
)

// maxBody is the most that is read of a request, in bytes: a folder of manifests may be large.
const maxBody = 64 << 20

// errStarting is of questions that come before there is a pipeline to ask.
var errStarting = errors.New("the agent is starting: ask again in a moment")

// listen opens what the settings ask for, and returns the servers as tasks, and what closes all that they have not.
func (d *Daemon) listen() (servers []func(context.Context) error, silence func(), err error) {
	var open []net.Listener
	closeAll := func() {
		for _, l := range open {
			_ = l.Close() // its server has, if that has run
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	if path := d.local.Socket; path != "" {
		l, err := api.Listen(path)
		if err != nil {
			return nil, nil, err
		}
		open = append(open, l)
		servers = append(servers, serve(l, &http.Server{Handler: api.Guard(d.questions()), ConnContext: api.WithPeer}))
	}
	if address := d.local.HTTPAddress; address != "" {
		handler, err := d.public()
		if err != nil {
			return nil, nil, err
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, nil, err
		}
		open = append(open, l)
		servers = append(servers, serve(l, &http.Server{Handler: handler}))
		d.logger.Info("serving health and metrics", "address", l.Addr().String())
	}
	return servers, closeAll, nil
}

// serve returns a task that serves until its context is done. It waits for no answer that is under way.
func serve(l net.Listener, server *http.Server) func(context.Context) error {
	server.ReadHeaderTimeout = 10 * time.Second
	return func(ctx context.Context) error {
		server.BaseContext = func(net.Listener) context.Context { return ctx }
		closed := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			_ = server.Close()
			close(closed)
		})
		err := server.Serve(l)
		if !stop() {
			<-closed
			return ctx.Err()
		}
		return errors.Join(err, server.Close())
	}
}

// public is what anybody may ask over HTTP.
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
	s := metrics.Snapshot{Rejected: d.rejected.Load(), Restarts: d.restarts.Load(), Ready: d.health.CheckReady().OK}
	if d.cluster != nil {
		s.Store = d.cluster.Stats()
	}
	if p := d.current(); p != nil {
		s.Status, s.Driver, s.Runner = p.Driver().Status(), p.Driver().Stats(), p.RunnerStats()
	}
	return s
}

// questions is what may be asked on the socket.
func (d *Daemon) questions() http.Handler {
	mux := http.NewServeMux()
	ask := func(pattern string, answer func(*http.Request, *pipeline.Pipeline) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			p := d.current()
			if p == nil {
				api.Fail(w, http.StatusServiceUnavailable, errStarting)
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
	ask("GET /v1/status", d.status)
	ask("GET /v1/config", d.config)
	ask("GET /v1/endpoints", d.endpoints)
	ask("GET /v1/policies", d.policies)
	ask("GET /v1/sets", d.sets)
	ask("GET /v1/routes", d.routes)
	ask("GET /v1/ruleset", d.ruleset)
	ask("POST /v1/explain", d.explain)
	ask("POST /v1/plan", d.plan)
	ask("POST /v1/wait", d.wait)
	ask("PUT /v1/registry", d.register)
	ask("GET /v1/registry", d.registered)
	ask("DELETE /v1/registry", d.unregister)
	mux.HandleFunc("GET /v1/watch", d.watch)
	mux.HandleFunc("GET /v1/drops", d.drops)
	mux.HandleFunc("GET /v1/profile", profile)
	return mux
}

// profile writes a profile of the process, as package runtime/pprof has them: for go tool pprof, or as text.
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
	runtime.GC()            // a profile of the heap is as of the last collection but one
	_ = p.WriteTo(w, debug) // whoever asked has gone
}

// read reads the body of a request. A field that is not known makes no sense of it: it may be what an endpoint is locked by.
func read[T any](r *http.Request) (body T, err error) {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&body)
	return body, err
}

// watch writes events until whoever asked goes.
func (d *Daemon) watch(w http.ResponseWriter, r *http.Request) {
	watcher := d.events.join()
	defer d.events.leave(watcher)
	w.Header().Set("Content-Type", "application/json")
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	_ = errors.Join(out.Encode(api.Event{Time: time.Now(), Type: "watching"}), flush.Flush()) // the next one shows what is wrong
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
