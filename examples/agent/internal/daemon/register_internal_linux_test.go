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

// gate is a recording of the graph's input. Once it is shut, it blocks the next write that contains
// the word, and with it the graph, until open is closed.
type gate struct {
	word          []byte
	reached, open chan struct{}

	mu   sync.Mutex
	shut bool
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	blocks := g.shut && bytes.Contains(p, g.word)
	g.shut = g.shut && !blocks
	g.mu.Unlock()
	if blocks {
		close(g.reached)
		<-g.open
	}
	return len(p), nil
}

// gated returns a node and an agent that programs it, from the returned memory and what is
// registered. The gate holds up its graph. The agent ends with the test.
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

// registerAt registers an endpoint as over the socket.
func registerAt(t *testing.T, d *Daemon, query string, e *policy.WorkloadEndpoint) error {
	t.Helper()
	body, err := json.Marshal(e)
	require.NoError(t, err)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/v1/registry"+query, bytes.NewReader(body))
	_, err = d.register(request, d.pipeline)
	return err
}

// A registration waits until the previous holder of the address is out of the kernel, also where
// the endpoint itself is programmed already. Here a source has the endpoint, and the removal of the
// previous holder does not reach the driver before the gate opens.
func TestRegisterWaitsForPreviousHolder(t *testing.T) {
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
	require.Empty(t, d.registry.previousHolders(next.Addresses), "the address has no previous holder any more")
}

// An interface that an endpoint of another source has is refused, also where that endpoint is still
// on its way to the driver.
func TestRegisterRefusesInterfaceOfEndpointOnItsWay(t *testing.T) {
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
// ends with an error: the registered endpoint would never be programmed.
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
	require.NoError(t, d.registry.put(t.Context(), second), "the registry does not know the first endpoint")
	require.ErrorContains(t, <-waits, `interface "way7" belongs to endpoint WorkloadEndpoint/shop/first`)
	require.ErrorContains(t, d.pipeline.WaitProgrammed(t.Context(), second), "WorkloadEndpoint/shop/first")
	require.NotContains(t, d.pipeline.Driver().Status().Endpoints, second.Key())
}

// The end of a removal does not end a later removal of the same endpoint: its address still has a
// previous holder.
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
	require.Equal(t, []policy.Key{e.Key()}, r.previousHolders(addrs))
	r.endRemoval(e.Key(), second)
	require.Empty(t, r.previousHolders(addrs))
}

// An endpoint that is registered again is no previous holder any more.
func TestRegisteredAgainDoesNotLeave(t *testing.T) {
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
	require.Equal(t, []policy.Key{e.Key()}, r.previousHolders(addrs))
	require.NoError(t, r.put(t.Context(), e))
	require.Empty(t, r.previousHolders(addrs))
}

// An address that another endpoint has is refused, whichever of an endpoint's addresses it is. Its
// interface is refused, too.
func TestRegisteredAddressIsTaken(t *testing.T) {
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
	require.NoError(t, put("two", "way1", "10.0.0.8", "2001:db8::9"), "nobody has them any more")
}
