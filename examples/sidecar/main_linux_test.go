// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/examples/internal/gobuild"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

func TestMain(m *testing.M) { nstest.Main(m) }

const waitTimeout = 20 * time.Second

// node is a node with a Driver of routes and policy sync. It has no policy in the kernel, so that
// the sidecar alone denies.
type node struct {
	t      *testing.T
	ns     *netns.NS
	graph  *calcgraph.Graph
	driver *dataplane.Driver
	socket func(policy.Key) string
	log    nstest.Log
}

func newNode(t *testing.T) *node {
	n := &node{t: t, ns: nstest.New(t), socket: policysync.Folder(t.TempDir()), log: nstest.NewLog()}
	table, err := routes.New(routes.Config{NetNS: n.ns.FD()})
	require.NoError(t, err)
	server, err := policysync.NewServer(policysync.ServerConfig{
		Socket: n.socket, NetNS: n.ns.FD(), Logger: slog.New(slog.NewTextHandler(n.log, nil)),
	})
	require.NoError(t, err)
	n.driver, err = dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{table, server}})
	require.NoError(t, err)
	n.graph, err = calcgraph.New(calcgraph.Config{Node: "n"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.driver.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		require.NoError(t, server.Close())
	})
	return n
}

// pod adds a pod.
func (n *node) pod(name string, addresses ...string) *netns.Workload {
	w := nstest.NewWorkload(n.t, n.ns, "way-"+name, addresses...)
	e := &policy.WorkloadEndpoint{
		Namespace: "shop", Name: name, Node: "n", Interface: "way-" + name, Addresses: w.Addresses,
		MAC: w.Link.MAC.String(), Labels: map[string]string{"name": name},
	}
	n.graph.Update(policy.Update{Key: e.Key(), Resource: e})
	return w
}

// allow makes the policy that lets one pod connect to port 80 of web.
func (n *node) allow(name string) {
	p := &policy.Policy{Namespace: "shop", Name: "web", Selector: `name == "web"`, Ingress: []policy.Rule{{
		Action: policy.Allow, Protocol: policy.ProtocolTCP,
		Source:      policy.EntityRule{Selector: `name == "` + name + `"`},
		Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80)}},
	}}}
	n.graph.Update(policy.Update{Key: p.Key(), Resource: p})
}

// send sends the changes to the dataplanes.
func (n *node) send() { require.NoError(n.t, n.driver.Send(n.t.Context(), n.graph.Flush())) }

func key(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: name}
}

// build returns the path of the program.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "sidecar")
	require.NoError(t, gobuild.Build(binary, "github.com/wayleave/wayleave/examples/sidecar"))
	return binary
}

// start starts the program in a namespace, and returns its log.
func start(t *testing.T, ns *netns.NS, binary string, args ...string) nstest.Log {
	t.Helper()
	log := nstest.NewLog()
	cmd := exec.Command(binary, args...)
	cmd.Stderr = log
	require.NoError(t, ns.Do(cmd.Start))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return log
}

// client sends requests from a namespace over one connection.
type client struct {
	*http.Client
	dials int
}

func clientIn(t *testing.T, ns *netns.NS) *client { return clientFrom(t, ns, "") }

// clientFrom is clientIn with a source address, or any if it is empty.
func clientFrom(t *testing.T, ns *netns.NS, source string) *client {
	c := &client{}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	dial := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		c.dials++
		err = ns.Do(func() (err error) {
			conn, err = d.DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	transport := &http.Transport{DialContext: dial}
	c.Client = &http.Client{Transport: transport, Timeout: 5 * time.Second}
	t.Cleanup(transport.CloseIdleConnections)
	return c
}

// get returns the status and the body of an answer, or 0 if there is none.
func (c *client) get(address string) (int, string) {
	response, err := c.Get("http://" + address + "/page")
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, strings.TrimSpace(string(body))
}

// until sends requests until one has the status, and returns its body.
func (c *client) until(t *testing.T, address string, status int) (body string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var got int
		got, body = c.get(address)
		return got == status
	}, waitTimeout, 20*time.Millisecond)
	return body
}

// serveUpstream serves HTTP on the loopback address of a pod.
func serveUpstream(t *testing.T, pod *netns.Workload) {
	t.Helper()
	var listener net.Listener
	require.NoError(t, pod.NS.Do(func() (err error) {
		listener, err = net.Listen("tcp", "127.0.0.1:8080")
		return err
	}))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "page for "+r.Header.Get("X-Forwarded-For"))
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

// One client is allowed and one is denied. After a change of policy it is the other way round, on
// open connections. Before the first state, no client is allowed, and a process outside of the pod
// does not get the policy.
func TestRequestsAreAuthorisedByPolicy(t *testing.T) {
	n, binary := newNode(t), build(t)
	web, alice, bob := n.pod("web", "10.0.0.1", "10.0.0.9"), n.pod("alice", "10.0.0.2"), n.pod("bob", "10.0.0.3")
	serveUpstream(t, web)
	log := start(t, web.NS, binary, "--socket", n.socket(key("web")))
	other := clientFrom(t, web.NS, "10.0.0.9")
	require.Contains(t, other.until(t, "10.0.0.1:80", http.StatusServiceUnavailable), "not known yet")

	n.allow("alice")
	n.graph.InSync()
	n.send()
	for _, name := range []string{"web", "alice", "bob"} {
		require.NoError(t, n.driver.WaitProgrammed(t.Context(), key(name)))
	}
	a, b := clientIn(t, alice.NS), clientIn(t, bob.NS)
	require.Equal(t, "page for 10.0.0.2", a.until(t, "10.0.0.1:80", http.StatusOK))
	require.Equal(t, "denied by end of tier default", b.until(t, "10.0.0.1:80", http.StatusForbidden))
	require.Contains(t, log.Wait(t, "denied"), `client=10.0.0.3:`)

	a.dials, b.dials = 0, 0
	n.allow("bob")
	n.send()
	require.Equal(t, "denied by end of tier default", a.until(t, "10.0.0.1:80", http.StatusForbidden))
	require.Equal(t, "page for 10.0.0.3", b.until(t, "10.0.0.1:80", http.StatusOK))
	require.Contains(t, log.Wait(t, `by="tier default Policy/shop/web rule 0"`), "allowed")
	require.Zero(t, a.dials+b.dials, "the connections stay open")

	for _, c := range []struct {
		ns          *netns.NS
		pod, reason string
	}{
		{n.ns, "web", "it is in the network namespace of the node"},
		{bob.NS, "alice", "does not have the other end of way-alice"},
	} {
		for _, address := range []string{"192.0.2.1/32", "192.0.2.2/32"} {
			require.NoError(t, c.ns.AddAddr("lo", netip.MustParsePrefix(address)))
		}
		start(t, c.ns, binary, "--socket", n.socket(key(c.pod)), "--listen", "192.0.2.1:81")
		n.log.Wait(t, c.reason)
		clientFrom(t, c.ns, "192.0.2.2").until(t, "192.0.2.1:81", http.StatusServiceUnavailable)
	}
}

// Once the endpoint of the pod is removed, no client is allowed.
func TestRequestsAreDeniedWithoutTheEndpoint(t *testing.T) {
	n, binary := newNode(t), build(t)
	web := n.pod("web", "10.0.0.1", "10.0.0.9")
	serveUpstream(t, web)
	start(t, web.NS, binary, "--socket", n.socket(key("web")))
	n.allow("web")
	n.graph.InSync()
	n.send()
	other := clientFrom(t, web.NS, "10.0.0.9")
	require.Equal(t, "page for 10.0.0.9", other.until(t, "10.0.0.1:80", http.StatusOK))
	n.graph.Update(policy.Update{Key: key("web")})
	n.send()
	require.Contains(t, other.until(t, "10.0.0.1:80", http.StatusForbidden), "the endpoint is removed")
}

// A request is denied if its addresses are not known.
func TestRequestWithoutAddressIsDenied(t *testing.T) {
	state := func() *policysync.State { return &policysync.State{} }
	p := newProxy(state, nil, &url.URL{}, slog.New(slog.DiscardHandler))
	for _, local := range []net.Addr{nil, &net.UnixAddr{Name: "s"}, net.TCPAddrFromAddrPort(netip.AddrPort{})} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, local)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://web/", nil)
		require.NoError(t, err)
		d, known := p.decide(r)
		require.True(t, known)
		require.Equal(t, policy.Deny, d.Action)
	}
}

// S104: the node itself is allowed despite policy, and other clients are not.
func TestNodeIsAlwaysAllowed(t *testing.T) {
	n, binary := newNode(t), build(t)
	require.NoError(t, n.ns.AddAddr("lo", netip.MustParsePrefix("192.0.2.1/32")))
	web, alice := n.pod("web", "10.0.0.1"), n.pod("alice", "10.0.0.2")
	serveUpstream(t, web)
	start(t, web.NS, binary, "--socket", n.socket(key("web")), "--node", "2001:db8::1,192.0.2.1")
	n.allow("nobody")
	n.graph.InSync()
	n.send()
	clientIn(t, alice.NS).until(t, "10.0.0.1:80", http.StatusForbidden)
	require.Equal(t, "page for 192.0.2.1", clientIn(t, n.ns).until(t, "10.0.0.1:80", http.StatusOK))
}

// The node is allowed before the first state of the policy, and if its address comes in IPv6 form.
func TestNodeIsAllowedWithoutPolicy(t *testing.T) {
	state := func() *policysync.State { return nil }
	nodes := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	p := newProxy(state, nodes, &url.URL{}, slog.New(slog.DiscardHandler))
	for address, want := range map[string]bool{
		"192.0.2.1:1000": true, "[::ffff:192.0.2.1]:1000": true, "192.0.2.2:1000": false, "": false,
	} {
		d, known := p.decide(requestFrom(t, address))
		require.Equal(t, want, known, address)
		require.Equal(t, want, d.Action == policy.Allow, address)
	}
}

// requestFrom returns a request from an address to port 80 of a pod.
func requestFrom(t *testing.T, address string) *http.Request {
	t.Helper()
	local := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:80"))
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, local)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://web/", nil)
	require.NoError(t, err)
	r.RemoteAddr = address
	return r
}

// stateOf returns the state of a pod with ingress rules.
func stateOf(rules ...dataplane.Rule) func() *policysync.State {
	objects, name := dptest.NewState(), policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "web"}
	objects.Policies[name] = &dataplane.Policy{Tier: "default", Ingress: rules}
	objects.Endpoints[key("web")] = &dataplane.Endpoint{Ingress: []dataplane.TierPolicies{{
		Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{name},
	}}}
	state := &policysync.State{Key: key("web"), Objects: objects}
	return func() *policysync.State { return state }
}

// S176: the DSCP of a connection is not known, so a rule that denies a DSCP denies every
// connection.
func TestUnknownDSCPDenies(t *testing.T) {
	dscp := policy.HeaderMatch{DSCP: []policy.DSCP{46}}
	for _, state := range []func() *policysync.State{
		stateOf(dataplane.Rule{Action: policy.Deny, HeaderMatch: dscp}, dataplane.Rule{Action: policy.Allow}),
		stateOf(dataplane.Rule{Action: policy.Allow, HeaderMatch: dscp}),
	} {
		p := newProxy(state, nil, &url.URL{}, slog.New(slog.DiscardHandler))
		d, known := p.decide(requestFrom(t, "10.0.0.2:1000"))
		require.True(t, known)
		require.Equal(t, policy.Deny, d.Action)
	}
}

// S103: connections of the pod to itself are allowed despite policy, with and without one. Others
// are judged.
func TestPodItselfIsAllowed(t *testing.T) {
	without := func() *policysync.State { return nil }
	for _, state := range []func() *policysync.State{without, stateOf(dataplane.Rule{Action: policy.Deny})} {
		p := newProxy(state, nil, &url.URL{}, slog.New(slog.DiscardHandler))
		for address, want := range map[string]bool{
			"10.0.0.1:1000": true, "[::ffff:10.0.0.1]:1000": true, "127.0.0.1:1000": true, "127.8.8.8:1000": true,
			"[::1]:1000": true, "10.0.0.2:1000": false, "[2001:db8::1]:1000": false, "0.0.0.0:1000": false,
		} {
			d, known := p.decide(requestFrom(t, address))
			require.Equal(t, want || state() != nil, known, address)
			require.Equal(t, want, d.Action == policy.Allow, address)
		}
	}
}

func TestHelp(t *testing.T) {
	out, err := exec.Command(build(t), "--help").CombinedOutput()
	require.NoError(t, err)
	for _, flag := range []string{"-socket path", "-listen address", "-upstream URL", "-node addresses"} {
		require.Contains(t, string(out), flag)
	}
	for _, args := range [][]string{
		{}, {"--socket", "s", "more"}, {"--socket", "s", "--upstream", "host"}, {"--socket", "s", "--node", "n1"},
	} {
		require.Error(t, run(t.Context(), args, io.Discard), args)
	}
}
