// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

func TestMain(m *testing.M) { nstest.Main(m) }

const mac = "02:00:00:00:00:01"

// kernelHasIPIP reports whether the kernel has IP-in-IP devices. Tests that need one have the build
// tag guest; scripts/test-kernels runs them.
func kernelHasIPIP(t *testing.T) bool {
	t.Helper()
	var out []byte
	err := nstest.New(t).Do(func() (err error) {
		out, err = exec.Command("ip", "link", "add", "probe", "type", "ipip", "local", "192.0.2.1").CombinedOutput()
		return err
	})
	if err != nil {
		require.Contains(t, string(out), "Unknown device type")
	}
	return err == nil
}

// node is a namespace with interfaces and a dataplane in it.
type node struct {
	*testing.T
	ns  *netns.NS
	cfg routes.Config
	dp  *routes.Dataplane
}

func newNode(t *testing.T, cfg routes.Config, interfaces ...string) *node {
	n := &node{T: t, ns: nstest.New(t)}
	cfg.NetNS = n.ns.FD()
	n.cfg = cfg
	n.addLinks(interfaces...)
	n.restart()
	return n
}

// restart replaces the dataplane by a new one for the same namespace.
func (n *node) restart() {
	n.Helper()
	dp, err := routes.New(n.cfg)
	require.NoError(n, err)
	n.Cleanup(func() { require.NoError(n, dp.Close()) })
	n.dp = dp
}

func (n *node) addLinks(names ...string) {
	n.Helper()
	for _, name := range names {
		_, _, err := netns.Veth(netns.End{NS: n.ns, Name: name}, netns.End{NS: n.ns, Name: "x" + name})
		require.NoError(n, err)
	}
}

// ip runs iproute2's ip on the node and returns its output.
func (n *node) ip(command string, args ...any) (out string) {
	n.Helper()
	command = fmt.Sprintf(command, args...)
	require.NoError(n, n.ns.Do(func() error {
		b, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
		out = string(b)
		return err
	}), "ip %s: %s", command, out)
	return out
}

// rename renames an interface.
func (n *node) rename(from, to string) {
	n.Helper()
	nstest.Rename(n, n.ns, from, to)
}

// routes returns the routes of a table as "destination dev protocol", without the kernel's own.
func (n *node) routes(table string) (list []string) {
	n.Helper()
	for _, family := range []string{"-4", "-6"} {
		var entries []struct{ Dst, Dev, Protocol string }
		require.NoError(n, json.Unmarshal([]byte(n.ip("-j %s route show table %s", family, table)), &entries))
		for _, e := range entries {
			if e.Protocol != "kernel" {
				list = append(list, e.Dst+" "+e.Dev+" "+e.Protocol)
			}
		}
	}
	slices.Sort(list)
	return list
}

// neighbours returns the permanent entries as "address dev mac".
func (n *node) neighbours() (list []string) {
	n.Helper()
	var entries []struct{ Dst, Dev, Lladdr string }
	require.NoError(n, json.Unmarshal([]byte(n.ip("-j neigh show nud permanent")), &entries))
	for _, e := range entries {
		list = append(list, e.Dst+" "+e.Dev+" "+e.Lladdr)
	}
	slices.Sort(list)
	return list
}

func (n *node) apply(events ...dataplane.Event) error {
	return n.dp.Apply(n.Context(), dataplane.Batch{Events: events})
}

// must applies without error.
func (n *node) must(events ...dataplane.Event) {
	n.Helper()
	require.NoError(n, n.apply(events...))
}

func key(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: name}
}

func update(name, iface, mac string, addresses ...string) *dataplane.EndpointUpdate {
	ep := &dataplane.Endpoint{Interface: iface, MAC: mac}
	for _, a := range addresses {
		ep.Addresses = append(ep.Addresses, netip.MustParseAddr(a))
	}
	return &dataplane.EndpointUpdate{Key: key(name), Endpoint: ep}
}

func gone(name string) *dataplane.EndpointRemove { return &dataplane.EndpointRemove{Key: key(name)} }

var inSync = &dataplane.InSync{}

func TestEndpointLifeCycle(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1", "cali.2")
	n.must(update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"), update("b", "cali.2", "", "10.0.0.2"))
	require.Empty(t, n.routes("all"), "nothing before in-sync")
	n.must(inSync)
	require.Equal(t, []string{"10.0.0.1 cali1 219", "10.0.0.2 cali.2 219", "2001:db8::1 cali1 219"}, n.routes("main"))
	require.Equal(t, []string{"10.0.0.1 cali1 " + mac, "2001:db8::1 cali1 " + mac}, n.neighbours())
	require.Contains(t, n.ip("-4 route show 10.0.0.1"), "scope link")

	// The MAC is added, an address changes, and the interface changes.
	n.must(update("b", "cali.2", "02:00:00:00:00:02", "10.0.0.3"),
		update("a", "cali.2", mac, "10.0.0.1", "2001:db8::1"))
	require.Equal(t, []string{"10.0.0.1 cali.2 219", "10.0.0.3 cali.2 219", "2001:db8::1 cali.2 219"}, n.routes("main"))
	require.Equal(t, []string{
		"10.0.0.1 cali.2 " + mac, "10.0.0.3 cali.2 02:00:00:00:00:02", "2001:db8::1 cali.2 " + mac,
	}, n.neighbours())

	n.must(update("b", "cali.2", "02:00:00:00:00:03", "10.0.0.3"))
	require.Contains(t, n.neighbours(), "10.0.0.3 cali.2 02:00:00:00:00:03")
	n.must(update("b", "cali.2", "", "10.0.0.3"))
	require.NotContains(t, strings.Join(n.neighbours(), "\n"), "10.0.0.3")

	n.must(gone("a"), gone("b"), gone("never was"))
	require.Empty(t, n.routes("all"))
	require.Empty(t, n.neighbours())
}

// A new process adopts equal objects without a change, and removes unwanted ones.
func TestAdoptAndSweep(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1", "cali2")
	n.must(update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"), update("b", "cali2", mac, "10.0.0.2", "2001:db8::2"),
		inSync)
	n.ip("route add blackhole 10.1.0.0/24 proto 219")       // a route of an earlier version
	n.ip("route add 10.0.0.1 dev cali2 metric 5 proto 219") // another route of an earlier version
	n.ip("route add 10.0.0.9 dev cali2 proto 218")
	n.ip("neigh add 10.0.0.9 lladdr %s dev cali2", mac)
	n.ip("route add 10.0.0.9 dev cali2 proto 219 table 100")
	n.ip("-6 route add 2001:db8::9 dev cali2 proto 219 table 100")

	n.restart()
	n.must(update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"))
	require.Len(t, n.routes("all"), 9, "nothing before in-sync")
	plan, err := n.dp.Plan(t.Context(), dataplane.Batch{Events: []dataplane.Event{inSync}})
	require.NoError(t, err)
	require.Equal(t, strings.Join([]string{
		"ip route del 10.0.0.1/32 dev cali2 scope link proto 219 metric 5 table 254",
		"ip route del 10.0.0.2/32 dev cali2 scope link proto 219 table 254",
		"ip -6 route del 2001:db8::2/128 dev cali2 proto 219 metric 1024 table 254",
		"ip neigh del 10.0.0.2 dev cali2",
		"ip -6 neigh del 2001:db8::2 dev cali2",
		"ip route del blackhole 10.1.0.0/24 proto 219 table 254", "",
	}, "\n"), plan, "the plan does not have equal objects")
	n.must(inSync)
	require.Equal(t, []string{"10.0.0.1 cali1 219", "10.0.0.9 cali2 218", "2001:db8::1 cali1 219"}, n.routes("main"))
	require.Equal(t, []string{"10.0.0.9 cali2 219", "2001:db8::9 cali2 219"}, n.routes("100"),
		"routes of another table stay")
	require.Equal(t, []string{"10.0.0.1 cali1 " + mac, "10.0.0.9 cali2 " + mac, "2001:db8::1 cali1 " + mac},
		n.neighbours())
}

// Equal objects are not written again: the kernel sends no notification.
func TestAdoptionWritesNothing(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1")
	ep := update("a", "cali1", mac, "10.0.0.1", "2001:db8::1")
	n.must(ep, inSync)
	monitor, err := rtnl.Listen(rtnl.Config{NetNS: n.ns.FD()}, rtnl.GroupRoutes, rtnl.GroupNeighbours)
	require.NoError(t, err)
	defer func() { require.NoError(t, monitor.Close()) }()
	seen := func() (changes []string) {
		// The kernel sends the notification before the netlink call returns.
		missed, err := monitor.Poll(func(e *rtnl.Event) {
			own := e.Group == rtnl.GroupRoutes && e.Route.Protocol == unix.RTPROT_KERNEL ||
				e.Group == rtnl.GroupNeighbours && e.Neighbour.Protocol == unix.RTPROT_UNSPEC
			if !own { // not by the kernel, which adds routes to its IPv6 addresses in the background
				changes = append(changes, fmt.Sprintf("%+v", *e))
			}
		})
		require.NoError(t, err)
		require.False(t, missed)
		return changes
	}
	n.restart()
	n.must(ep, inSync)
	require.NoError(t, n.dp.Resync(t.Context()))
	require.Empty(t, seen())
	n.ip("route add blackhole 10.9.9.9")
	require.Len(t, seen(), 1, "the test's own change")
}

// Routes and entries of other processes stay and are reported. All other objects are programmed.
func TestForeignObjectsStay(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1", "cali2")
	n.ip("route add 10.0.0.1 dev cali2 proto static")
	n.ip("-6 route add 2001:db8::1 dev cali2 proto static")
	n.ip("neigh add 10.0.0.2 lladdr 02:00:00:00:00:99 dev cali2")
	n.ip("neigh add 10.0.0.3 lladdr %s dev cali2", mac)
	err := n.apply(
		update("a", "cali1", "", "10.0.0.1", "10.0.0.11", "2001:db8::1"),
		update("b", "cali2", mac, "10.0.0.2"),
		update("c", "cali2", mac, "10.0.0.3"), inSync)
	require.ErrorIs(t, err, routes.ErrForeign)
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Len(t, objects, 2)
	require.ErrorIs(t, objects[key("a")], routes.ErrForeign)
	require.ErrorContains(t, objects[key("a")], "10.0.0.1")
	require.ErrorContains(t, objects[key("a")], "2001:db8::1")
	require.ErrorIs(t, objects[key("b")], routes.ErrForeign)
	want := []string{
		"10.0.0.1 cali2 static", "10.0.0.11 cali1 219", "10.0.0.2 cali2 219", "10.0.0.3 cali2 219",
		"2001:db8::1 cali2 static",
	}
	require.Equal(t, want, n.routes("main"))
	require.Equal(t, []string{"10.0.0.2 cali2 02:00:00:00:00:99", "10.0.0.3 cali2 " + mac}, n.neighbours())

	require.ErrorIs(t, n.apply(), routes.ErrForeign, "reported as long as the fault lasts")
	require.Equal(t, want, n.routes("main"))

	// Foreign objects that are already known do not make every Apply read everything again.
	readings := n.dp.Stats().Readings
	require.ErrorIs(t, n.apply(), routes.ErrForeign)
	require.Equal(t, readings, n.dp.Stats().Readings)
	// An object that another process removes is restored nevertheless.
	n.ip("route del 10.0.0.11")
	require.ErrorIs(t, n.apply(), routes.ErrForeign)
	require.Equal(t, want, n.routes("main"))
	require.Equal(t, readings, n.dp.Stats().Readings)
	require.EqualValues(t, 1, n.dp.Stats().Repaired)

	n.ip("route del 10.0.0.1")
	n.ip("-6 route del 2001:db8::1")
	n.ip("neigh del 10.0.0.2 dev cali2")
	n.must()
	require.Equal(t, []string{
		"10.0.0.1 cali1 219", "10.0.0.11 cali1 219", "10.0.0.2 cali2 219", "10.0.0.3 cali2 219",
		"2001:db8::1 cali1 219",
	}, n.routes("main"))
	require.Contains(t, n.neighbours(), "10.0.0.2 cali2 "+mac)

	n.must(gone("a"), gone("b"), gone("c"))
	require.Empty(t, n.routes("all"))
	require.Equal(t, []string{"10.0.0.3 cali2 " + mac}, n.neighbours(), "equal foreign entries stay")
}

// S172: an endpoint whose routes a CNI plugin made is up. They stay when the endpoint is removed.
func TestRoutesOfPluginAreAccepted(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1")
	n.ip("route add 10.0.0.1 dev cali1 proto static")
	n.ip("-6 route add 2001:db8::1 dev cali1 proto static")
	theirs := n.routes("main")
	n.must(update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"), inSync)
	require.Equal(t, theirs, n.routes("main"))
	n.restart()
	n.must(update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"), inSync)
	n.ip("route del 10.0.0.1 dev cali1")
	err := n.apply()
	objects, _ := dataplane.ApplyErrors(err)
	require.ErrorIs(t, objects[key("a")], routes.ErrCeded)
	n.ip("route add 10.0.0.1 dev cali1 proto static")
	n.must(gone("a"))
	require.Equal(t, theirs, n.routes("main"))
}

// An entry that the kernel learned has no owner.
func TestLearnedNeighbourIsReplaced(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1")
	n.ip("neigh add 10.0.0.1 lladdr 02:00:00:00:00:99 dev cali1 nud reachable")
	n.must(update("a", "cali1", mac, "10.0.0.1"), inSync)
	require.Equal(t, []string{"10.0.0.1 cali1 " + mac}, n.neighbours())
}

// S124: an interface may be added after its endpoint, and be replaced by another one with its name.
func TestInterfaceMayBeAddedLater(t *testing.T) {
	n := newNode(t, routes.Config{Sysctls: []routes.Sysctl{{Family: 4, Name: "rp_filter", Value: "1"}}}, "cali2")
	err := n.apply(update("a", "cali1", mac, "10.0.0.1"), update("b", "cali2", "", "10.0.0.2"), inSync)
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Len(t, objects, 1)
	require.ErrorIs(t, objects[key("a")], routes.ErrNoInterface)
	require.Equal(t, "routes: find interface WorkloadEndpoint/shop/a: no such interface: cali1",
		objects[key("a")].Error())
	require.Equal(t, []string{"10.0.0.2 cali2 219"}, n.routes("main"), "the others are programmed")

	n.addLinks("cali1")
	require.NoError(t, n.ns.Down("cali1"))
	require.ErrorIs(t, n.apply(), routes.ErrInterfaceDown)
	require.NoError(t, n.ns.Up("cali1"))
	n.must()
	require.Equal(t, []string{"10.0.0.1 cali1 219", "10.0.0.2 cali2 219"}, n.routes("main"))
	n.wantSysctl("net/ipv4/conf/cali1/rp_filter", "1")

	// The same name, another interface.
	require.NoError(t, n.ns.DeleteLink("cali1"))
	n.addLinks("cali1")
	require.Equal(t, []string{"10.0.0.2 cali2 219"}, n.routes("main"))
	require.NoError(t, n.dp.Resync(t.Context()))
	require.Equal(t, []string{"10.0.0.1 cali1 219", "10.0.0.2 cali2 219"}, n.routes("main"))
	require.Equal(t, []string{"10.0.0.1 cali1 " + mac}, n.neighbours())
	n.wantSysctl("net/ipv4/conf/cali1/rp_filter", "1")

	// The same without a Resync: the endpoint changes.
	require.NoError(t, n.ns.DeleteLink("cali1"))
	n.addLinks("cali1")
	n.must(update("a", "cali1", mac, "10.0.0.1", "10.0.0.3"))
	require.Contains(t, n.routes("main"), "10.0.0.3 cali1 219")

	// The interface is removed, and then its endpoint.
	require.NoError(t, n.ns.DeleteLink("cali1"))
	n.must(gone("a"))
	require.Equal(t, []string{"10.0.0.2 cali2 219"}, n.routes("main"))
}

// The kernel deletes the routes of an interface that goes down. The next Apply restores them,
// whether or not the batch has that endpoint, once the interface is up again.
func TestInterfaceFlaps(t *testing.T) {
	n := newNode(t, routes.Config{Sysctls: []routes.Sysctl{{Family: 4, Name: "rp_filter", Value: "1"}}}, "cali1",
		"cali2")
	a := update("a", "cali1", mac, "10.0.0.1", "2001:db8::1")
	wantRoutes := []string{"10.0.0.1 cali1 219", "10.0.0.2 cali2 219", "2001:db8::1 cali1 219"}
	wantNeighbours := []string{"10.0.0.1 cali1 " + mac, "2001:db8::1 cali1 " + mac}
	n.must(a, update("b", "cali2", "", "10.0.0.2"), inSync)
	for name, next := range map[string][]dataplane.Event{
		"nothing": nil, "its policy": {a}, "its MAC": {update("a", "cali1", "", "10.0.0.1", "2001:db8::1"), a},
		"another": {update("b", "cali2", "", "10.0.0.2")},
	} {
		require.NoError(t, n.ns.Down("cali1"))
		require.NoError(t, n.ns.Up("cali1"))
		require.Equal(t, []string{"10.0.0.2 cali2 219"}, n.routes("main"), "the kernel has deleted the routes")
		plan, err := n.dp.Plan(t.Context(), dataplane.Batch{Events: next})
		require.NoError(t, err)
		require.Equal(t, 4, strings.Count(plan, "\n"), plan)
		n.must(next...)
		require.Equal(t, wantRoutes, n.routes("main"), name)
		require.Equal(t, wantNeighbours, n.neighbours(), name)
	}

	require.NoError(t, n.ns.Down("cali1"))
	require.ErrorIs(t, n.apply(a), routes.ErrInterfaceDown)
	require.NoError(t, n.ns.Up("cali1"))
	n.must()
	require.Equal(t, wantRoutes, n.routes("main"))

	require.NoError(t, n.ns.DeleteLink("cali1"))
	require.ErrorIs(t, n.apply(a), routes.ErrNoInterface)
	n.addLinks("cali1") // another interface with its own settings
	n.must(a)
	require.Equal(t, wantRoutes, n.routes("main"))
	require.Equal(t, wantNeighbours, n.neighbours())
	n.wantSysctl("net/ipv4/conf/cali1/rp_filter", "1")
	require.Zero(t, n.dp.Stats().Repaired, "no other process changed anything")
}

// If two endpoints have one address, the one with the smaller key gets the route, whatever the
// order. When it is removed, the other gets it.
func TestSharedAddress(t *testing.T) {
	a, b := update("a", "cali1", mac, "10.0.0.1"), update("b", "cali2", "02:00:00:00:00:02", "10.0.0.1", "10.0.0.2")
	contested := func(err error) { // the endpoint without the route is at fault meanwhile
		require.ErrorIs(t, err, routes.ErrContested)
		objects, general := dataplane.ApplyErrors(err)
		require.False(t, general)
		require.Len(t, objects, 1)
		require.ErrorContains(t, objects[key("b")], "10.0.0.1 of WorkloadEndpoint/shop/a")
	}
	for _, order := range [][]dataplane.Event{{a, b, inSync}, {b, a, inSync}} {
		n := newNode(t, routes.Config{}, "cali1", "cali2")
		contested(n.apply(order...))
		require.Equal(t, []string{"10.0.0.1 cali1 219", "10.0.0.2 cali2 219"}, n.routes("main"))
		contested(n.apply())
		contested(n.dp.Resync(t.Context()))
		n.must(gone("a"))
		require.Equal(t, []string{"10.0.0.1 cali2 219", "10.0.0.2 cali2 219"}, n.routes("main"))
		require.Equal(t, []string{"10.0.0.1 cali2 02:00:00:00:00:02", "10.0.0.2 cali2 02:00:00:00:00:02"},
			n.neighbours())
		contested(n.apply(a))
		require.Equal(t, []string{"10.0.0.1 cali1 219", "10.0.0.2 cali2 219"}, n.routes("main"))
		n.must(gone("b"))
		require.Equal(t, []string{"10.0.0.1 cali1 219"}, n.routes("main"))
		n.must(gone("a"))
		require.Empty(t, n.routes("main"))
	}
}

// Resync restores objects that another process removed or changed.
func TestResyncRepairs(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1", "cali2")
	n.must(update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"), inSync)
	n.ip("route del 10.0.0.1")
	n.ip("-6 route change 2001:db8::1 dev cali2 proto 219 metric 1024")
	n.ip("neigh replace 10.0.0.1 lladdr 02:00:00:00:00:99 dev cali1 nud permanent protocol 219")
	require.NoError(t, n.ns.SetSysctl("net/ipv4/conf/cali1/forwarding", "0"))
	require.NoError(t, n.dp.Resync(t.Context()))
	require.Equal(t, []string{"10.0.0.1 cali1 219", "2001:db8::1 cali1 219"}, n.routes("main"))
	require.Equal(t, []string{"10.0.0.1 cali1 " + mac, "2001:db8::1 cali1 " + mac}, n.neighbours())
	n.wantSysctl("net/ipv4/conf/cali1/forwarding", "1")
}

// A route of ours that is added between a dump and the change is not foreign.
func TestOwnRouteIsNotForeign(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1", "cali2")
	n.must(inSync)
	n.ip("route add 10.0.0.1 dev cali2 proto 219")
	n.must(update("a", "cali1", "", "10.0.0.1"))
	require.Equal(t, []string{"10.0.0.1 cali1 219"}, n.routes("main"))
}

func TestTableAndProtocol(t *testing.T) {
	n := newNode(t, routes.Config{Tables: []uint32{70000}, Protocol: 77}, "cali1")
	n.must(update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"), inSync)
	require.Equal(t, []string{"10.0.0.1 cali1 77", "2001:db8::1 cali1 77"}, n.routes("70000"))
	require.Empty(t, n.routes("main"))
	require.NoError(t, n.dp.Teardown(t.Context()))
	require.Empty(t, n.routes("all"))
	require.Empty(t, n.neighbours())
}

// Each route is in all tables, and is repaired in each. A route of another process in one is a
// fault.
func TestSeveralTables(t *testing.T) {
	n := newNode(t, routes.Config{
		Tables: []uint32{254, 100, 200}, Gateways: []netip.Addr{netip.MustParseAddr("169.254.1.1")},
	}, "cali1", "cali2")
	n.must(update("a", "cali1", mac, "10.0.0.1", "2001:db8::1"), inSync)
	routed := func(iface string) {
		t.Helper()
		for _, table := range []string{"main", "100", "200"} {
			require.Equal(t, []string{
				"10.0.0.1 " + iface + " 219", "169.254.1.1 lo 219", "2001:db8::1 " + iface + " 219",
			}, n.routes(table), table)
		}
	}
	routed("cali1")
	n.ip("route del 10.0.0.1 table 200")
	n.ip("route replace 10.0.0.1 dev cali2 proto 219 table 100")
	require.NoError(t, n.dp.Resync(t.Context()))
	routed("cali1")
	n.must(update("a", "cali2", mac, "10.0.0.1", "2001:db8::1"))
	routed("cali2")
	n.must(gone("a"))
	for _, table := range []string{"main", "100", "200"} {
		require.Empty(t, n.routes(table), table)
	}

	n.ip("route add 10.0.0.2 dev cali2 proto static table 200")
	err := n.apply(update("b", "cali1", "", "10.0.0.2"))
	require.ErrorIs(t, err, routes.ErrForeign)
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Len(t, objects, 1)
	require.NotNil(t, objects[key("b")])
	n.ip("route del 10.0.0.2 table 200")
	n.must()
	require.NoError(t, n.dp.Teardown(t.Context()))
	require.Empty(t, n.routes("all"))
}

func TestInvalidEndpoint(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1", "cali2", "cali3")
	bad := update("addr", "cali3", "", "10.0.0.3", "224.0.0.1", "::", "fe80::1%cali1", "0.0.0.5", "255.255.255.255",
		"fe80::5")
	bad.Endpoint.Addresses = append(bad.Endpoint.Addresses, netip.Addr{})
	err := n.apply(
		update("path", "../all", "", "10.0.0.1"), update("all", "all", "", "10.0.0.1"),
		update("mac", "cali2", "02:00:00:00:00:00:00:01", "10.0.0.2"), bad,
		update("ok", "cali1", "", "10.0.0.4"), inSync)
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Len(t, objects, 4)
	for _, e := range objects {
		require.ErrorIs(t, e, routes.ErrEndpoint)
	}
	require.Equal(t, []string{"10.0.0.2 cali2 219", "10.0.0.3 cali3 219", "10.0.0.4 cali1 219"}, n.routes("main"))
	require.Len(t, strings.Split(objects[key("addr")].Error(), "\n"), 6)
	require.Error(t, n.apply(), "reported as long as the fault lasts")
	n.must(gone("path"), gone("all"), gone("mac"), gone("addr"))
}

func TestIPv4MappedAddress(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1")
	n.must(update("a", "cali1", "", "::ffff:10.0.0.1"), inSync)
	require.Equal(t, []string{"10.0.0.1 cali1 219"}, n.routes("main"))
}
