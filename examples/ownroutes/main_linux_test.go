// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// ip runs the ip command in a namespace and returns its output.
func ip(t *testing.T, ns *netns.NS, args string) string {
	t.Helper()
	var out []byte
	require.NoError(t, ns.Do(func() (err error) {
		out, err = exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		return err
	}), "ip %s: %s", args, out)
	return string(out)
}

// gateway makes a gateway of the node that serves an address in each of the prefixes.
func gateway(t *testing.T, node *netns.NS, name, v4, v6 string) *netns.NS {
	t.Helper()
	ns := nstest.NewPeer(t, node, name, v4, v6)
	for _, address := range []string{"10.20.0.1", "2001:db8:20::1"} {
		addr := netip.MustParseAddr(address)
		require.NoError(t, ns.AddAddr("lo", netip.PrefixFrom(addr, addr.BitLen())))
		nstest.Serve(t, ns, netip.AddrPortFrom(addr, 80).String(), name)
	}
	return ns
}

// newNode makes a node that forwards, and a client of it. The main table leads to the gateway a.
func newNode(t *testing.T) (node, client *netns.NS) {
	node = nstest.New(t)
	require.NoError(t, node.SetSysctl("net/ipv4/ip_forward", "1"))
	require.NoError(t, node.SetSysctl("net/ipv6/conf/all/forwarding", "1"))
	gateway(t, node, "a", "10.0.0.1/24", "2001:db8:a::1/64")
	ip(t, node, "route add 10.20.0.0/16 via 10.0.0.2")
	ip(t, node, "route add 2001:db8:20::/48 via 2001:db8:a::2")
	return node, nstest.NewPeer(t, node, "client", "192.0.2.1/24", "2001:db8:c::1/64")
}

// start starts the program in the namespace, and returns a function that ends it.
func start(t *testing.T, node *netns.NS, log nstest.Log, args ...string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, args, node.FD(), log) }()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// Packets use the given gateways while the program runs, also if other processes delete routes.
func TestPacketsGoByTheGateway(t *testing.T) {
	node, client := newNode(t)
	gateway(t, node, "b", "10.0.1.1/24", "2001:db8:b::1/64")
	all := []string{"10.20.0.1:80", "[2001:db8:20::1]:80"}
	led := func(to string) bool {
		return nstest.Answer(t, client, "tcp", all[0]) == to && nstest.Answer(t, client, "tcp", all[1]) == to
	}
	require.True(t, led("a"))
	ip(t, node, "route add 10.99.0.0/16 via 10.0.0.2 table 100 proto 50")
	ip(t, node, "route add 10.98.0.0/16 via 10.0.0.2 table 100 proto 230") // of an earlier run
	before := ip(t, node, "route show table main") + ip(t, node, "-6 route show table main")

	log := nstest.NewLog()
	stop := start(t, node, log, "10.20.0.0/16=10.0.1.2", "2001:db8:20::/48=2001:db8:b::2")
	log.Wait(t, "all objects are programmed")
	require.True(t, led("b"))
	table := ip(t, node, "route show table 100")
	require.Contains(t, table, "10.99.0.0/16", "the route of another process stays")
	require.NotContains(t, table, "10.98.0.0/16", "a route of an earlier run goes")
	for command, object := range map[string]string{
		"route del 10.20.0.0/16 table 100":        "route 10.20.0.0/16",
		"-6 route del 2001:db8:20::/48 table 100": "route 2001:db8:20::/48",
		"rule del pref 100":                       "rule from all to 10.20.0.0/16",
		"-6 rule del pref 100":                    "rule from all to 2001:db8:20::/48",
	} {
		ip(t, node, command)
		require.Eventually(t, func() bool { return led("b") }, 20*time.Second, 10*time.Millisecond, command)
		require.Contains(t, log.Wait(t, "repaired an object"), object, command)
	}

	stop()
	require.True(t, led("a"), "no route and no rule is left")
	require.NotContains(t, ip(t, node, "route show table 100"), "10.20.0.0/16")
	require.Contains(t, ip(t, node, "route show table 100"), "10.99.0.0/16")
	require.NotContains(t, ip(t, node, "rule")+ip(t, node, "-6 rule"), "100:")
	require.Equal(t, before, ip(t, node, "route show table main")+ip(t, node, "-6 route show table main"))
}

// A route whose interface does not exist is reported, and follows with the interface.
func TestInterfaceComesLater(t *testing.T) {
	node, client := newNode(t)
	log := nstest.NewLog()
	stop := start(t, node, log, "--table=101", "--priority=7", "10.20.0.0/16=10.0.1.2", "10.0.0.0/24=10.0.0.2")
	line := log.Wait(t, "level=ERROR")
	require.Contains(t, line, "10.20.0.0/16")
	require.NotContains(t, line, "10.0.0.0/24", "it is in the kernel")
	require.Equal(t, "a", nstest.Answer(t, client, "tcp", "10.20.0.1:80"))
	gateway(t, node, "b", "10.0.1.1/24", "2001:db8:b::1/64")
	log.Wait(t, "all objects are programmed")
	require.Equal(t, "b", nstest.Answer(t, client, "tcp", "10.20.0.1:80"))
	require.Contains(t, ip(t, node, "rule"), "7:")
	stop()
}

func TestUsage(t *testing.T) {
	log := nstest.NewLog()
	require.ErrorIs(t, run(t.Context(), []string{"--help"}, 0, log), flag.ErrHelp)
	log.Wait(t, "usage: ownroutes")
	for args, want := range map[string]string{
		"":                                   "no routes",
		"10.0.0.0/8":                         `route "10.0.0.0/8"`,
		"10.0.0.0=10.0.0.1":                  `route "10.0.0.0=10.0.0.1"`,
		"10.0.0.0/8=::1":                     "other IP version",
		"--table=255 10.0.0.0/8=::1":         "other IP version",
		"--protocol=256 10.0.0.0/8=10.0.0.1": "protocol 256, table 100",
		"--protocol=4 10.0.0.0/8=10.0.0.1":   "4",
		"--table=255 10.0.0.0/8=10.0.0.1":    "255",
	} {
		require.ErrorContains(t, run(t.Context(), strings.Fields(args), 0, log), want, args)
	}
	link := []string{"2001:db8::/32=fe80::1%eth0"}
	objects, err := parse(link, 100, 100)
	require.NoError(t, err)
	require.Equal(t, "2001:db8::/32 via fe80::1 dev eth0", objects[0].String())
}
