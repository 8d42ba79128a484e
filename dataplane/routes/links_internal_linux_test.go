// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// The links after the events equal the links that the kernel lists: interfaces appear, disappear,
// swap names and states, and get and lose addresses.
func TestLinksFollowEvents(t *testing.T) {
	const seed = 8
	rng := rand.New(rand.NewPCG(seed, 0))
	ns := nstest.New(t)
	cfg := rtnl.Config{NetNS: ns.FD()}
	monitor, err := rtnl.Listen(cfg, rtnl.GroupLinks, rtnl.GroupAddresses)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, monitor.Close()) })
	conn, err := rtnl.Dial(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	list := func() *links {
		l := &links{}
		require.NoError(t, l.read(conn, time.Time{}))
		return l
	}
	tracked := list()
	for range 30 {
		var batch strings.Builder
		for range 1 + rng.IntN(20) {
			i, j, k := rng.IntN(6), rng.IntN(6), rng.IntN(4)
			fmt.Fprintln(&batch, [...]string{
				fmt.Sprintf("link add dev a%d type veth peer name p%d", i, i),
				fmt.Sprintf("link add dev a%d type veth peer name p%d", j, j), fmt.Sprintf("link set dev a%d up", i),
				fmt.Sprintf("link set dev p%d up", i), fmt.Sprintf("link set dev a%d down", i),
				fmt.Sprintf("link set dev a%d name a%d", i, j), fmt.Sprintf("link set dev a%d mtu %d", i, 1400+k),
				fmt.Sprintf("addr add 10.0.%d.%d/24 dev a%d", k, i, j),
				fmt.Sprintf("addr del 10.0.%d.%d/24 dev a%d", k, i, j),
				fmt.Sprintf("addr add 2001:db8:%d::%d/64 dev a%d nodad", k, i, j), fmt.Sprintf("link del dev p%d", i),
			}[rng.IntN(11)])
		}
		cmd := exec.Command("ip", "-force", "-batch", "-") // some of these commands fail
		cmd.Stdin = strings.NewReader(batch.String())
		_ = ns.Do(cmd.Run)
		_, err := monitor.Poll(func(e *rtnl.Event) { tracked.update(e, time.Time{}) })
		require.NoError(t, err)
		listed := list()
		// The kernel reports a carrier somewhat later than a state.
		_, err = monitor.Poll(func(e *rtnl.Event) { tracked.update(e, time.Time{}) })
		require.NoError(t, err)
		require.Equal(t, plainly(listed), plainly(tracked), "seed %d", seed)
	}
}

// plainly returns the links in a form that compares, without their carriers.
func plainly(l *links) (lines []string) {
	for index, s := range l.ByIndex {
		link := s.Link
		link.Running = false
		named, _ := l.named(link.Name)
		addresses := slices.SortedFunc(slices.Values(s.Addresses), dataplane.ComparePrefixes)
		// reported once they are usable
		addresses = slices.DeleteFunc(addresses, func(p netip.Prefix) bool { return p.Addr().Is6() })
		lines = append(lines, fmt.Sprint(index, named.Index, link, addresses))
	}
	slices.Sort(lines)
	return append(lines, fmt.Sprint(len(l.ByName)))
}
