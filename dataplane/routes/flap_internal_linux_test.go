// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// S124: an interface goes down and comes up while a pass runs. So the pass adds objects that the
// events about the interface seem to have removed. A later change deletes them nevertheless.
func TestObjectsAddedBesideFlapAreDeleted(t *testing.T) {
	for _, sameBatch := range []bool{true, false} {
		ns := nstest.New(t)
		run := func(command string) (out string) {
			t.Helper()
			require.NoError(t, ns.Do(func() error {
				b, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
				out = string(b)
				return err
			}), "ip %s: %s", command, out)
			return out
		}
		run("link add dev cali1 type veth peer name x")
		run("link set dev x up")
		run("link set dev cali1 up")
		k, err := NewKeeper(KeeperConfig{NetNS: ns.FD()})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, k.Close()) })
		require.NoError(t, k.Apply(t.Context()))
		objects := func(address string) []Object {
			a := netip.MustParseAddr(address)
			return []Object{
				Route{Dst: netip.PrefixFrom(a, 32), Interface: "cali1"},
				Neighbour{Addr: a, Interface: "cali1", MAC: MAC{2, 0, 0, 0, 0, 1}},
				Proxy{Addr: netip.MustParseAddr("169.254.1.1"), Interface: "cali1"},
			}
		}
		state := func() string {
			return run("-4 route show proto 219") + run("neigh show nud permanent") + run("neigh show proxy")
		}

		// This pass has a view of the interfaces from before the flap.
		k.view.stores.change(objects("10.0.0.1"), false)
		require.NoError(t, k.view.update())
		run("link set dev cali1 down")
		run("link set dev cali1 up")
		p := pass{
			cfg: &k.cfg, view: k.view, saved: &k.saved, repairs: &k.repairs, stats: &k.stats,
			blocked: map[string]bool{},
		}
		require.NoError(t, p.run())
		require.NoError(t, p.result.err())
		require.Equal(t, 2, strings.Count(state(), "10.0.0.1"))

		if !sameBatch { // the events are received before the change
			require.NoError(t, k.Apply(t.Context()))
			require.Equal(t, 2, strings.Count(state(), "10.0.0.1"), state())
			require.Equal(t, 1, strings.Count(state(), "169.254.1.1"), state())
		}
		k.Delete(objects("10.0.0.1")...)
		k.Set(objects("10.0.0.2")[:2]...)
		require.NoError(t, k.Apply(t.Context()))
		require.Equal(t, 2, strings.Count(state(), "10.0.0.2"), state())
		require.NotContains(t, state(), "10.0.0.1 ")
		require.NotContains(t, state(), "169.254.1.1")
		require.EqualValues(t, 1, k.Stats().Readings, "nothing was read again")
	}
}
