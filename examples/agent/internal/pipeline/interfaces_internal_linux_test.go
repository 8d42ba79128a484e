// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// newTestIndex returns an index of node n. Its interface way2 has the address 192.0.2.1.
func newTestIndex(t *testing.T) *interfaceIndex {
	t.Helper()
	node := nstest.New(t)
	nstest.NewWorkload(t, node, "way2", "10.0.0.2")
	require.NoError(t, node.AddAddr("way2", netip.MustParsePrefix("192.0.2.1/24")))
	known, err := interfaces.Read(interfaces.Config{NetNS: node.FD()})
	require.NoError(t, err)
	read := func() (*interfaces.Snapshot, error) { return known, nil }
	return newInterfaceIndex("n", slog.New(slog.DiscardHandler), read)
}

// on returns an update of an endpoint that has an interface.
func on(name, node, iface string, addresses ...netip.Addr) policy.Update {
	e := &policy.WorkloadEndpoint{Namespace: "shop", Name: name, Node: node, Interface: iface, Addresses: addresses}
	return policy.Update{Key: e.Key(), Resource: e}
}

// Only valid endpoints of the node own an interface, each for as long as a source has it.
func TestInterfaceOwners(t *testing.T) {
	i := newTestIndex(t)
	a, b := on("a", "n", "way0"), on("b", "n", "way0")
	new := on("new", "n", "way0").Key
	set := func(updates ...policy.Update) {
		for _, u := range updates {
			i.setOwners(verdict.World{u.Key: u.Resource})
		}
	}
	set(b, a, on("remote", "other", "way1"), on("invalid", "n", "way1", netip.Addr{}))
	require.ErrorContains(t, i.check("way0", new), `interface "way0" belongs to endpoint WorkloadEndpoint/shop/a: `)
	require.ErrorContains(t, i.check("way0", a.Key), "WorkloadEndpoint/shop/b")
	require.NoError(t, i.check("way1", new))
	set(on("a", "n", "way1"), policy.Update{Key: b.Key})
	require.NoError(t, i.check("way0", new))
	require.ErrorContains(t, i.check("way1", new), "WorkloadEndpoint/shop/a")
	require.NoError(t, i.check("way1", a.Key))
	uplink := &policy.HostEndpoint{Name: "uplink", Node: "n", InterfaceName: "eth0"}
	set(policy.Update{Key: uplink.Key(), Resource: uplink})
	require.ErrorContains(t, i.check("eth0", new), "HostEndpoint/uplink")
}

// A host endpoint without an interface name, or for all interfaces, owns the interfaces that have
// its expected addresses and no others (S108). If the interfaces cannot be read, no interface is
// free, and known endpoints do not become absent.
func TestInterfaceOwnersByAddress(t *testing.T) {
	new := on("new", "n", "way2").Key
	for _, name := range []string{"", policy.AllInterfaces} {
		i := newTestIndex(t)
		i.setYielding(on("new", "n", "way2"))
		h := &policy.HostEndpoint{Name: "host", Node: "n", InterfaceName: name}
		set := func(addresses ...netip.Addr) []policy.Key {
			h := *h
			h.ExpectedIPs = addresses
			return i.setOwners(verdict.World{h.Key(): &h})
		}
		require.Empty(t, set())
		require.NoError(t, i.check("way2", new), "the host endpoint expects no address")
		require.Empty(t, set(netip.MustParseAddr("192.0.2.2")))
		require.NoError(t, i.check("way2", new), "the interface does not have the address")
		require.Equal(t, []policy.Key{new}, set(netip.MustParseAddr("192.0.2.1")))
		require.NoError(t, i.check("way3", new))
		require.ErrorContains(t, i.check("way2", new),
			`"way2" belongs to endpoint HostEndpoint/host: remove that endpoint first; it has the address 192.0.2.1`)
		require.Equal(t, []policy.Key{new}, set(), "no longer in conflict")

		i.read = func() (*interfaces.Snapshot, error) { return nil, errors.New("no") }
		require.Empty(t, set(netip.MustParseAddr("192.0.2.1")))
		require.EqualError(t, i.check("way2", new), "no")
	}
}

// playback is a receiver that applies the updates to a world.
type playback struct{ world verdict.World }

func (p playback) InSync(context.Context) error { return nil }

func (p playback) Update(_ context.Context, updates []policy.Update) error {
	for _, u := range updates {
		if delete(p.world, u.Key); u.Resource != nil {
			p.world[u.Key] = u.Resource
		}
	}
	return nil
}

// steps is a source that sends the batches of a test, and returns the result of each.
type steps chan step

type step struct {
	batch  []policy.Update
	result chan error
}

// update sends a batch, and waits until the receiver has it.
func (s steps) update(t *testing.T, batch []policy.Update) {
	t.Helper()
	next := step{batch, make(chan error, 1)}
	s <- next
	require.NoError(t, <-next.result)
}

func (s steps) Run(ctx context.Context, r datastore.Receiver) error {
	for {
		select {
		case next := <-s:
			next.result <- r.Update(ctx, next.batch)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// The union depends only on the objects of the sources, not on the order and batches of updates.
// Endpoints of the source that yields are absent if another endpoint owns their interface.
func TestConflictsDependOnObjectsAlone(t *testing.T) {
	index := newTestIndex(t)
	updates, conflicts, ends := 0, 0, 0
	for seed := range uint64(200) {
		index := newInterfaceIndex(index.node, index.logger, index.read)
		list := []datastore.NamedSource{
			{Name: SourceManifests, Source: make(steps)},
			{Name: "registered", Source: make(steps), Yields: true},
			{Name: "etcd", Source: make(steps)},
		}
		u, err := newSources(datastore.UnionConfig{Sources: list}, index, func(key policy.Key, err error) {
			require.Equal(t, err, index.conflict(key))
			if err == nil {
				ends++
			} else {
				conflicts++
			}
		})
		require.NoError(t, err)
		rng := rand.New(rand.NewPCG(seed, 0))
		stored := []verdict.World{{}, {}, {}}
		out := playback{verdict.World{}}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = u.Run(ctx, out) })
		for range 30 {
			source := rng.IntN(3)
			var batch []policy.Update
			for range 1 + rng.IntN(4) {
				update := randomUpdate(rng, source == 1)
				if batch = append(batch, update); update.Resource == nil {
					delete(stored[source], update.Key)
				} else {
					stored[source][update.Key] = update.Resource
				}
			}
			updates += len(batch)
			list[source].Source.(steps).update(t, batch)
			want := expectedWorld(stored[0], stored[1], stored[2])
			requireSame(t, want, out.world, seed)
			requireSame(t, want, u.World(), seed)
			requireSame(t, want, u.worldWith(nil), seed)
			requireSame(t, expectedWorld(stored[2], stored[1], verdict.World{}),
				u.worldWith(stored[2], SourceManifests, "etcd"), seed)
			require.Equal(t, len(want), u.Len())
		}
		stop()
		running.Wait()
	}
	t.Logf("%d updates, %d conflicts, %d ends of conflicts", updates, conflicts, ends)
	require.NotZero(t, conflicts)
	require.NotZero(t, ends)
}

// requireSame requires that two worlds are the same.
func requireSame(t *testing.T, want, got verdict.World, seed uint64) {
	t.Helper()
	require.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)), "seed %d", seed)
	for key, r := range want {
		require.True(t, policy.Equal(r, got[key]), "seed %d: want %+v, got %+v", seed, r, got[key])
	}
}

// randomUpdate returns an update of one of a few endpoints, on one of a few interfaces.
func randomUpdate(rng *rand.Rand, workload bool) policy.Update {
	var u policy.Update
	if workload || rng.IntN(3) > 0 {
		node := []string{"n", "n", "n", "other"}[rng.IntN(4)]
		u = on(fmt.Sprint(rng.IntN(4)), node, fmt.Sprintf("way%d", rng.IntN(4)))
	} else {
		h := &policy.HostEndpoint{
			Name: fmt.Sprint(rng.IntN(2)), Node: "n", InterfaceName: []string{"", "*", "way0", "way2"}[rng.IntN(4)],
			ExpectedIPs: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + rng.IntN(2))})},
		}
		u = policy.Update{Key: h.Key(), Resource: h}
	}
	if rng.IntN(3) == 0 {
		u.Resource = nil
	}
	return u
}

// expectedWorld computes the union of three sources without an index.
func expectedWorld(manifests, registered, etcd verdict.World) verdict.World {
	others := maps.Clone(etcd)
	maps.Copy(others, manifests)
	world := maps.Clone(etcd)
	for key, r := range registered {
		e := r.(*policy.WorkloadEndpoint)
		taken := false
		for other, o := range others {
			switch o := o.(type) {
			case *policy.WorkloadEndpoint:
				taken = taken || other != key && o.Node == "n" && e.Node == "n" && o.Interface == e.Interface
			case *policy.HostEndpoint:
				byAddress := o.InterfaceName == "" || o.InterfaceName == "*"
				taken = taken || e.Node == "n" && o.InterfaceName == e.Interface || e.Node == "n" && byAddress &&
					e.Interface == "way2" && o.ExpectedIPs[0] == netip.MustParseAddr("192.0.2.1")
			}
		}
		if !taken {
			world[key] = r
		}
	}
	maps.Copy(world, manifests)
	return world
}
