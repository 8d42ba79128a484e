// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// bridged is a node with a bridge, whose ports the interfaces of workloads can become.
//
//	way1 ──┐
//	way2 ──┤ br0 ── node ── way3, eth0
type bridged struct {
	*tracked
	bridge wireLink
	peers  map[string]net.HardwareAddr // MAC addresses of the peers' ends
}

// bridgeOutside returns addresses behind eth0.
func bridgeOutside() []netip.Addr { return addrs("203.0.113.1", "2001:db8:9::1") }

func newBridged(t *testing.T, classes render.ClassesConfig) *bridged {
	t.Helper()
	return newBridgedWith(t, nft.Config{Renderer: render.Config{
		Classes: classes, Host: policy.HostConfig{EndpointToHostAction: policy.HostAccept},
	}})
}

func newBridgedWith(t *testing.T, cfg nft.Config) *bridged {
	t.Helper()
	b := &bridged{
		tracked: &tracked{
			wire: newWire(t, []string{"way1", "way2", "way3", "eth0"}, map[string][]netip.Addr{
				"eth0": addrs("192.0.2.1", "2001:db8::1"),
			}),
			at: dptest.NewState(),
		},
		peers: map[string]net.HardwareAddr{},
	}
	for name, l := range b.links {
		require.NoError(t, b.wire.peers.Do(func() error {
			link, err := net.InterfaceByIndex(l.peer)
			if err == nil {
				b.peers[name] = link.HardwareAddr
			}
			return err
		}))
	}
	runIP(
		t, b.node, "link", "add", "name", "br0", "address", "02:00:00:00:00:b0", "type", "bridge", "forward_delay", "0",
	)
	runIP(t, b.node, "link", "set", "dev", "br0", "up")
	link, err := b.netlink.LinkByName("br0")
	require.NoError(t, err)
	b.bridge = wireLink{mac: link.Attrs().HardwareAddr, node: link.Attrs().Index}
	for i, name := range []string{"way1", "way2", "way3"} {
		for _, a := range workloadAddrs(i) {
			b.setRoute(t, a, name)
		}
	}
	for family, a := range bridgeOutside() {
		b.setRoute(t, a, "eth0")
		require.Eventually(t, func() bool { // the kernel uses an IPv6 address only some time later
			routes, err := b.netlink.RouteGet(b.host(family).Addr.AsSlice())
			return err == nil && len(routes) == 1 && routes[0].Type == unix.RTN_LOCAL
		}, waitTimeout, time.Millisecond)
	}
	b.plane = openWith(t, b.node, cfg)
	return b
}

// enslave makes an interface a port of the bridge. With routed, the routes to its workload lead
// through the bridge.
func (b *bridged) enslave(t *testing.T, name string, routed bool) {
	t.Helper()
	runIP(t, b.node, "link", "set", "dev", name, "master", "br0")
	if !routed {
		return
	}
	require.NoError(t, b.netlink.NeighSet(&netlink.Neigh{
		LinkIndex: b.links[name].node, Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER, HardwareAddr: b.peers[name],
		State: netlink.NUD_NOARP,
	}))
	for a, to := range b.routes {
		if to != name {
			continue
		}
		require.NoError(t, b.netlink.RouteReplace(route(a, b.bridge.node)))
		require.NoError(t, b.netlink.NeighSet(&netlink.Neigh{
			LinkIndex: b.bridge.node, IP: a.AsSlice(), HardwareAddr: b.peers[name], State: netlink.NUD_PERMANENT,
		}))
	}
}

// release takes an interface out of the bridge.
func (b *bridged) release(t *testing.T, name string) {
	t.Helper()
	runIP(t, b.node, "link", "set", "dev", name, "nomaster")
	for a, to := range b.routes {
		if to == name {
			require.NoError(t, b.netlink.RouteReplace(route(a, b.links[name].node)))
		}
	}
}

// host and out return the places of the node itself and of a host behind eth0, with one address for
// each family.
func (b *bridged) host(family int) nfttest.FlowEnd {
	return nfttest.FlowEnd{Own: true, Addr: addrs("192.0.2.1", "2001:db8::1")[family]}
}

func (b *bridged) out(family int) nfttest.FlowEnd { return endOf("eth0", bridgeOutside()[family]) }

func workload(i, family int) nfttest.FlowEnd {
	return endOf([]string{"way1", "way2", "way3"}[i], workloadAddrs(i)[family])
}

// fresh returns new connections of both families and every kind.
func (b *bridged) fresh(from, to func(family int) nfttest.FlowEnd) (flows []wireFlow) {
	for _, w := range b.kinds(0, 1) {
		family := 0
		if w.Src.Is6() {
			family = 1
		}
		w.from, w.to = from(family), to(family)
		w.Src, w.Dst = w.from.Addr, w.to.Addr
		flows = append(flows, w)
	}
	return flows
}

// all requires that all packets of every kind pass between two places in both directions, or none.
// It returns their number.
func (b *bridged) all(t *testing.T, one, other func(family int) nfttest.FlowEnd, pass bool, why string) int {
	t.Helper()
	flows := slices.Concat(b.fresh(one, other), b.fresh(other, one))
	for _, w := range flows {
		require.Equal(t, pass, w.passes(t, b.wire), "%s: %s", why, w.Flow)
	}
	return len(flows)
}

func at(i int) func(int) nfttest.FlowEnd {
	return func(family int) nfttest.FlowEnd { return workload(i, family) }
}

// faults returns the errors by the name of their endpoint. There must be no others.
func faults(t *testing.T, err error) map[string]string {
	t.Helper()
	out := map[string]string{}
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general, "%v", err)
	for key, err := range objects {
		require.Equal(t, policy.KindWorkloadEndpoint, key.Kind)
		out[key.Name] = err.Error()
	}
	return out
}

const isPort = ": the hooks see its packets on br0, so policy cannot match them; remove it from the bridge and route it"

// S170: endpoints whose interfaces are ports of a bridge are at fault, with the reason. Routed
// packets between them, other workloads, the outside and the host drop, in both families. Other
// endpoints are not affected.
func TestWireBridge(t *testing.T) { nfttest.EachForm(t, testWireBridge) }

func testWireBridge(t *testing.T, classes render.ClassesConfig) {
	b := newBridged(t, classes)
	b.enslave(t, "way1", true)
	b.enslave(t, "way2", true)
	for _, to := range []func(int) nfttest.FlowEnd{at(1), at(2), b.out, b.host} {
		b.all(t, at(0), to, true, "without policy, all packets arrive")
	}
	b.resetConntrack(t)
	s := edit(shop(), "way2", func(e *dataplane.Endpoint) { e.Down = true })
	plan, err := b.plane.Plan(t.Context(), dptest.Transition(b.at, s))
	require.NoError(t, err)
	require.Contains(t, plan, "ip6 daddr @blocked6")
	err = b.plane.Apply(t.Context(), dptest.Transition(b.at, s))
	b.at = s
	reasons := faults(t, err)
	require.Len(t, reasons, 2)
	for _, name := range []string{"way1", "way2"} { // also an endpoint that is down
		require.Contains(t, reasons[name], "interface "+name+" is a port of bridge br0"+isPort)
	}
	sent := 0
	for _, to := range []func(int) nfttest.FlowEnd{at(1), at(2), b.out, b.host} {
		sent += b.all(t, at(0), to, false, "bridged")
	}
	sent += b.all(t, at(2), b.out, true, "not bridged")
	sent += b.all(t, at(2), b.host, true, "not bridged")
	plan, err = b.plane.Plan(t.Context(), dataplane.Batch{})
	require.NoError(t, err)
	require.Empty(t, plan)

	b.release(t, "way1")
	b.release(t, "way2")
	require.NoError(t, b.plane.Resync(t.Context()))
	for _, to := range []func(int) nfttest.FlowEnd{at(2), b.out, b.host} {
		sent += b.all(t, at(0), to, true, "out of the bridge")
	}
	sent += b.all(t, at(1), at(2), false, "down")
	require.NotContains(t, list(t, b.node), "blocked", "the sets and rules exist only for such endpoints")
	t.Logf("%d packets", sent)
}

// S170: frames between two ports of a bridge drop if they traverse the hooks. Otherwise no hook
// sees them. Therefore, their endpoints are at fault.
func TestWireBridgedFrames(t *testing.T) { nfttest.EachForm(t, testWireBridgedFrames) }

func testWireBridgedFrames(t *testing.T, classes render.ClassesConfig) {
	b := newBridged(t, classes)
	b.enslave(t, "way1", true)
	b.enslave(t, "way2", true)
	require.Len(t, faults(t, b.plane.Apply(t.Context(), dptest.Transition(b.at, shop()))), 2)
	// its frames have the other's MAC address as destination
	b.links["way1"] = wireLink{peer: b.links["way1"].peer, mac: b.peers["way2"]}
	for _, call := range []string{"0", "1"} {
		b.callHooks(t, call)
		b.resetConntrack(t)
		for _, w := range b.fresh(at(0), at(1)) {
			require.Equal(t, call == "0", w.passes(t, b.wire), "bridge-nf-call %s: %s", call, w.Flow)
		}
	}
}

// callHooks sets whether frames between two ports of a bridge traverse the hooks of IPv4 and IPv6:
// "1" or "0".
func (b *bridged) callHooks(t *testing.T, call string) {
	t.Helper()
	for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"} {
		if err := b.node.SetSysctl("net/bridge/"+name, call); errors.Is(err, os.ErrNotExist) {
			nstest.Skip(t, "the kernel has no br_netfilter")
		} else {
			require.NoError(t, err)
		}
	}
}

// S170: packets from the host to a service drop after routing if its backend is a bridged endpoint.
func TestWireBridgeService(t *testing.T) { nfttest.EachForm(t, testWireBridgeService) }

func testWireBridgeService(t *testing.T, classes render.ClassesConfig) {
	b := newBridged(t, classes)
	b.enslave(t, "way1", true)
	var flows []wireFlow
	for _, backend := range []func(int) nfttest.FlowEnd{at(0), at(2)} {
		for _, w := range b.fresh(b.host, backend) {
			w.OrigDst = bridgeOutside()[0] // the packet would leave through eth0 here
			if w.Src.Is6() {
				w.OrigDst = bridgeOutside()[1]
			}
			if w.Protocol.HasPorts() {
				flows = append(flows, w)
			}
		}
	}
	load(t, b.node, foreignNAT(flows))
	for _, w := range flows {
		require.True(t, w.passes(t, b.wire), "without policy: %s", w.Flow)
	}
	b.resetConntrack(t)
	require.Error(t, b.plane.Apply(t.Context(), dptest.Transition(b.at, shop())))
	for _, w := range flows {
		require.Equal(t, w.to.Iface == "way3", w.passes(t, b.wire), "%s", w.Flow)
	}
	t.Logf("%d packets", len(flows))
}

// S170: another endpoint has the same address as a bridged one. Packets through its interface pass,
// and all others drop.
func TestWireBridgeSharedAddress(t *testing.T) { nfttest.EachForm(t, testWireBridgeSharedAddress) }

func testWireBridgeSharedAddress(t *testing.T, classes render.ClassesConfig) {
	b := newBridged(t, classes)
	b.enslave(t, "way1", true)
	s := edit(
		shop(), "way3", func(e *dataplane.Endpoint) { e.Addresses = slices.Concat(workloadAddrs(2), workloadAddrs(0)) },
	)
	require.Contains(t, faults(t, b.plane.Apply(t.Context(), dptest.Transition(b.at, s))), "way1")
	shared := func(family int) nfttest.FlowEnd { return endOf("way3", workloadAddrs(0)[family]) }
	sent := b.all(t, at(0), b.out, false, "by the bridge")
	sent += b.all(t, at(0), b.host, false, "by the bridge")
	b.resetConntrack(t)
	for _, a := range workloadAddrs(0) {
		b.setRoute(t, a, "way3")
	}
	sent += b.all(t, shared, b.out, true, "through the interface of the other endpoint")
	sent += b.all(t, shared, b.host, true, "through the interface of the other endpoint")
	sent += b.all(t, shared, at(1), true, "through the interface of the other endpoint")
	for _, w := range b.fresh(at(0), b.out) { // the answers are routed to the other
		sent++
		require.False(t, w.passes(t, b.wire), "from the bridge: %s", w.Flow)
	}
	t.Logf("%d packets", sent)
}

// S170: an interface becomes a port of a bridge under traffic, and leaves it. After the
// notification and its Resync, no packet passes to or from the interface's endpoint. This concerns
// packets of new and established connections, by routes through the port or the bridge. Once the
// port has left the bridge, all packets pass.
func TestWirePortJoinsAndLeavesBridge(t *testing.T) {
	nfttest.EachForm(t, testWirePortJoinsAndLeavesBridge)
}

func testWirePortJoinsAndLeavesBridge(t *testing.T, classes render.ClassesConfig) {
	const rounds = 10
	b := newBridged(t, classes)
	b.become(t, shop())
	drifts := b.watch(t)
	sent := 0
	flood := func(pass bool, why string) {
		t.Helper()
		var flows []wireFlow
		for _, to := range []func(int) nfttest.FlowEnd{at(2), b.out} {
			flows = slices.Concat(flows, b.fresh(at(0), to), b.fresh(to, at(0)))
		}
		for i, arrived := range b.volley(t, flows) {
			require.Equal(t, pass, arrived, "%s: %s", why, flows[i].Flow)
		}
		sent += len(flows) + b.all(t, at(0), b.host, pass, why)
	}
	known := b.opened(t, 0, 2)
	for round := range rounds {
		flood(true, "before")
		b.requireOpen(t, known, true, "before")
		b.enslave(t, "way1", round%2 == 0)
		require.Equal(t, "the master of interface way1", b.drift(t, drifts))
		require.Contains(t, faults(t, b.plane.Resync(t.Context())), "way1")
		flood(false, "at the bridge")
		b.requireOpen(t, known, false, "at the bridge")
		require.Error(t, b.plane.Apply(t.Context(), dataplane.Batch{}), "still")
		flood(false, "at the bridge")

		b.release(t, "way1")
		b.drift(t, drifts)
		require.NoError(t, b.plane.Resync(t.Context()))
		for len(drifts) > 0 { // the kernel announces one change several times
			<-drifts
		}
	}
	flood(true, "after")
	b.requireOpen(t, known, true, "after")
	t.Logf("%d changes, %d packets", 2*rounds, sent)
}

// watch runs Watch until the test ends.
func (b *tracked) watch(t *testing.T) chan dataplane.Drift {
	t.Helper()
	drifts, ended := make(chan dataplane.Drift, 100), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- b.plane.Watch(ctx, func(d dataplane.Drift) { drifts <- d }) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return drifts
}

// drift waits for a drift and returns its object.
func (b *tracked) drift(t *testing.T, drifts chan dataplane.Drift) string {
	t.Helper()
	select {
	case d := <-drifts:
		return d.Object
	case <-time.After(waitTimeout):
		require.FailNow(t, "no drift")
		return ""
	}
}

// S170, S124: with Watch, a bridge is added before the endpoint, before Watch begins, and before
// the interface with the endpoint's name. A port without an endpoint causes no Resync.
func TestBridgeBeforeTheEndpoint(t *testing.T) {
	b := newBridged(t, render.ClassesConfig{})
	s := shop()
	b.become(t, s)
	b.enslave(t, "way1", false)
	drifts := b.watch(t)
	require.Equal(t, "the master of interface way1", b.drift(t, drifts), "happened before")
	require.Len(t, faults(t, b.plane.Resync(t.Context())), 1)

	b.enslave(t, "eth0", false)
	runIP(t, b.node, "link", "add", "name", "br9", "type", "bridge")
	late := edit(s, "way2", func(e *dataplane.Endpoint) { e.Interface = "eth0" })
	late = edit(late, "way3", func(e *dataplane.Endpoint) { e.Interface = "br7" })
	reasons := faults(t, b.plane.Apply(t.Context(), dptest.Transition(s, late)))
	require.Len(t, reasons, 2)
	require.Contains(t, reasons["way2"], "interface eth0 is a port of bridge br0")
	require.Empty(t, drifts)

	runIP(t, b.node, "link", "set", "dev", "br9", "name", "br7")
	runIP(t, b.node, "link", "add", "name", "port", "type", "veth", "peer", "name", "way9")
	runIP(t, b.node, "link", "set", "dev", "port", "master", "br0") // without an endpoint
	runIP(t, b.node, "link", "set", "dev", "port", "nomaster")
	runIP(t, b.node, "link", "del", "dev", "br7")
	runIP(t, b.node, "link", "set", "dev", "port", "name", "br7")
	runIP(t, b.node, "link", "set", "dev", "br7", "master", "br0")
	require.Equal(t, "the master of interface br7", b.drift(t, drifts))
	require.Len(t, faults(t, b.plane.Resync(t.Context())), 3)
	runIP(t, b.node, "link", "del", "dev", "br0")
	for range 3 { // one or more, because the kernel releases the ports one by one
		b.drift(t, drifts)
		if b.plane.Resync(t.Context()) == nil {
			break
		}
	}
	require.NoError(t, b.plane.Resync(t.Context()))
	require.NotContains(t, list(t, b.node), "blocked")
}

// S170: without Watch, Apply looks up the interface of each endpoint of a batch, and Resync looks
// up all interfaces.
func TestBridgeWithoutWatch(t *testing.T) {
	b := newBridged(t, render.ClassesConfig{})
	s := shop()
	b.become(t, s)
	b.enslave(t, "way1", false)
	require.NoError(t, b.plane.Apply(t.Context(), dataplane.Batch{}), "nothing says so")
	require.Len(
		t,
		faults(t, b.plane.Apply(t.Context(), dptest.Transition(
			s, edit(s, "way1", func(e *dataplane.Endpoint) { e.Profiles = nil }),
		))),
		1,
	)
	b.release(t, "way1")
	b.enslave(t, "way2", false)
	reasons := faults(t, b.plane.Resync(t.Context()))
	require.Len(t, reasons, 1)
	require.Contains(t, reasons, "way2")
	require.NoError(t, b.plane.Teardown(t.Context()))
	b.release(t, "way2")
	b.at = dptest.NewState()
	b.become(t, s)
}

// S170: Config.Interfaces reports the masters. While it fails, new endpoints are at fault, and
// others are not affected.
func TestConfigInterfacesReportsMasters(t *testing.T) {
	known, failure := map[string]render.Interface{}, error(nil)
	d, err := nft.New(nft.Config{
		NetNS: nstest.New(t).FD(), Interfaces: func() (map[string]render.Interface, error) { return known, failure },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	s, more := allowed(), shop()
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), s)))
	failure = errors.New("no idea")
	err = d.Apply(t.Context(), dptest.Transition(s, more))
	require.ErrorContains(t, err, "no idea")
	objects, general := dataplane.ApplyErrors(err)
	require.True(t, general)
	require.Len(t, objects, 2)
	require.ErrorContains(t, objects[endpointKey("way2")], "interface way2 cannot be looked up")
	failure = nil
	known = map[string]render.Interface{"way3": {Master: render.Master{Name: "red", Kind: "vrf"}}}
	reasons := faults(t, d.Apply(t.Context(), dataplane.Batch{}))
	require.Len(t, reasons, 1)
	require.Contains(t, reasons["way3"], "interface way3 is a port of vrf red: the hooks see its packets on red")
	known = map[string]render.Interface{}
	require.NoError(t, d.Resync(t.Context()))
}
