// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"fmt"
	"net/netip"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// TestCacheRemovesInterfaces: the cache has no interfaces of removed endpoints.
func TestCacheRemovesInterfaces(t *testing.T) {
	o, err := New(Config{NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	r, err := render.New(render.Config{})
	require.NoError(t, err)
	apply := func(events []dataplane.Event) {
		t.Helper()
		r.Update(dataplane.Batch{Events: events})
		require.NoError(t, o.Update(r, false))
		r.Flush()
	}
	for _, count := range []int{1, 100} {
		var come, left []dataplane.Event
		for i := range count {
			key := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: fmt.Sprint(i)}
			come = append(come, &dataplane.EndpointUpdate{Key: key, Endpoint: &dataplane.Endpoint{
				Interface: fmt.Sprint("way", i),
			}})
			left = append(left, &dataplane.EndpointRemove{Key: key})
		}
		apply(come)
		require.Len(t, o.masters, count)
		require.Empty(t, o.missing)
		apply(left)
		require.Empty(t, o.masters)
		require.Empty(t, o.missing)
		require.Nil(t, o.all)
	}
}

// TestBridgeAddresses: the addresses of bridges are read at the start and with each resync, and
// Watch reports a change.
func TestBridgeAddresses(t *testing.T) {
	addresses := []netip.Addr{netip.MustParseAddr("fe80::b0")}
	o, err := New(Config{
		NetNS: nstest.New(t).FD(), Bridges: []string{"br0"},
		List: func() (map[string]render.Interface, error) {
			return map[string]render.Interface{"br0": {Addresses: addresses}, "eth0": {}}, nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	r, err := render.New(render.Config{})
	require.NoError(t, err)
	require.NoError(t, o.Update(r, false))
	require.Equal(t, addresses, o.BridgeAddresses())
	require.Equal(t, "the addresses of bridges", o.differs(&interfaces.Snapshot{}))
	addresses = nil
	require.NoError(t, o.Update(r, true))
	require.Empty(t, o.BridgeAddresses())
	require.Empty(t, o.differs(&interfaces.Snapshot{}))
}

// TestFollow: Watch reports that a followed interface gets another name. It does not report an
// interface that is added, removed, or no longer followed.
func TestFollow(t *testing.T) {
	ns := nstest.New(t)
	o, err := New(Config{NetNS: ns.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	ip := func(args ...string) string {
		require.NoError(t, ns.Do(func() error { return exec.Command("ip", args...).Run() }))
		s, err := interfaces.Read(interfaces.Config{NetNS: ns.FD()})
		require.NoError(t, err)
		return o.differs(s)
	}
	add := func(name string) string { return ip("link", "add", name, "type", "veth", "peer", "name", "p"+name) }
	for _, name := range []string{"way1", "way2", "way3"} {
		require.Empty(t, add(name))
	}
	found, err := o.Follow([]string{"way1", "way2", "none"})
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.NotEqual(t, found["way1"], found["way2"])
	require.Empty(t, ip("link", "set", "way3", "name", "way4"))
	require.Empty(t, ip("link", "del", "way2"))
	require.Empty(t, add("way2"), "another interface with that name")
	require.Equal(t, "the name of interface way1", ip("link", "set", "way1", "name", "old"))
	_, err = o.Follow([]string{"way2"})
	require.NoError(t, err)
	require.Empty(t, ip("link", "set", "way4", "name", "way1"))
	require.Equal(t, "the name of interface way2", ip("link", "set", "way2", "name", "way9"))
}
