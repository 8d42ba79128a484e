// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package wireguard_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// announcingDataplane adds keys to the nodes of the kit: the field there is for the node "there",
// and own for this node.
type announcingDataplane struct {
	*wireguard.Dataplane
	own, there wgtypes.Key
}

// withKeys returns the batch with the keys.
func (a announcingDataplane) withKeys(b dataplane.Batch) dataplane.Batch {
	b.Events = slices.Clone(b.Events)
	for i, event := range b.Events {
		switch e := event.(type) {
		case *dataplane.NodeUpdate:
			if n := *e.Node; n.Name == "there" {
				n.WireguardKeys = []policy.WireguardKey{{PublicKey: a.there.String(), Port: 51820}}
				b.Events[i] = &dataplane.NodeUpdate{Node: &n}
			}
		case *dataplane.InSync:
			b.Events = slices.Insert(b.Events, i, dataplane.Event(&dataplane.NodeUpdate{Node: &dataplane.Node{
				Name: "here", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")},
				WireguardAddresses: []netip.Addr{netip.MustParseAddr("10.98.0.0")},
				WireguardKeys:      []policy.WireguardKey{{PublicKey: a.own.String(), Port: 51820}},
			}}))
			return b
		}
	}
	return b
}

func (a announcingDataplane) Apply(ctx context.Context, b dataplane.Batch) error {
	return a.Dataplane.Apply(ctx, a.withKeys(b))
}

func (a announcingDataplane) Plan(ctx context.Context, b dataplane.Batch) (string, error) {
	return a.Dataplane.Plan(ctx, a.withKeys(b))
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		c := &cluster{T: t, underlay: nstest.New(t)}
		ns := c.underlay
		_, _, err := netns.Veth(netns.End{NS: ns, Name: "eth0"}, netns.End{NS: nstest.New(t), Name: "eth0"})
		require.NoError(t, err)
		require.NoError(t, ns.AddAddr("eth0", netip.MustParsePrefix("192.0.2.1/24")))
		n := &node{cluster: c, name: "here", ns: ns}
		var key [2]wgtypes.Key // the same for all harnesses, because their dumps are compared
		for i := range key {
			key[i], err = wgtypes.NewKey(bytes.Repeat([]byte{8 * byte(i+1)}, wgtypes.KeyLen))
			require.NoError(t, err)
		}
		path := filepath.Join(t.TempDir(), "key")
		require.NoError(t, os.WriteFile(path, []byte(key[0].String()), 0o600))
		return conformance.Harness{
			Open: func(t *testing.T) dataplane.Dataplane {
				d, err := wireguard.New(wireguard.Config{
					Node: "here", NetNS: ns.FD(), Devices: []wireguard.Device{{KeyFile: path}},
				})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, d.Close()) })
				return announcingDataplane{d, key[0].PublicKey(), key[1].PublicKey()}
			},
			Dump: func(*testing.T) string { return n.dump() },
			Damage: func(*testing.T) {
				n.run(ns, "ip link del dev wg.way")
			},
			Spoil: func(s dptest.State) policy.Key {
				s.Nodes["without"] = &dataplane.Node{
					Name: "without", WireguardKeys: []policy.WireguardKey{{PublicKey: key[1].String(), Port: 1}},
				}
				return policy.Key{Kind: policy.KindNode, Name: "without"}
			},
			Foreign: func(t *testing.T) func() {
				n.run(ns, "ip route add 10.98.1.0/27 dev eth0")
				n.run(ns, "ip route add 10.98.1.0/28 dev eth0 table 22361")
				n.run(ns, "ip link add wg9 type wireguard")
				n.run(ns, "ip rule add from 10.9.9.9 lookup 22361 priority 99")
				return func() {
					require.Len(t, n.list("10.98.1.0/27", "ip route"), 1)
					require.Len(t, n.list("10.98.1.0/28", "ip route show table all"), 1)
					require.Len(t, n.list("wg9", "ip -o link"), 1)
					require.Len(t, n.list("10.9.9.9", "ip rule"), 1)
				}
			},
		}
	})
}

// dump lists the objects that the dataplane has programmed.
func (n *node) dump() string {
	n.Helper()
	var lines []string
	for _, command := range []string{"ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all"} {
		lines = append(lines, n.list("22361", "%s", command)...)
	}
	if len(n.list(" wg.way:", "ip -o link")) > 0 {
		lines = append(lines, n.list("inet", "ip addr show dev wg.way")...)
		d := n.device("wg.way")
		lines = append(lines, fmt.Sprintf("%s %d", d.PublicKey, d.ListenPort))
		for _, p := range d.Peers {
			var allowed []string
			for _, a := range p.AllowedIPs {
				allowed = append(allowed, a.String())
			}
			slices.Sort(allowed)
			lines = append(lines, fmt.Sprintf("%s %s %s", p.PublicKey, p.Endpoint, allowed))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
