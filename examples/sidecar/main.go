// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/policy"
)

const usage = `usage: sidecar --socket PATH [flags]

It passes HTTP requests on to a server if the ingress policy of this pod allows them.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sidecar:", err)
		os.Exit(1)
	}
}

// run runs the command line until the context is done.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("sidecar", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		_, _ = fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	socket := flags.String("socket", "", "`path` of the socket with the policy of this pod")
	listen := flags.String("listen", ":80", "`address` to listen on")
	upstream := flags.String("upstream", "http://127.0.0.1:8080", "`URL` of the server that gets allowed requests")
	var nodes []netip.Addr
	flags.Func("node", "`addresses` of the node, separated by commas, which are always allowed; may be repeated",
		func(list string) error {
			for text := range strings.SplitSeq(list, ",") {
				a, err := netip.ParseAddr(text)
				if err != nil {
					return err
				}
				nodes = append(nodes, a.Unmap())
			}
			return nil
		})
	if err := flags.Parse(args); err != nil {
		return err
	}
	target, err := url.Parse(*upstream)
	if err != nil || target.Host == "" {
		return fmt.Errorf("--upstream %q is no URL with a host", *upstream)
	}
	if *socket == "" || flags.NArg() != 0 {
		return errors.New("--socket is required, and there are no arguments; see --help")
	}
	logger := slog.New(slog.NewTextHandler(out, nil))
	client, err := policysync.NewClient(policysync.ClientConfig{Path: *socket, Name: "sidecar", Logger: logger})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	return serve(ctx, listener, client, newProxy(client.State, nodes, target, logger))
}

// serve receives the policy and serves requests, until the context is done.
func serve(ctx context.Context, listener net.Listener, client *policysync.Client, handler http.Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { _ = client.Run(ctx) })
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		const grace = 5 * time.Second // for requests in progress
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		return server.Shutdown(end)
	}
}

// proxy authorises requests and passes them on.
type proxy struct {
	state    func() *policysync.State
	nodes    []netip.Addr
	upstream http.Handler
	logger   *slog.Logger
}

func newProxy(state func() *policysync.State, nodes []netip.Addr, target *url.URL, logger *slog.Logger) *proxy {
	return &proxy{state: state, nodes: nodes, logger: logger, upstream: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		},
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}}
}

// ServeHTTP passes an allowed request on.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	decision, known := p.decide(r)
	if !known {
		http.Error(w, "the policy is not known yet", http.StatusServiceUnavailable)
		return
	}
	log := p.logger.With("client", r.RemoteAddr, "method", r.Method, "path", r.URL.Path, "by", decision.By)
	if decision.Action != policy.Allow {
		log.Warn("denied")
		http.Error(w, "denied by "+decision.By, http.StatusForbidden)
		return
	}
	log.Info("allowed")
	p.upstream.ServeHTTP(w, r)
}

// decide evaluates a request. Requests to which the kernel does not apply policy are always
// allowed. These requests come from the node, or from the pod itself (cases S104 and S103 of
// docs/semantics.md). As long as the sidecar has not received the policy, known is false.
func (p *proxy) decide(r *http.Request) (d dptest.Decision, known bool) {
	packet, err := packetOf(r)
	state := p.state()
	switch {
	case err == nil && slices.Contains(p.nodes, packet.Src):
		return dptest.Decision{Action: policy.Allow, By: "--node"}, true
	case err == nil && (packet.Src == packet.Dst || packet.Src.IsLoopback()):
		return dptest.Decision{Action: policy.Allow, By: "the pod itself"}, true
	case state == nil:
		return dptest.Decision{}, false
	case err != nil:
		return dptest.Decision{Action: policy.Deny, By: err.Error()}, true
	}
	return state.Ingress(packet, policysync.UnknownDSCP), true
}

// packetOf returns the first packet of the connection on which a request arrived.
func packetOf(r *http.Request) (dptest.Packet, error) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return dptest.Packet{}, errors.New("a connection without an address")
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	to, err2 := netip.ParseAddrPort(local.String())
	return dptest.Packet{
		Src: from.Addr().Unmap().WithZone(""), SrcPort: from.Port(),
		Dst: to.Addr().Unmap().WithZone(""), DstPort: to.Port(), Protocol: policy.ProtocolTCP,
	}, errors.Join(err, err2)
}
