// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

// op is a kind of change, in the order in which they are made: removals first, and nothing is
// sent to a workload before its interface is as it should be and its neighbour entry is there.
type op uint8

const (
	deleteRoute op = iota
	deleteNeighbour
	setSysctl
	addNeighbour
	addRoute
)

// String says what is done, for errors.
func (o op) String() string {
	return [...]string{"delete route", "delete neighbour", "set sysctl", "add neighbour", "add route"}[o]
}

// change is one change to the kernel's state.
type change struct {
	op  op
	key policy.Key // of the endpoint to blame if it fails; zero for none
	dev string     // name of the interface

	prefix    netip.Prefix // of all but sysctls
	route     rtnl.Route
	neighbour rtnl.Neighbour

	path, value string // of a sysctl, below /proc/sys
}

func compareChanges(a, b change) int {
	return cmp.Or(
		cmp.Compare(a.op, b.op),
		comparePrefixes(a.prefix, b.prefix),
		strings.Compare(a.path, b.path),
		a.key.Compare(b.key),
		cmp.Compare(a.route.Index, b.route.Index),
		cmp.Compare(a.neighbour.Index, b.neighbour.Index),
		cmp.Compare(a.route.Metric, b.route.Metric),
		cmp.Compare(a.route.TOS, b.route.TOS),
	)
}

// comparePrefixes orders IPv4 first.
func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// String returns the change as a command line of ip or sysctl.
func (c change) String() string {
	six := ""
	if c.prefix.Addr().Is6() {
		six = "-6 "
	}
	dev := ""
	if c.dev != "" {
		dev = " dev " + c.dev
	}
	switch n := c.neighbour; c.op {
	case setSysctl:
		return "sysctl -w " + c.path + "=" + c.value
	case addNeighbour:
		return fmt.Sprintf("ip %sneigh replace %s lladdr %s%s nud permanent protocol %d",
			six, n.Addr, net.HardwareAddr(n.MAC[:]), dev, n.Protocol)
	case deleteNeighbour:
		return fmt.Sprintf("ip %sneigh del %s%s", six, n.Addr, dev)
	case addRoute:
		return "ip " + six + "route add " + routeText(c.route, dev)
	default:
		return "ip " + six + "route del " + routeText(c.route, dev)
	}
}

// The kernel's numbers for routes that lead nowhere.
const (
	typeBlackhole   = 6
	typeUnreachable = 7
	typeProhibit    = 8
	typeThrow       = 9
)

// routeText names a route as ip does.
func routeText(r rtnl.Route, dev string) string {
	var b strings.Builder
	switch r.Type { // ours are unicast; others may be there to be removed
	case typeBlackhole:
		b.WriteString("blackhole ")
	case typeUnreachable:
		b.WriteString("unreachable ")
	case typeProhibit:
		b.WriteString("prohibit ")
	case typeThrow:
		b.WriteString("throw ")
	}
	b.WriteString(r.Dst.String())
	if r.Gateway.IsValid() {
		fmt.Fprintf(&b, " via %s", r.Gateway)
	}
	b.WriteString(dev)
	if r.Scope == rtnl.ScopeLink {
		b.WriteString(" scope link")
	}
	fmt.Fprintf(&b, " proto %d", r.Protocol)
	if r.Metric != 0 {
		fmt.Fprintf(&b, " metric %d", r.Metric)
	}
	if r.TOS != 0 {
		fmt.Fprintf(&b, " tos 0x%02x", r.TOS)
	}
	fmt.Fprintf(&b, " table %d", r.Table)
	return b.String()
}
