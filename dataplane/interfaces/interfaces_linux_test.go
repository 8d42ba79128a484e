// SPDX-License-Identifier: Apache-2.0

package interfaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// watcher is a Watch on a namespace, and the last snapshot.
type watcher struct {
	*testing.T
	ns        *netns.NS
	snapshots chan *interfaces.Snapshot
	last      *interfaces.Snapshot
}

func watch(t *testing.T) *watcher {
	w := &watcher{T: t, ns: nstest.New(t), snapshots: make(chan *interfaces.Snapshot)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- interfaces.Watch(ctx, interfaces.Config{NetNS: w.ns.FD()}, func(s *interfaces.Snapshot) {
			select {
			case w.snapshots <- s:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	w.next()
	return w
}

// next waits for another snapshot.
func (w *watcher) next() {
	w.Helper()
	select {
	case w.last = <-w.snapshots:
	case <-time.After(10 * time.Second):
		require.FailNow(w, "no snapshot")
	}
}

// until waits for a snapshot for which ok returns true.
func (w *watcher) until(ok func(*interfaces.Snapshot) bool) {
	w.Helper()
	for !ok(w.last) {
		w.next()
	}
}

func (w *watcher) ip(args string) string {
	w.Helper()
	var out []byte
	require.NoError(w, w.ns.Do(func() (err error) {
		out, err = exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		return err
	}), "ip %s: %s", args, out)
	return string(out)
}

// asListed reports whether the snapshot equals the listing of ip, which reads the kernel
// independently.
func (w *watcher) asListed(s *interfaces.Snapshot) bool {
	w.Helper()
	var listed []struct {
		Ifname, Address string
		Master          string
		Link_type       string //nolint:revive // the name in ip's JSON
		Ifindex, Mtu    int
		Flags           []string
		Linkinfo        struct {
			Info_kind string //nolint:revive // the name in ip's JSON
		}
		Addr_info []struct { //nolint:revive // likewise
			Local     string
			Prefixlen int
		}
	}
	require.NoError(w, json.Unmarshal([]byte(w.ip("-j -d addr show")), &listed))
	var want, got []string
	for _, l := range listed {
		var addresses []string
		for _, a := range l.Addr_info {
			addresses = append(addresses, fmt.Sprintf("%s/%d", a.Local, a.Prefixlen))
		}
		slices.Sort(addresses)
		if !slices.Contains([]string{"ether", "loopback"}, l.Link_type) {
			l.Address = "00:00:00:00:00:00" // of a tunnel, an IP address
		}
		want = append(want, fmt.Sprint(l.Ifname, " ", l.Ifindex, " ", slices.Contains(l.Flags, "UP"),
			slices.Contains(l.Flags, "LOWER_UP"), " ",
			l.Mtu, " ", l.Address, " ", l.Linkinfo.Info_kind, " ", l.Master, " ", addresses))
	}
	names := map[int]string{}
	for _, i := range s.All() {
		names[i.Index] = i.Name
	}
	for _, i := range s.All() {
		var addresses []string
		for _, p := range i.Addresses {
			addresses = append(addresses, p.String())
		}
		slices.Sort(addresses)
		mac := fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", i.MAC[0], i.MAC[1], i.MAC[2], i.MAC[3], i.MAC[4], i.MAC[5])
		got = append(got, fmt.Sprint(i.Name, " ", i.Index, " ", i.Up, i.Running, " ", i.MTU, " ", mac, " ", i.Kind, " ",
			names[i.Master], " ", addresses))
	}
	slices.Sort(want)
	slices.Sort(got)
	return slices.Equal(want, got)
}

// S124: an interface is added, gets addresses, flaps, is renamed, and is removed. Another one is
// added with its name.
func TestWatch(t *testing.T) {
	w := watch(t)
	require.True(t, w.asListed(w.last), "lo, and what modules such as ipip add to every namespace")
	require.NotNil(t, w.last.Named("lo"))
	require.Nil(t, w.last.Named("a"))
	fresh := len(w.last.All())
	_, _, err := netns.Veth(netns.End{NS: w.ns, Name: "a"}, netns.End{NS: w.ns, Name: "b"})
	require.NoError(t, err)
	w.until(w.asListed)
	first := w.last.Named("a")
	require.Equal(t, "veth", first.Kind)
	require.True(t, first.Up)
	before := slices.Clone(first.Addresses)

	address := netip.MustParsePrefix("192.0.2.1/24")
	require.NoError(t, w.ns.AddAddr("a", address))
	require.NoError(t, w.ns.AddAddr("a", netip.MustParsePrefix("2001:db8::1/64")))
	w.until(w.asListed)
	require.Equal(t, address, w.last.Named("a").Addresses[0])
	require.Equal(t, []*interfaces.Interface{w.last.Named("a")}, w.last.Holding(address.Addr()))
	require.Equal(t, before, first.Addresses, "snapshots do not change")

	w.ip("link set dev a mtu 1400")
	w.ip("link set dev a down")
	w.until(w.asListed)
	require.Equal(t, uint32(1400), w.last.Named("a").MTU)
	require.False(t, w.last.Named("a").Up)
	require.False(t, w.last.Named("b").Running, "b is up and lost its carrier")
	require.True(t, w.last.Named("b").Up)

	w.ip("link set dev a name c")
	w.until(func(s *interfaces.Snapshot) bool { return s.Named("c") != nil && w.asListed(s) })
	require.Nil(t, w.last.Named("a"))
	require.Equal(t, first.Index, w.last.Named("c").Index)

	w.ip("addr flush dev c")
	w.ip("link del dev c")
	w.until(w.asListed)
	require.Len(t, w.last.All(), fresh)
	_, _, err = netns.Veth(netns.End{NS: w.ns, Name: "c"}, netns.End{NS: w.ns, Name: "b"})
	require.NoError(t, err)
	w.until(func(s *interfaces.Snapshot) bool { return s.Named("c") != nil && w.asListed(s) })
	require.NotEqual(t, first.Index, w.last.Named("c").Index)
}

// A port that leaves a bridge stays an interface, although the bridge reports the removal of the
// port.
func TestBridgePortStays(t *testing.T) {
	w := watch(t)
	_, _, err := netns.Veth(netns.End{NS: w.ns, Name: "a"}, netns.End{NS: w.ns, Name: "b"})
	require.NoError(t, err)
	w.ip("link add bridge0 type bridge")
	w.ip("link set dev a master bridge0")
	w.until(func(s *interfaces.Snapshot) bool {
		bridge := s.Named("bridge0")
		return bridge != nil && s.Named("a").Master == bridge.Index && w.asListed(s)
	})
	w.ip("link set dev a nomaster")
	w.ip("link del dev bridge0")
	w.until(func(s *interfaces.Snapshot) bool {
		return s.Named("a") != nil && s.Named("a").Master == 0 && s.Named("bridge0") == nil && w.asListed(s)
	})
}

// Watch reports a flap, although the interface is unchanged afterwards.
func TestWatchReportsFlap(t *testing.T) {
	w := watch(t)
	before := w.last
	require.NoError(t, w.ns.Down("lo"))
	require.NoError(t, w.ns.Up("lo"))
	w.next()
	w.until(before.Equal)
}

// If there are more changes than the kernel buffers for a busy reader, Watch reads everything
// again.
func TestOverflow(t *testing.T) {
	w := watch(t)
	require.NoError(t, w.ns.AddAddr("lo", netip.MustParsePrefix("192.0.2.1/32")))
	// The test does not receive this snapshot until the batch has run, so Watch reads nothing
	// meanwhile.
	batch := strings.Builder{}
	for i := range changesThatOverflow {
		fmt.Fprintf(&batch, "link set dev lo mtu %d\n", 1500+i%2)
	}
	batch.WriteString("addr add 192.0.2.2/32 dev lo\n") // this one is lost
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch.String())
	require.NoError(t, w.ns.Do(cmd.Run))
	holds := func(a string) func(*interfaces.Snapshot) bool {
		return func(s *interfaces.Snapshot) bool { return len(s.Holding(netip.MustParseAddr(a))) == 1 && w.asListed(s) }
	}
	w.until(holds("192.0.2.2"))
	require.NoError(t, w.ns.AddAddr("lo", netip.MustParsePrefix("192.0.2.3/32")))
	w.until(holds("192.0.2.3"))
}

// changesThatOverflow is several times the number that fits into the buffer of a monitor.
const changesThatOverflow = 20_000

func TestWatchFails(t *testing.T) {
	never := func(*interfaces.Snapshot) { t.Error("called") }
	require.Error(t, interfaces.Watch(t.Context(), interfaces.Config{NetNS: -1}, never))
	require.Error(t, interfaces.Watch(t.Context(), interfaces.Config{NetNS: 9999}, never))
}
