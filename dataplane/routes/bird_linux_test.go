// SPDX-License-Identifier: Apache-2.0

//go:build bird

package routes_test

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

// birdConf makes BIRD import the kernel's routes with our protocol number, and exchange them with
// one neighbour.
var birdConf = template.Must(template.New("bird.conf").Parse(`
log stderr all;
router id 192.0.2.{{.Own}};
filter ours { if krt_source = {{.Protocol}} then accept; reject; }
protocol device { scan time 1; }
protocol kernel four { learn; scan time 1; ipv4 { import filter ours; export where source = RTS_BGP; }; }
protocol kernel six { learn; scan time 1; ipv6 { import filter ours; export where source = RTS_BGP; }; }
template bgp peer {
	local as 6451{{.Own}};
	direct;
	connect delay time 1; connect retry time 1; error wait time 1, 2;
}
protocol bgp peer4 from peer {
	source address 192.0.2.{{.Own}};
	neighbor 192.0.2.{{.Other}} as 6451{{.Other}};
	ipv4 { import all; export where source = RTS_INHERIT; next hop self; };
}
protocol bgp peer6 from peer {
	source address 2001:db8:2::{{.Own}};
	neighbor 2001:db8:2::{{.Other}} as 6451{{.Other}};
	ipv6 { import all; export where source = RTS_INHERIT; next hop self; };
}
`))

// bird is BIRD running beside the dataplane of a node.
type bird struct {
	*clusterNode
	monitor *rtnl.Monitor
	control string // the socket for commands
}

// startBIRD runs BIRD in the node's namespace. An environment variable has the path of the program.
func startBIRD(n *clusterNode, own, other int) *bird {
	n.Helper()
	program := os.Getenv("WAYLEAVE_BIRD")
	require.NotEmpty(n, program, "make test-bird sets it")
	dir := n.TempDir()
	file, err := os.Create(filepath.Join(dir, "bird.conf"))
	require.NoError(n, err)
	require.NoError(n,
		birdConf.Execute(file, map[string]int{"Own": own, "Other": other, "Protocol": routes.DefaultProtocol}))
	require.NoError(n, file.Close())
	b := &bird{clusterNode: n, monitor: n.listen(rtnl.GroupRoutes), control: filepath.Join(dir, "ctl")}
	var log strings.Builder
	cmd := exec.Command(program, "-f", "-c", file.Name(), "-s", b.control)
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(n, n.ns.Do(cmd.Start))
	n.Cleanup(func() {
		_ = cmd.Process.Kill() // fails if BIRD has already ended, as the log then shows
		_ = cmd.Wait()         // killed
		if n.Failed() {
			n.Logf("BIRD on %s:\n%s", n.name, log.String())
		}
	})
	return b
}

// until waits for a condition on a routing table.
func (b *bird) until(what string, ok func() bool) {
	b.Helper()
	b.await(b.monitor, what, ok)
}

// has reports whether BIRD put a route to the prefix into the kernel's table.
func (b *bird) has(prefix, via string) func() bool {
	return func() bool {
		family := "-4"
		if strings.Contains(prefix, ":") {
			family = "-6"
		}
		lines := b.list(prefix+" ", "ip", family, "route", "show", "proto", "bird")
		return len(lines) == 1 && strings.Contains(lines[0], "via "+via)
	}
}

// learned returns the routes that BIRD has imported from the kernel, as "prefix" or "blackhole
// prefix".
func (b *bird) learned() (list []string) {
	b.Helper()
	conn, err := net.Dial("unix", b.control)
	require.NoError(b, err)
	defer conn.Close()
	require.NoError(b, conn.SetDeadline(time.Now().Add(10*time.Second)))
	lines := bufio.NewScanner(conn)
	for _, protocol := range []string{"four", "six"} {
		_, err = fmt.Fprintf(conn, "show route protocol %s\n", protocol)
		require.NoError(b, err)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "0000") { // the end of an answer
			text := strings.TrimPrefix(strings.TrimPrefix(lines.Text(), "1007-"), " ")
			if fields := strings.Fields(text); len(fields) > 1 && strings.Contains(fields[0], "/") {
				list = append(list, strings.TrimPrefix(fields[1]+" "+fields[0], "unicast "))
			}
		}
		require.NoError(b, lines.Err())
	}
	slices.Sort(list)
	return list
}

// ours returns the routes of the kernel that have our protocol number, in the same form.
func (b *bird) ours() (list []string) {
	b.Helper()
	for _, family := range []string{"-4", "-6"} {
		for _, line := range b.list("", "ip", family, "route", "show", "proto", fmt.Sprint(routes.DefaultProtocol)) {
			fields := strings.Fields(line)
			kind, dst := "", fields[0]
			if dst == "blackhole" {
				kind, dst = "blackhole ", fields[1]
			}
			if !strings.Contains(dst, "/") {
				a := netip.MustParseAddr(dst)
				dst = netip.PrefixFrom(a, a.BitLen()).String()
			}
			list = append(list, kind+dst)
		}
	}
	slices.Sort(list)
	return list
}

// BIRD exports our routes, by their protocol number, to its neighbour. Each node has only its own
// block, and the pods reach each other by the routes of the daemons. Neither changes the routes of
// the other.
func TestBIRD(t *testing.T) {
	c := newUnderlay(t, 2, 2)
	c.set(pools(policy.EncapNever)...)
	for i, n := range c.nodes {
		n.update(&n.world)
		n.update(blocks(i + 1)...)
	}
	c.begin()
	c.nodes[1].ip("route add blackhole 10.99.0.0/24 proto 218") // a foreign route
	birds := []*bird{startBIRD(c.nodes[0], 1, 2), startBIRD(c.nodes[1], 2, 1)}
	for i, b := range birds {
		other := 2 - i
		four, six := fmt.Sprintf("192.0.2.%d", other), fmt.Sprintf("2001:db8:2::%d", other)
		for prefix, via := range map[string]string{
			fmt.Sprintf("10.65.%d.0/26", other): four, fmt.Sprintf("10.65.%d.1", other): four,
			fmt.Sprintf("fd65::%d:0/122", other): six, fmt.Sprintf("fd65::%d:1", other): six,
		} {
			b.until(prefix, b.has(prefix, via))
		}
	}
	c.reach()
	for _, b := range birds {
		require.Len(t, b.ours(), 4)
		require.Equal(t, b.ours(), b.learned(), "all of ours, and nothing else")
	}
	require.Empty(t, birds[0].list("10.99.0.0", "ip", "route"), "not ours, not exported")

	// A pod is added and removed.
	c.addPod("late", c.nodes[1], "10.65.2.7", "fd65::2:7")
	c.flush()
	birds[0].until("late is added", birds[0].has("10.65.2.7", "192.0.2.2"))
	birds[0].until("late is added", birds[0].has("fd65::2:7", "2001:db8:2::2"))
	c.reach()
	c.remove(&policy.WorkloadEndpoint{Namespace: "shop", Name: "late"})
	delete(c.pods, "late")
	c.flush()
	birds[0].until("late is removed", func() bool {
		return !birds[0].has("10.65.2.7", "192.0.2.2")() && !birds[0].has("fd65::2:7", "2001:db8:2::2")()
	})

	// A resync does not change the daemon's routes, and BIRD does not change ours.
	before := birds[0].list("proto bird", "ip", "route")
	require.NotEmpty(t, before)
	require.NoError(t, c.nodes[0].dp.Resync(t.Context()))
	require.Equal(t, before, birds[0].list("proto bird", "ip", "route"))
	c.reach()

	// A route that the node withdraws is removed everywhere.
	require.NoError(t, c.nodes[1].dp.Teardown(t.Context()))
	birds[0].until("the block goes", func() bool { return !birds[0].has("10.65.2.0/26", "192.0.2.2")() })
	require.NotEmpty(t, birds[1].list("10.99.0.0", "ip", "route"))
}
