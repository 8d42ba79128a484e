// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/registry"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// gate receives the recording of the graph's input. Once it is closed, it blocks the next write
// that contains the word, and with it the graph, until the channel open is closed.
type gate struct {
	word          []byte
	reached, open chan struct{}

	mu     sync.Mutex
	closed bool
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	blocks := g.closed && bytes.Contains(p, g.word)
	g.closed = g.closed && !blocks
	g.mu.Unlock()
	if blocks {
		close(g.reached)
		<-g.open
	}
	return len(p), nil
}

// gated returns a node and an agent that programs it. The agent's sources are the returned memory
// and its registered endpoints. The gate can block the agent's graph. The agent ends with the test.
func gated(t *testing.T, g *gate) (*netns.NS, *Daemon, *datastore.Memory) {
	t.Helper()
	node, memory := nstest.New(t), &datastore.Memory{}
	r, problems, err := registry.Open(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, problems)
	p, err := pipeline.New(pipeline.Config{
		Node: "n", NetNS: node.FD(), Record: g, Programmed: func(pipeline.State) {},
		Sources: []datastore.NamedSource{
			{Name: "memory", Source: memory}, {Name: sourceRegistered, Source: r, Yields: true},
		},
	})
	require.NoError(t, err)
	d, err := newDaemon(Config{NetNS: node.FD()})
	require.NoError(t, err)
	d.local.Node, d.pipeline = "n", p
	d.registry = &registered{Registry: r, removals: map[policy.Key]*removal{}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return node, d, memory
}

// registerAt sends a request to register an endpoint to the handler of the socket.
func registerAt(t *testing.T, d *Daemon, query string, e *policy.WorkloadEndpoint) error {
	t.Helper()
	body, err := json.Marshal(e)
	require.NoError(t, err)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/v1/registry"+query, bytes.NewReader(body))
	_, err = d.register(request, d.pipeline)
	return err
}

// A registration waits until the previous owner of the address is removed from the kernel, even if
// the endpoint itself is already programmed. Here a source has the endpoint, and the removal of the
// previous owner does not reach the driver before the gate opens.
func TestRegisterWaitsForPreviousOwner(t *testing.T) {
	g := &gate{word: []byte("previous"), reached: make(chan struct{}), open: make(chan struct{})}
	node, d, memory := gated(t, g)
	p, r := d.pipeline, d.registry.Registry

	endpoint := func(name, iface string) *policy.WorkloadEndpoint {
		nstest.NewWorkload(t, node, iface, "10.0.0.9")
		return &policy.WorkloadEndpoint{
			Namespace: "shop", Name: name, Node: "n", Interface: iface,
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9")},
		}
	}
	next, previous := endpoint("next", "way0"), endpoint("previous", "way1")
	require.NoError(t, r.Put(t.Context(), previous))
	require.NoError(t, p.WaitProgrammed(t.Context(), previous))
	require.NoError(t, memory.Update(t.Context(), []policy.Update{{Key: next.Key(), Resource: next}}))
	require.NoError(t, p.WaitProgrammed(t.Context(), next))
	g.close()
	_, err := d.registry.remove(t.Context(), previous.Key(), "", "")
	require.NoError(t, err)
	<-g.reached

	put := func(query string) error { return registerAt(t, d, query, next) }
	require.ErrorIs(t, put("?timeout=500ms"), context.DeadlineExceeded)
	require.Contains(t, p.Driver().Status().Endpoints, previous.Key())
	close(g.open)
	require.NoError(t, put(""))
	require.NotContains(t, p.Driver().Status().Endpoints, previous.Key())
	require.Empty(t, d.registry.previousOwners(next.Addresses), "the address has no previous owner any more")
}

// A registration is refused if an endpoint of another source has the interface, even if the driver
// has not received that endpoint yet.
func TestRegisterRefusesInterfaceOfQueuedEndpoint(t *testing.T) {
	g := &gate{word: []byte("way7"), reached: make(chan struct{}), open: make(chan struct{})}
	_, d, memory := gated(t, g)
	defer close(g.open)
	endpoint := func(name, node, address string) *policy.WorkloadEndpoint {
		return &policy.WorkloadEndpoint{
			Namespace: "shop", Name: name, Node: node, Interface: "way7",
			Addresses: []netip.Addr{netip.MustParseAddr(address)},
		}
	}
	add := func(e *policy.WorkloadEndpoint) {
		require.NoError(t, memory.Update(t.Context(), []policy.Update{{Key: e.Key(), Resource: e}}))
	}
	g.close()
	add(endpoint("first", "n", "10.0.0.7"))
	<-g.reached
	second := endpoint("second", "n", "10.0.0.8")
	require.ErrorContains(t, registerAt(t, d, "?timeout=500ms", second),
		`interface "way7" belongs to endpoint WorkloadEndpoint/shop/first: remove that endpoint first`)
	require.Nil(t, d.registry.Get(second.Key()))
}

// If an endpoint of another source gets the interface while a registration is written, the request
// ends with an error. This is because the registered endpoint would never be programmed.
func TestRegistrationInConflictDoesNotWait(t *testing.T) {
	_, d, memory := gated(t, &gate{word: []byte("none")})
	endpoint := func(name, address string) *policy.WorkloadEndpoint {
		return &policy.WorkloadEndpoint{
			Namespace: "shop", Name: name, Node: "n", Interface: "way7",
			Addresses: []netip.Addr{netip.MustParseAddr(address)},
		}
	}
	first, second := endpoint("first", "10.0.0.7"), endpoint("second", "10.0.0.8")
	waits := make(chan error, 1)
	go func() { waits <- d.pipeline.WaitProgrammed(t.Context(), second) }()
	require.NoError(t, memory.Update(t.Context(), []policy.Update{{Key: first.Key(), Resource: first}}))
	require.NoError(t, d.registry.put(t.Context(), second), "the registry does not have the first endpoint")
	require.ErrorContains(t, <-waits, `interface "way7" belongs to endpoint WorkloadEndpoint/shop/first`)
	require.ErrorContains(t, d.pipeline.WaitProgrammed(t.Context(), second), "WorkloadEndpoint/shop/first")
	require.NotContains(t, d.pipeline.Driver().Status().Endpoints, second.Key())
}

// The end of a removal does not end a later removal of the same endpoint: its address still has a
// previous owner.
func TestEndOfRemovalKeepsLaterRemoval(t *testing.T) {
	stored, _, err := registry.Open(t.TempDir())
	require.NoError(t, err)
	r := &registered{Registry: stored, removals: map[policy.Key]*removal{}}
	addrs := []netip.Addr{netip.MustParseAddr("10.0.0.9")}
	e := &policy.WorkloadEndpoint{Namespace: "shop", Name: "a", Node: "n", Interface: "way0", Addresses: addrs}
	remove := func() *removal {
		require.NoError(t, r.put(t.Context(), e))
		_, err := r.remove(t.Context(), e.Key(), "", "")
		require.NoError(t, err)
		return r.lastRemoval(e.Key())
	}
	first := remove()
	second := remove()
	r.endRemoval(e.Key(), first)
	require.Equal(t, []policy.Key{e.Key()}, r.previousOwners(addrs))
	r.endRemoval(e.Key(), second)
	require.Empty(t, r.previousOwners(addrs))
}

// If a removed endpoint is registered again, it is not a previous owner of its address.
func TestReregistrationCancelsRemoval(t *testing.T) {
	stored, _, err := registry.Open(t.TempDir())
	require.NoError(t, err)
	r := &registered{Registry: stored, removals: map[policy.Key]*removal{}}
	addrs := []netip.Addr{netip.MustParseAddr("10.0.0.9")}
	e := &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "a", Node: "n", Interface: "way0", MAC: "02:00:00:00:00:01", Addresses: addrs,
	}
	require.NoError(t, r.put(t.Context(), e))
	_, err = r.remove(t.Context(), e.Key(), "", "")
	require.NoError(t, err)
	require.Equal(t, []policy.Key{e.Key()}, r.previousOwners(addrs))
	require.NoError(t, r.put(t.Context(), e))
	require.Empty(t, r.previousOwners(addrs))
}

// A registration is refused if another registered endpoint has its interface or one of its
// addresses.
func TestAddressOfAnotherEndpointIsRefused(t *testing.T) {
	stored, _, err := registry.Open(t.TempDir())
	require.NoError(t, err)
	r := &registered{Registry: stored, removals: map[policy.Key]*removal{}}
	put := func(name, iface string, addrs ...string) error {
		e := &policy.WorkloadEndpoint{Namespace: "shop", Name: name, Node: "n", Interface: iface}
		for _, a := range addrs {
			e.Addresses = append(e.Addresses, netip.MustParseAddr(a))
		}
		return r.put(t.Context(), e)
	}
	require.NoError(t, put("one", "way0", "10.0.0.9", "2001:db8::9"))
	require.ErrorContains(t, put("two", "way1", "10.0.0.9"), "10.0.0.9 belongs to endpoint shop/one")
	require.ErrorContains(t, put("two", "way1", "10.0.0.8", "2001:db8::9"), "2001:db8::9 belongs to endpoint shop/one")
	require.Nil(t, r.Get(policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "two"}))
	require.NoError(t, put("one", "way0", "10.0.0.9", "10.0.0.7"), "its own addresses")
	require.ErrorContains(t, put("two", "way0", "10.0.0.8"), `interface "way0" belongs to endpoint`)
	require.NoError(t, put("two", "way1", "10.0.0.8", "2001:db8::9"), "no endpoint has these addresses any more")
}
