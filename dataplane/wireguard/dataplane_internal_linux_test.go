// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// testDataplane is the Dataplane of the node a of network, in a namespace. Its WireGuard device is
// a fake one.
type testDataplane struct {
	*testing.T
	*Dataplane
	ns     *netns.NS
	kernel *fakeKernel
	key    string // path
	now    time.Time
	// announcements is the number of calls of Config.Announce.
	announcements int
}

func newTestDataplane(t *testing.T) *testDataplane {
	a := &testDataplane{T: t, ns: nstest.New(t), key: filepath.Join(t.TempDir(), "key"), now: time.Now()}
	a.kernel = &fakeKernel{T: t, devices: map[string]*wgtypes.Device{"wg.way": {Type: wgtypes.LinuxKernel}}}
	d, err := New(Config{
		Node: "a", NetNS: a.ns.FD(), Devices: []Device{{KeyFile: a.key}},
		Announce: func([]policy.WireguardKey) { a.announcements++ },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	a.Dataplane, d.devices.kernel, d.applyTimer.now = d, a.kernel, func() time.Time { return a.now }
	return a
}

// applyVisible applies events, but does not finish.
func (a *testDataplane) applyVisible(events ...dataplane.Event) error {
	return a.ApplyVisible(a.Context(), dataplane.Batch{Events: events})
}

// ip returns the output of a command in the namespace.
func (a *testDataplane) ip(command string) string {
	var out []byte
	require.NoError(a, a.ns.Do(func() (err error) {
		out, err = exec.Command("ip", strings.Fields(command)...).Output()
		return err
	}))
	return string(out)
}

// drops reports whether packets to a prefix are dropped if no other route applies.
func (a *testDataplane) drops(prefix string) bool {
	list := a.ip("route show table 22361")
	rules := a.ip("rule")
	return strings.Contains(list, "blackhole "+prefix) && strings.Contains(rules, "100:	from all lookup 22361")
}

// ownBlackholes returns the blackhole routes of the main table.
func (a *testDataplane) ownBlackholes() (list []string) {
	for line := range strings.Lines(a.ip("route show table main type blackhole")) {
		list = append(list, strings.Fields(line)[1])
	}
	return list
}

// A key file with an invalid key is a fault of this node, and packets to encrypted prefixes are
// still dropped. The keys are announced once the file is repaired.
func TestInvalidKeyFile(t *testing.T) {
	a := newTestDataplane(t)
	require.NoError(t, os.WriteFile(a.key, []byte("none"), 0o600))
	objects, general := dataplane.ApplyErrors(a.applyVisible(network()...))
	require.False(t, general)
	require.ErrorIs(t, objects[policy.Key{Kind: policy.KindNode, Name: "a"}], ErrKey)
	require.True(t, a.drops("10.0.2.0/26"))
	require.Zero(t, a.announcements)
	require.Equal(t, wgtypes.Key{}, a.kernel.devices["wg.way"].PrivateKey)
	require.Len(t, a.kernel.devices["wg.way"].Peers, 1, "the device may have the key of an earlier process")

	require.NoError(t, os.Remove(a.key))
	a.now = a.now.Add(retryInterval)
	require.NotErrorIs(t, a.applyVisible(&dataplane.NodeRemove{Name: "x"}), ErrKey)
	require.Equal(t, 1, a.announcements)
	require.NotEqual(t, wgtypes.Key{}, a.kernel.devices["wg.way"].PrivateKey)
}

// Packets to the node's own blocks are dropped before a device has a key or a peer. With a key and
// a peer, the device already decrypts packets to workloads whose routes come later.
func TestOwnBlocksAreDroppedFirst(t *testing.T) {
	a := newTestDataplane(t)
	a.kernel.beforeChange = func() { require.Equal(t, []string{"10.0.1.0/26", "10.0.2.8"}, a.ownBlackholes()) }
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	require.Len(t, a.kernel.devices["wg.way"].Peers, 1)
	block := routeUpdate("10.0.5.0/26", "a", dataplane.RouteBlackhole)
	_ = a.applyVisible(block)
	require.Contains(t, a.ownBlackholes(), "10.0.5.0/26")
	_ = a.applyVisible(&dataplane.RouteRemove{Dst: block.Route.Dst})
	require.Contains(t, a.ownBlackholes(), "10.0.5.0/26")
	require.NoError(t, a.Finish(t.Context()))
	require.NotContains(t, a.ownBlackholes(), "10.0.5.0/26")
	require.NoError(t, a.Teardown(t.Context()))
	require.Empty(t, a.ownBlackholes())
}

// While the kernel refuses the blackhole route of an own block, the device gets no key and no peer.
// Everything else is programmed.
func TestOwnBlockIsRefused(t *testing.T) {
	a := newTestDataplane(t)
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	require.Len(t, a.kernel.devices["wg.way"].Peers, 1)
	refuse := func() { a.ip("route add unreachable 10.0.5.0/26 metric 2147483648 proto 99") }
	accept := func() { a.ip("route del unreachable 10.0.5.0/26 metric 2147483648 proto 99") }
	refuse()
	block := routeUpdate("10.0.5.0/26", "a", dataplane.RouteBlackhole)
	for range 2 { // the second attempt has the same result
		_, general := dataplane.ApplyErrors(a.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{
			block, nodeUpdate("c", "192.0.2.3", testKey(3)),
		}}))
		require.True(t, general)
		require.Len(t, a.kernel.devices["wg.way"].Peers, 1)
		require.True(t, a.drops("10.0.3.0/26"), "the route of the new peer")
	}
	accept()
	a.kernel.beforeChange = func() { require.Contains(t, a.ownBlackholes(), "10.0.5.0/26") }
	_ = a.Apply(t.Context(), dataplane.Batch{})
	require.Len(t, a.kernel.devices["wg.way"].Peers, 2)
	a.kernel.beforeChange = nil

	_ = a.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{&dataplane.RouteRemove{Dst: block.Route.Dst}}})
	refuse()
	_ = a.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{block}})
	_, general := dataplane.ApplyErrors(a.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{
		&dataplane.RouteRemove{Dst: block.Route.Dst},
	}}))
	require.False(t, general, "the block is no longer this node's")
	accept()
	_ = a.Resync(t.Context())
	require.NotContains(t, a.ownBlackholes(), "10.0.5.0/26")
}

// If the blackhole route of an own block is refused only at first, the peers are added in the same
// call.
func TestOwnBlockIsRefusedOnce(t *testing.T) {
	a := newTestDataplane(t)
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	a.ip("route add unreachable 10.0.5.0/26 metric 2147483648 proto 99")
	a.kernel.beforeRead = sync.OnceFunc(func() { a.ip("route del unreachable 10.0.5.0/26 metric 2147483648 proto 99") })
	_ = a.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{
		routeUpdate("10.0.5.0/26", "a", dataplane.RouteBlackhole), nodeUpdate("c", "192.0.2.3", testKey(3)),
	}})
	require.Contains(t, a.ownBlackholes(), "10.0.5.0/26")
	require.Len(t, a.kernel.devices["wg.way"].Peers, 2)
}

// A workload of this node may have an address in another node's block. Packets to such a workload
// are dropped until the workload has a route: the packets must not leave unencrypted.
func TestBorrowedAddressIsDropped(t *testing.T) {
	a := newTestDataplane(t)
	a.ip("link set lo up")
	a.ip("link add eth0 type veth peer name peer0")
	a.ip("link set peer0 up")
	a.ip("link set eth0 up")
	a.ip("addr add 192.0.2.1/24 dev eth0")
	a.ip("route add default via 192.0.2.2")
	borrowed := netip.MustParsePrefix("10.0.2.12/32")
	for _, events := range [][]dataplane.Event{
		network(),
		{routeUpdate(borrowed.String(), "a", dataplane.RouteBlackhole)},
		{routeUpdate(borrowed.String(), "a", dataplane.RouteLocalWorkload)},
		{routeUpdate(borrowed.String(), "b", dataplane.RouteRemoteWorkload)},
		{routeUpdate(borrowed.String(), "a", dataplane.RouteLocalWorkload)},
		{&dataplane.RouteRemove{Dst: borrowed}},
	} {
		for _, step := range []func(){
			func() { _ = a.applyVisible(events...) },
			func() { require.NoError(t, a.Finish(t.Context())) },
		} {
			step()
			var out []byte
			require.Error(t, a.ns.Do(func() (err error) {
				out, err = exec.Command("ip", "route", "get", borrowed.Addr().String()).CombinedOutput()
				if strings.Contains(string(out), "dev wg.way") { // the kernel has such devices
					err = errors.New("encrypted")
				}
				return err
			}), "%v: %s", events, out)
		}
	}
}

// The setting of rp_filter follows the node's address to another interface.
func TestUplinkMoves(t *testing.T) {
	a := newTestDataplane(t)
	rpFilter := func(name string) string {
		value, err := a.ns.Sysctl("net/ipv4/conf/" + name + "/rp_filter")
		require.NoError(t, err)
		return value
	}
	for _, name := range []string{"eth0", "bond0"} {
		a.ip("link add " + name + " type veth peer name peer-" + name)
		require.NoError(t, a.ns.SetSysctl("net/ipv4/conf/"+name+"/rp_filter", "1"))
	}
	a.ip("addr add 192.0.2.1/24 dev eth0")
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	require.Equal(t, []string{"2", "1"}, []string{rpFilter("eth0"), rpFilter("bond0")})
	a.ip("addr del 192.0.2.1/24 dev eth0")
	a.ip("addr add 192.0.2.1/24 dev bond0")
	_ = a.Apply(t.Context(), dataplane.Batch{})
	require.Equal(t, "2", rpFilter("bond0"))
}

// While Watch runs, a new process keeps the objects of an earlier one that it needs.
func TestStartBesideWatch(t *testing.T) {
	a := newTestDataplane(t)
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	require.NoError(t, a.Close())
	b := newTestDataplane(t)
	d, err := New(Config{Node: "a", NetNS: a.ns.FD(), Devices: []Device{{KeyFile: a.key}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	b.ns, b.kernel, b.Dataplane, d.devices.kernel = a.ns, a.kernel, d, a.kernel
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- d.Watch(ctx, func(dataplane.Drift) {}) }()
	a.kernel.devices["wg.way"].ListenPort = 1 // this value differs, so the device is changed
	steps := 0
	a.kernel.beforeChange = func() {
		steps++
		// The route exists again once Watch has made a pass.
		a.ip("route del blackhole 10.0.1.0/26 metric 2147483648")
		require.Eventually(t, func() bool { return slices.Contains(a.ownBlackholes(), "10.0.1.0/26") },
			10*time.Second, time.Millisecond)
		require.True(t, a.drops("10.0.2.0/26"))
	}
	_ = b.applyVisible(network()...)
	require.Equal(t, 1, steps)
	require.True(t, a.drops("10.0.2.0/26"))
	cancel()
	require.ErrorIs(t, <-watched, context.Canceled)
}

// A prefix that is removed stays encrypted until Finish. One that is added again by then stays
// encrypted, and Finish ends the encryption of the others.
func TestUnwantedRoutesStayUntilFinish(t *testing.T) {
	a := newTestDataplane(t)
	peers := func() int { return len(a.kernel.devices["wg.way"].Peers) }
	_ = a.applyVisible(network()...) // the kernel has no device
	require.NoError(t, a.Finish(a.Context()))
	require.Nil(t, a.Unfinished())
	removed := &dataplane.RouteRemove{Dst: netip.MustParsePrefix("10.0.2.0/26")}
	_ = a.applyVisible(removed)
	require.True(t, a.drops("10.0.2.0/26"))
	<-a.Unfinished()
	_ = a.applyVisible(routeUpdate("10.0.2.0/26", "b", dataplane.RouteRemoteWorkload))
	require.NoError(t, a.Finish(a.Context()))
	require.True(t, a.drops("10.0.2.0/26"))

	_ = a.applyVisible(removed, &dataplane.NodeRemove{Name: "b"})
	require.True(t, a.drops("10.0.2.0/26"))
	require.Equal(t, 1, peers())
	require.NoError(t, a.Finish(a.Context()))
	require.False(t, a.drops("10.0.2.0/26"))
	require.Zero(t, peers())

	// Apply also finishes.
	_ = a.Apply(a.Context(), dataplane.Batch{Events: network()})
	require.True(t, a.drops("10.0.2.0/26"))
	throw := func() string { return a.ip("route show table 22361 type throw") }
	require.Contains(t, throw(), "throw 10.0.2.8")
	_ = a.applyVisible(&dataplane.RouteRemove{Dst: netip.MustParsePrefix("10.0.2.8/32")})
	require.NotContains(t, throw(), "throw 10.0.2.8")
	_ = a.Apply(a.Context(), dataplane.Batch{Events: []dataplane.Event{removed}})
	require.False(t, a.drops("10.0.2.0/26"))
}

// A new process leaves the objects of an earlier one to Finish: later dataplanes may still have
// routes to them.
func TestStartLeavesUnwantedRoutesToFinish(t *testing.T) {
	a := newTestDataplane(t)
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	require.NoError(t, a.Close())
	b := newTestDataplane(t)
	b.ns = a.ns
	d, err := New(Config{Node: "a", NetNS: a.ns.FD(), Devices: []Device{{KeyFile: a.key}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	b.Dataplane, d.devices.kernel = d, a.kernel
	var events []dataplane.Event
	for _, e := range network() {
		if r, ok := e.(*dataplane.RouteUpdate); !ok || r.Route.Node != "b" {
			events = append(events, e)
		}
	}
	_ = b.applyVisible(events...)
	require.True(t, b.drops("10.0.2.0/26"))
	_ = b.applyVisible() // as after an error
	require.True(t, b.drops("10.0.2.0/26"))
	require.NoError(t, b.Finish(t.Context()))
	require.False(t, b.drops("10.0.2.0/26"))
}

// A removal that fails is a fault of the next Apply, and not one of Finish, which the Driver would
// call again at once. While a route or rule is refused, nothing is removed.
func TestFailedRemovalIsFaultOfNextApply(t *testing.T) {
	a := newTestDataplane(t)
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	_ = a.applyVisible(nodeUpdate("b", "192.0.2.2"))
	a.kernel.refuse = testKey(2)
	require.NoError(t, a.Finish(t.Context()))
	require.Equal(t, a.last.time.Add(retryInterval).UnixNano(), a.applyTimer.due.Load())
	require.ErrorContains(t, a.last.err, "remove unwanted objects")
	a.now = a.now.Add(retryInterval)
	require.ErrorContains(t, a.applyVisible(), "remove unwanted objects")
	a.kernel.refuse = wgtypes.Key{}
	require.NoError(t, a.Finish(t.Context()))
	require.NotContains(t, fmt.Sprint(a.last.err), "remove unwanted objects")

	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	_ = a.applyVisible(nodeUpdate("b", "192.0.2.2"))
	a.last.keeper = routes.ErrObject // for example, the removal of a rule
	require.NoError(t, a.Finish(t.Context()))
	require.True(t, a.drops("10.0.2.0/26"))
	_ = a.Apply(t.Context(), dataplane.Batch{})
	require.False(t, a.drops("10.0.2.0/26"))
}

// A route of type throw stays as long as an unwanted prefix around it.
func TestThrowStaysWithItsPrefix(t *testing.T) {
	a := newTestDataplane(t)
	_ = a.Apply(t.Context(), dataplane.Batch{Events: network()})
	throw := func() string { return a.ip("route show table 22361 type throw") }
	_ = a.applyVisible(
		&dataplane.RouteRemove{Dst: netip.MustParsePrefix("10.0.2.0/26")},
		routeUpdate("10.0.2.32/28", "b", dataplane.RouteRemoteWorkload),
	)
	require.Contains(t, throw(), "throw 10.0.2.8")
	require.NoError(t, a.Finish(t.Context()))
	require.NotContains(t, throw(), "throw 10.0.2.8")
	require.True(t, a.drops("10.0.2.32/28"))
}

// Without one of its keys, a node starts no rotation, and Watch does not call Apply at once.
func TestNoRotationWithoutKey(t *testing.T) {
	a := newTestDataplane(t)
	require.NoError(t, os.WriteFile(a.key, []byte("none"), 0o600))
	a.cfg.KeyLifetime = time.Hour
	a.devices.list = append(a.devices.list, &device{
		cfg: Device{Name: "wg2.way"}, key: privateKey{testKey(9), a.now.Add(-2 * time.Hour)},
	})
	a.cfg.Devices = append(a.cfg.Devices, Device{Name: "wg2.way"})
	a.kernel.devices["wg2.way"] = &wgtypes.Device{Type: wgtypes.LinuxKernel}
	_ = a.applyVisible(network()...)
	require.Zero(t, a.applyTimer.due.Load())
	require.Equal(t, noDevice, a.rotation.device)
}

// Keys are announced again if they are removed from the node's resource, and not while it has them.
func TestRemovedKeysAreAnnouncedAgain(t *testing.T) {
	a := newTestDataplane(t)
	_ = a.applyVisible(network()...)
	require.Equal(t, 1, a.announcements)
	publish := func(keys ...policy.WireguardKey) {
		n := nodeUpdate("a", "192.0.2.1")
		n.Node.WireguardKeys = keys
		_ = a.applyVisible(n)
	}
	publish(a.Keys()...)
	require.Equal(t, 1, a.announcements)
	_ = a.applyVisible(nodeUpdate("b", "192.0.2.2", testKey(3)))
	require.Equal(t, 1, a.announcements)
	publish()
	require.Equal(t, 2, a.announcements)
	publish(policy.WireguardKey{})
	require.Equal(t, 3, a.announcements)
	publish(a.Keys()...)
	require.Equal(t, 3, a.announcements)
	require.True(t, a.drops("10.0.2.0/26"))

	a.state.update(dataplane.Batch{Events: []dataplane.Event{nodeUpdate("a", "192.0.2.1")}})
	a.devices.forget()
	a.announce()
	require.Equal(t, 3, a.announcements, "the state of the device is unknown")
	_ = a.applyVisible()
	require.Equal(t, 4, a.announcements)
}

// A batch that changes nothing for this package repeats a failed attempt, but at most once a
// second.
func TestRetriesAreLimited(t *testing.T) {
	a := newTestDataplane(t)
	require.NoError(t, os.WriteFile(a.key, []byte("none"), 0o600))
	require.Error(t, a.applyVisible(network()...))
	failed := a.last.time
	a.now = a.now.Add(retryInterval / 2)
	other := slices.Clone(network())[3]
	require.Error(t, a.applyVisible(other))
	require.Equal(t, failed, a.last.time)
	require.Error(t, a.applyVisible()) // the driver's back-off
	require.Equal(t, a.now, a.last.time)
	a.now = a.now.Add(retryInterval)
	require.Error(t, a.applyVisible(other))
	require.Equal(t, a.now, a.last.time)
}
