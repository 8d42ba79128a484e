// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/policy"
)

// events of this node, a, and of b and c.
func nodeUpdate(name, address string, keys ...wgtypes.Key) *dataplane.NodeUpdate {
	n := &dataplane.Node{Name: name, Addresses: prefixes(address + "/24")}
	if name == "a" {
		n.WireguardAddresses = []netip.Addr{netip.MustParseAddr("10.0.1.0"), netip.MustParseAddr("fd00:1::")}
	}
	for i, k := range keys {
		n.WireguardKeys = append(n.WireguardKeys, policy.WireguardKey{PublicKey: k.String(), Port: uint16(51820 + i)})
	}
	return &dataplane.NodeUpdate{Node: n}
}

func routeUpdate(dst, node string, typ dataplane.RouteType) *dataplane.RouteUpdate {
	return &dataplane.RouteUpdate{Route: &dataplane.Route{Dst: netip.MustParsePrefix(dst), Node: node, Type: typ}}
}

// network has the node b, which encrypts, and c, which does not. Two addresses of b's block are on
// this node and on c.
func network() []dataplane.Event {
	return []dataplane.Event{
		nodeUpdate("a", "192.0.2.1", testKey(1)), nodeUpdate("b", "192.0.2.2", testKey(2)),
		nodeUpdate("c", "192.0.2.3"),
		routeUpdate("10.0.0.0/16", "", dataplane.RoutePool),
		routeUpdate("10.0.1.0/26", "a", dataplane.RouteBlackhole),
		routeUpdate("10.0.1.1/32", "a", dataplane.RouteLocalWorkload),
		routeUpdate("10.0.2.0/26", "b", dataplane.RouteRemoteWorkload),
		routeUpdate("fd00:2::/122", "b", dataplane.RouteRemoteWorkload),
		routeUpdate("10.0.2.0/32", "b", dataplane.RouteRemoteTunnel),
		routeUpdate("10.0.2.8/32", "a", dataplane.RouteLocalWorkload),
		routeUpdate("10.0.2.9/32", "c", dataplane.RouteRemoteWorkload),
		routeUpdate("10.0.3.0/26", "c", dataplane.RouteRemoteWorkload),
		routeUpdate("192.0.2.2/32", "b", dataplane.RouteRemoteHost),
		routeUpdate("192.0.2.3/32", "c", dataplane.RouteRemoteHost),
		&dataplane.InSync{},
	}
}

// text returns the routes, rules and settings of a state.
func (s *state) text(encrypting bool) (lines []string) {
	nodes := s.remoteNodes([]wgtypes.Key{testKey(1)})
	s.encrypting = encrypting
	for _, o := range s.desiredObjects(nodes, func(*remoteNode) string { return "wg.way" }) {
		lines = append(lines, o.String())
	}
	slices.Sort(lines)
	return lines
}

func stateOf(cfg Config, events ...dataplane.Event) *state {
	cfg.Node, cfg.Devices = "a", []Device{{KeyFile: "k"}}
	cfg = cfg.withDefaults()
	s := newState(&cfg)
	s.update(dataplane.Batch{Events: events})
	return s
}

func TestObjects(t *testing.T) {
	device := []string{
		"blackhole 10.0.1.0/26 metric 2147483648 table 254",
		"blackhole 10.0.2.8/32 metric 2147483648 table 254", "net/ipv4/conf/wg.way/forwarding=1",
		"net/ipv4/conf/wg.way/rp_filter=2", "wg.way type wireguard",
	}
	s := stateOf(Config{}, network()...)
	require.Equal(t, device, s.text(false), "before the resource of this node has its key")
	want := append([]string{
		"10.0.2.0/26 dev wg.way src 10.0.1.0 table 22361", "10.0.2.0/32 dev wg.way src 10.0.1.0 table 22361",
		"blackhole 10.0.2.0/26 metric 2147483648 table 22361", "blackhole 10.0.2.0/32 metric 2147483648 table 22361",
		"blackhole fd00:2::/122 metric 2147483648 table 22361", "fd00:2::/122 dev wg.way src fd00:1:: table 22361",
		"throw 10.0.2.8/32 table 22361", "throw 10.0.2.9/32 table 22361",
		"from 192.0.2.1/32 goto 101 priority 99", "from all lookup 22361 priority 100", "from all nop priority 101",
		"from all lookup 22361 priority 100", "from all nop priority 101",
	}, device...)
	slices.Sort(want)
	require.Equal(t, want, s.text(true))

	unencrypted := prefixes("192.0.2.9/32", "2001:db8::9/128")
	s = stateOf(Config{HostEncryption: true, UnencryptedHosts: unencrypted}, network()...)
	s.interfaces.uplinks = []string{"eth0"}
	text := s.text(true)
	for _, line := range []string{
		"192.0.2.2/32 dev wg.way src 10.0.1.0 table 22361", "blackhole 192.0.2.2/32 metric 2147483648 table 22361",
		"from all iif lo ipproto udp sport 51820 goto 101 priority 99", "from 192.0.2.9/32 goto 101 priority 99",
		"from all to 192.0.2.9/32 goto 101 priority 99", "from 2001:db8::9/128 goto 101 priority 99",
		"from all to 2001:db8::9/128 goto 101 priority 99", "net/ipv4/conf/eth0/rp_filter=2",
	} {
		require.Contains(t, text, line)
	}
	require.NotContains(t, text, "from 192.0.2.1/32 goto 101 priority 99")

	// A node at fault: packets to it are dropped.
	s.update(dataplane.Batch{Events: []dataplane.Event{nodeUpdate("b", "192.0.2.2", testKey(1))}})
	text = s.text(true)
	require.Contains(t, text, "blackhole 10.0.2.0/26 metric 2147483648 table 22361")
	require.NotContains(t, strings.Join(text, "\n"), "10.0.2.0/26 dev")
}

// Packets to a node without a resource are dropped. A prefix without a path is encrypted if its
// node has keys. If not, it gets no throw route, by which packets to it could leave by the default
// route.
func TestNodesWithoutResourceOrPath(t *testing.T) {
	s := stateOf(Config{}, append(network(),
		routeUpdate("10.0.4.0/26", "d", dataplane.RouteRemoteUnreachable),
		routeUpdate("10.0.5.0/26", "d", dataplane.RouteRemoteWorkload),
		routeUpdate("10.0.6.0/26", "b", dataplane.RouteRemoteUnreachable),
		routeUpdate("10.0.2.10/32", "c", dataplane.RouteRemoteUnreachable),
		routeUpdate("10.0.7.0/26", "c", dataplane.RouteRemoteUnreachable),
	)...)
	text := strings.Join(s.text(true), "\n")
	for _, dst := range []string{"10.0.4.0/26", "10.0.5.0/26"} {
		require.Contains(t, text, "blackhole "+dst+" table 22361")
		require.Contains(t, text, "blackhole "+dst+" metric 2147483648 table 22361")
	}
	require.Contains(t, text, "10.0.6.0/26 dev wg.way src 10.0.1.0 table 22361")
	require.NotContains(t, text, "10.0.2.10")
	require.NotContains(t, text, "10.0.7.0")

	s.encrypting = false
	require.NotContains(t, s.remoteNodes([]wgtypes.Key{testKey(1)}), "d", "no fault before this node has keys")
	s.encrypting = true
	require.Contains(t, s.remoteNodes([]wgtypes.Key{testKey(1)}), "d")
	s.update(dataplane.Batch{Events: []dataplane.Event{nodeUpdate("d", "192.0.2.4")}})
	text = strings.Join(s.text(true), "\n")
	require.NotContains(t, text, "10.0.4.0", "now the node is known to have no keys")
	require.NotContains(t, text, "10.0.5.0")
}

// Only events that may change the state cause work.
func TestChanges(t *testing.T) {
	s := stateOf(Config{}, network()...)
	s.text(true)
	for _, tt := range []struct {
		event   dataplane.Event
		changes bool
	}{
		{nodeUpdate("b", "192.0.2.2", testKey(2)), false},
		{&dataplane.NodeUpdate{Node: &dataplane.Node{
			Name: "c", Addresses: prefixes("192.0.2.3/24"), Labels: map[string]string{"a": "b"},
		}}, false},
		{routeUpdate("10.0.1.2/32", "a", dataplane.RouteLocalWorkload), false},
		{&dataplane.RouteRemove{Dst: netip.MustParsePrefix("10.0.1.1/32")}, false},
		{&dataplane.HostEndpointUpdate{Key: policy.Key{Name: "h"}, HostEndpoint: &dataplane.HostEndpoint{}}, false},
		{routeUpdate("10.0.5.0/26", "a", dataplane.RouteBlackhole), true},
		{&dataplane.RouteRemove{Dst: netip.MustParsePrefix("10.0.5.0/26")}, true},
		{routeUpdate("10.9.0.1/32", "a", dataplane.RouteLocalWorkload), true},
		{&dataplane.RouteRemove{Dst: netip.MustParsePrefix("10.9.0.1/32")}, true},
		{routeUpdate("10.0.2.10/32", "a", dataplane.RouteLocalWorkload), true},
		{&dataplane.RouteRemove{Dst: netip.MustParsePrefix("10.0.2.8/32")}, true},
		{routeUpdate("10.0.4.0/26", "b", dataplane.RouteRemoteWorkload), true},
		{nodeUpdate("b", "192.0.2.2", testKey(3)), true},
		{nodeUpdate("b", "192.0.2.4", testKey(3)), true},
		{&dataplane.NodeRemove{Name: "b"}, true},
	} {
		s.changed = false
		s.update(dataplane.Batch{Events: []dataplane.Event{tt.event}})
		require.Equal(t, tt.changes, s.changed, tt.event)
	}
}

func TestRemoteNodes(t *testing.T) {
	s := stateOf(Config{}, network()...)
	s.update(dataplane.Batch{Events: []dataplane.Event{
		nodeUpdate("d", "192.0.2.4", testKey(2)), nodeUpdate("e", "192.0.2.5", testKey(5), testKey(1)),
		&dataplane.NodeUpdate{Node: &dataplane.Node{
			Name: "f", Addresses: prefixes("2001:db8::6/64", "192.0.2.6/24"),
			WireguardKeys: []policy.WireguardKey{{PublicKey: testKey(6).String(), Port: 7, Rotating: true}},
		}},
		&dataplane.NodeUpdate{Node: &dataplane.Node{
			Name: "g", WireguardKeys: []policy.WireguardKey{{PublicKey: testKey(7).String(), Port: 7}},
		}},
	}})
	nodes := s.remoteNodes([]wgtypes.Key{testKey(1)})
	require.Len(t, nodes, 5)
	require.NoError(t, nodes["b"].err)
	require.Equal(t, prefixes("10.0.2.0/26", "10.0.2.0/32", "192.0.2.2/32", "fd00:2::/122"), nodes["b"].allowedIPs())
	require.ErrorIs(t, nodes["d"].err, ErrRemoteNode)
	require.ErrorContains(t, nodes["d"].err, "b announces the key")
	require.ErrorContains(t, nodes["e"].err, "a announces the key", "of this node")
	require.Equal(t, []announcedPeer{{testKey(6), netip.MustParseAddrPort("192.0.2.6:7"), true}}, nodes["f"].peers)
	require.ErrorContains(t, nodes["g"].err, "no address")

	// An invalid key, and a node without its own key.
	invalid := nodeUpdate("b", "192.0.2.2")
	invalid.Node.WireguardKeys = []policy.WireguardKey{{}}
	s.update(dataplane.Batch{Events: []dataplane.Event{invalid}})
	nodes = s.remoteNodes([]wgtypes.Key{{}})
	require.ErrorIs(t, nodes["b"].err, ErrRemoteNode)
	require.Equal(t, prefixes("10.0.2.0/26", "10.0.2.0/32", "192.0.2.2/32", "fd00:2::/122"), nodes["b"].allowedIPs())
	require.NoError(t, nodes["e"].err)
	require.Equal(t, []bool{false}, s.published([]wgtypes.Key{{}}))
}

// With host encryption, a host endpoint must apply to the packets inside WireGuard.
func TestHostEndpoints(t *testing.T) {
	key := func(name string) policy.Key { return policy.Key{Kind: policy.KindHostEndpoint, Name: name} }
	host := func(name, dev string) *dataplane.HostEndpointUpdate {
		return &dataplane.HostEndpointUpdate{Key: key(name), HostEndpoint: &dataplane.HostEndpoint{Interface: dev}}
	}
	require.Empty(t, stateOf(Config{}, host("h", "eth0")).hostEndpointFaults())
	faults := stateOf(Config{HostEncryption: true}, host("h", "eth0"), host("i", "")).hostEndpointFaults()
	require.Len(t, faults, 2)
	require.ErrorIs(t, faults[key("h")], ErrHostEndpoint)
	require.Empty(t, stateOf(Config{HostEncryption: true}, host("h", "eth0"), host("i", "*")).hostEndpointFaults())
	require.Empty(t, stateOf(Config{HostEncryption: true}, host("h", "eth0"), host("i", "wg.way")).hostEndpointFaults())
}

func TestConfig(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "wireguard: Config.Node: required")
	require.ErrorContains(t, err, "Devices: want 1 to 2, not 0")
	good := []Device{{KeyFile: "a"}, {KeyFile: "b"}}
	_, err = New(Config{Node: "a", Devices: good, KeyLifetime: 1})
	require.NoError(t, err)
	for text, cfg := range map[string]Config{
		"Config.Devices[0].KeyFile: required": {Devices: []Device{{}}},
		"must not be those of another device": {Devices: []Device{{KeyFile: "a"}, {KeyFile: "a"}}},
		"UnencryptedHosts[0]: not a prefix":   {Devices: good, UnencryptedHosts: []netip.Prefix{{}}},
		"KeyLifetime: needs two Devices":      {Devices: good[:1], KeyLifetime: 1},
		"KeyLifetime: must not be negative":   {Devices: good, KeyLifetime: -1},
		"RotationDelay: want at least 3m0s":   {Devices: good, RotationDelay: time.Minute},
		"RulePriority: want at most 32763":    {Devices: good, RulePriority: 32764},
		"Tables[0]: 255 is the kernel's":      {Devices: good, Table: 255},
	} {
		cfg.Node = "a"
		_, err := New(cfg)
		require.ErrorContains(t, err, text)
	}
}

// Without the kernel's module, the device is at fault, but not the pods of the node.
func TestFaults(t *testing.T) {
	d, err := New(Config{Node: "a", Devices: []Device{{KeyFile: "k"}}})
	require.NoError(t, err)
	object := func(o routes.Object, err error) error { return &routes.ObjectError{Op: "keep", Object: o, Err: err} }
	joined := func(errs ...error) error { return joinedErrors(errs) }
	missing := &dataplane.FeatureError{Feature: "devices of kind wireguard"}
	device := object(routes.Wireguard{Name: "wg.way"}, missing)
	route := object(routes.Route{Dst: netip.MustParsePrefix("10.0.0.0/8"), Interface: "wg.way"}, routes.ErrNoInterface)
	faults := func(keeper error) error {
		d.last.keeper = keeper
		return d.faults()
	}
	objects, general := dataplane.ApplyErrors(faults(joined(device, route)))
	require.False(t, general)
	require.ErrorIs(t, objects[policy.Key{Kind: policy.KindNode, Name: "a"}], missing)
	require.ErrorContains(t, objects[policy.Key{Kind: policy.KindNode, Name: "a"}], "(and 1 more)")
	for _, fault := range []error{
		joined(device, object(routes.Rule{Family: 4, Table: 1}, routes.ErrForeign)),
		joined(object(routes.Route{Type: routes.Blackhole}, routes.ErrForeign)), routes.ErrObject,
	} {
		_, general = dataplane.ApplyErrors(faults(fault))
		require.True(t, general, "packets may pass unencrypted")
	}
	require.NoError(t, faults(nil))
}

// joinedErrors is a join of errors.
type joinedErrors []error

func (j joinedErrors) Error() string   { return "joined" }
func (j joinedErrors) Unwrap() []error { return j }

// The longest prefix that contains an address decides whether the address is included.
func TestIncludedParts(t *testing.T) {
	for _, tt := range []struct{ included, excluded, want []string }{
		{nil, nil, nil},
		{[]string{"10.0.0.0/24"}, nil, []string{"10.0.0.0/24"}},
		{[]string{"10.0.0.0/24", "10.0.0.8/32", "10.0.1.0/24"}, nil, []string{"10.0.0.0/24", "10.0.1.0/24"}},
		{[]string{"10.0.0.0/30"}, []string{"10.0.0.2/32"}, []string{"10.0.0.0/31", "10.0.0.3/32"}},
		{[]string{"10.0.0.0/30", "10.0.0.1/32"}, []string{"10.0.0.0/31"}, []string{"10.0.0.1/32", "10.0.0.2/31"}},
		{[]string{"10.0.0.0/31"}, []string{"10.0.0.0/32", "10.0.0.1/32"}, nil},
		{nil, []string{"10.0.0.0/24"}, nil},
		{[]string{"0.0.0.0/0", "::/0"}, []string{"128.0.0.0/1"}, []string{"0.0.0.0/1", "::/0"}},
		{[]string{"fd00::/127", "10.0.0.0/8"}, []string{"fd00::1/128"}, []string{"10.0.0.0/8", "fd00::/128"}},
		{[]string{"192.0.2.77/24"}, nil, []string{"192.0.2.0/24"}},
	} {
		got := includedParts(prefixes(tt.included...), prefixes(tt.excluded...))
		require.Equal(t, prefixes(tt.want...), got, "%+v", tt)
	}
}

// The prefixes that an earlier process left are read from any range.
func TestElementPrefixes(t *testing.T) {
	for _, tt := range []struct{ first, last, want string }{
		{"10.0.0.7", "", "[10.0.0.7/32]"},
		{"10.0.0.0", "10.0.0.63", "[10.0.0.0/26]"},
		{"10.0.0.10", "10.0.0.16", "[10.0.0.10/31 10.0.0.12/30 10.0.0.16/32]"},
		{"0.0.0.0", "255.255.255.255", "[0.0.0.0/0]"},
		{"255.255.255.254", "255.255.255.255", "[255.255.255.254/31]"},
		{"fd00::", "fd00::2", "[fd00::/127 fd00::2/128]"},
	} {
		e := ruleset.Element{Key: []ruleset.Value{ruleset.Addr(netip.MustParseAddr(tt.first))}}
		if tt.last != "" {
			e.Last = ruleset.Addr(netip.MustParseAddr(tt.last))
		}
		require.Equal(t, tt.want, fmt.Sprint(elementPrefixes([]ruleset.Element{e})))
	}
}
