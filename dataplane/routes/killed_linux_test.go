// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
)

// dataplaneChild is the environment variable with the file descriptor of a child's namespace.
const dataplaneChild = "WAYLEAVE_TEST_DATAPLANE"

// lifeConfig is the configuration of the dataplanes that are killed, and of the next ones.
func lifeConfig() routes.Config {
	return routes.Config{
		Gateways: []netip.Addr{addr("169.254.1.1"), addr("fe80::1")},
		Sysctls:  []routes.Sysctl{{Family: 4, Name: "rp_filter", Value: "1"}},
		VXLAN:    routes.VXLANConfig{Device6: "unused"},
	}
}

// life returns events with all kinds of objects, in one of several forms. Between the forms,
// endpoints and blocks are added, removed and moved. A device is altered (MAC and address), or
// recreated because the family of the parent's address changes.
func life(form int) []dataplane.Event {
	parent := "192.0.2.1"
	if form%4 == 3 {
		parent = "2001:db8::1"
	}
	events := []dataplane.Event{
		blackhole("10.65.0.0/26"),
		tunnel("here", fmt.Sprintf("10.65.0.%d", 60+form%2), fmt.Sprintf("66:00:00:00:00:0%d", form%3), parent, true),
	}
	for i := range 40 {
		if i%5 != form%5 {
			events = append(events, update(fmt.Sprint("w", i), fmt.Sprintf("cali%d", (i+form)%2+1), mac,
				fmt.Sprintf("10.65.0.%d", i), fmt.Sprintf("fd00::%x", i+1)))
		}
		if i%4 == form%4 {
			continue
		}
		node, pool := fmt.Sprint("n", i), dataplane.PoolVXLAN
		if (i+form)%3 == 0 {
			pool = dataplane.PoolDirect
		}
		other := fmt.Sprintf("192.0.2.%d", 10+(i+form)%100)
		if strings.Contains(parent, ":") {
			other = fmt.Sprintf("2001:db8::%x", 16+i)
			pool = dataplane.PoolVXLAN
		}
		events = append(events,
			tunnel(node, fmt.Sprintf("10.65.%d.0", i+1), fmt.Sprintf("66:00:00:00:01:%02x", i), other, false),
			remote(fmt.Sprintf("10.65.%d.0/26", i+1), node, other, pool, pool == dataplane.PoolDirect))
	}
	return append(events, inSync)
}

// turn returns the events from one form to the next.
func turn(from, to int) (events []dataplane.Event) {
	keep := map[string]bool{}
	name := func(e dataplane.Event) (string, dataplane.Event) {
		switch e := e.(type) {
		case *dataplane.EndpointUpdate:
			return e.Key.String(), &dataplane.EndpointRemove{Key: e.Key}
		case *dataplane.RouteUpdate:
			return e.Route.Dst.String(), &dataplane.RouteRemove{Dst: e.Route.Dst}
		case *dataplane.TunnelUpdate:
			return e.Tunnel.Node, &dataplane.TunnelRemove{Key: e.Tunnel.Key()}
		}
		return "", nil
	}
	for _, e := range life(to) {
		n, _ := name(e)
		keep[n] = true
	}
	for _, e := range life(from) {
		if n, remove := name(e); remove != nil && !keep[n] {
			events = append(events, remove)
		}
	}
	return append(events, life(to)...)
}

// everything returns all of the node's routes, rules, entries and VXLAN devices, without their
// indices and counters.
func (k *keeping) everything() (lines []string) {
	k.Helper()
	for _, command := range []string{
		"ip -4 route show table all", "ip -6 route show table all proto 219", "ip -4 neigh show nud permanent",
		"ip -6 neigh show proto 219", "ip neigh show proxy", "ip -6 neigh show proxy", "bridge fdb show", "ip rule",
	} {
		lines = append(lines, k.command(command)...)
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { // multicast groups of interfaces
		return strings.HasPrefix(line, "33:33:") || strings.HasPrefix(line, "01:00:5e:")
	})
	var links []struct {
		Name  string `json:"ifname"`
		MTU   int
		MAC   string `json:"address"`
		Alias string `json:"ifalias"`
		Info  struct {
			Data struct {
				ID, Port      int
				Local, Local6 string
			} `json:"info_data"`
		} `json:"linkinfo"`
	}
	require.NoError(k, json.Unmarshal([]byte(k.ip("-j -d link show type vxlan")), &links))
	for _, l := range links {
		lines = append(lines, fmt.Sprintf("%+v", l))
	}
	slices.Sort(lines)
	return lines
}

// A dataplane with all kinds of objects is killed at random moments. After the next one, the kernel
// has the same state as after a run from scratch. A teardown removes all of it, and foreign objects
// stay.
func TestDataplaneKilled(t *testing.T) {
	if fd := os.Getenv(dataplaneChild); fd != "" {
		liveUntilKilled(t, fd)
	}
	const kills = 48
	k := newNetworkNode(t, lifeConfig())
	k.ip("addr add 2001:db8::1/64 dev eth0 nodad")
	k.ip("route add blackhole 10.9.0.0/16 proto static")
	k.ip("neigh add 10.9.0.1 lladdr %s dev cali1 nud permanent", mac)
	k.ip("neigh add proxy 10.9.0.2 dev cali1")
	k.ip("rule add from 10.9.0.0/16 lookup 100 priority 50")
	k.ip("link add theirs type vxlan id 9 dstport 4790 local 192.0.2.1")
	bare := k.everything()
	fresh := map[int][]string{}
	for form := range 4 {
		k.restart()
		k.must(life(form)...)
		fresh[form] = k.everything()
		require.NoError(t, k.dp.Teardown(t.Context()))
		require.Equal(t, bare, k.everything(), "after a teardown")
	}
	// as if a process had been killed before it set the alias
	k.ip("link add vxlan.way type vxlan id 4096 dstport 4789 local 192.0.2.1")
	k.restart()
	require.NoError(t, k.dp.Teardown(t.Context()))
	require.Equal(t, bare, k.everything(), "after a teardown")
	rng := rand.New(rand.NewPCG(2, 8))
	left := map[string]bool{}
	for i := range kills {
		child := exec.Command(os.Args[0], "-test.run=^TestDataplaneKilled$")
		child.ExtraFiles = []*os.File{os.NewFile(uintptr(dup(t, k.ns.FD())), "netns")}
		child.Env = append(os.Environ(), dataplaneChild+"=3")
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		require.NoError(t, child.ExtraFiles[0].Close())
		_, err = out.Read(make([]byte, 1)) // it has begun
		require.NoError(t, err)
		// the moment is random
		timer := time.NewTimer(time.Duration(rng.IntN(20_000)) * time.Microsecond)
		<-timer.C
		require.NoError(t, child.Process.Kill())
		_ = child.Wait() // killed

		left[strings.Join(k.everything(), "\n")] = true
		k.restart()
		if i%4 == 0 {
			require.NoError(t, k.dp.Teardown(t.Context()))
			require.Equal(t, bare, k.everything(), "kill %d", i)
			continue
		}
		form := rng.IntN(len(fresh))
		k.must(life(form)...)
		require.Equal(t, fresh[form], k.everything(), "kill %d, form %d", i, form)
		plan, err := k.dp.Plan(t.Context(), dataplane.Batch{})
		require.NoError(t, err)
		require.Empty(t, plan)
	}
	t.Logf("%d kills left %d different states", kills, len(left))
}

// liveUntilKilled applies form after form until the process is killed, at most for some seconds.
func liveUntilKilled(t *testing.T, fd string) {
	cfg := lifeConfig()
	var err error
	cfg.NetNS, err = strconv.Atoi(fd)
	require.NoError(t, err)
	dp, err := routes.New(cfg)
	require.NoError(t, err)
	_, err = os.Stdout.WriteString("!")
	require.NoError(t, err)
	form := 0
	require.NoError(t, dp.Apply(t.Context(), dataplane.Batch{Events: life(form)}))
	for range 500 {
		require.NoError(t, dp.Apply(t.Context(), dataplane.Batch{Events: turn(form, form+1)}))
		form++
	}
	os.Exit(1) // it was not killed
}
