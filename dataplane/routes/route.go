// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// Class is the precedence of a desired route among the desired routes with the same destination,
// metric and table. The kernel gets only one of these routes: the one whose class comes first in
// the order below. When that route is deleted, the next one takes its place.
type Class int8

// The classes, in order. The zero Class is ClassOther.
const (
	// ClassLocalWorkload leads to a workload of this node.
	ClassLocalWorkload Class = iota - 3
	// ClassDirect leads to another node in this node's own subnet.
	ClassDirect
	// ClassTunnel leads through a tunnel.
	ClassTunnel
	// ClassOther is anything else.
	ClassOther
	// ClassDrop drops packets to those addresses of this node's blocks that no workload has.
	ClassDrop
)

// Type decides what the kernel does with packets that match a route.
type Type uint8

// The types of routes.
const (
	// Unicast forwards the packets.
	Unicast Type = iota
	// Blackhole drops the packets silently.
	Blackhole
	// Unreachable rejects the packets with the ICMP error "destination unreachable".
	Unreachable
	// Throw ends the lookup in this table as if it had no matching route: the kernel continues at
	// the next rule.
	Throw
)

// typeNumbers has the kernel's number of each Type.
var typeNumbers = [...]uint8{
	Unicast: rtnl.TypeUnicast, Blackhole: rtnl.TypeBlackhole, Unreachable: rtnl.TypeUnreachable,
	Throw: rtnl.TypeThrow,
}

// Route is a desired route. Its identity consists of Dst, Table, Metric and Class. The kernel has
// only one route for each Dst, Table and Metric: see Class. A Route is comparable.
type Route struct {
	// Dst is the destination. Host bits do not count.
	Dst netip.Prefix
	// Class decides which of the desired routes with the same Dst, Table and Metric is programmed.
	Class Class
	// Type decides what the kernel does with packets to Dst.
	Type Type
	// Table is the routing table, one of KeeperConfig.Tables. 0 means the first of them.
	Table uint32
	// Metric is the kernel's preference; a smaller number comes first. If it is 0, the kernel uses
	// its default: metric 0 for IPv4, and 1024 for IPv6.
	Metric uint32
	// Interface is the name of the interface by which packets leave. If the name is empty and
	// Gateway is set, packets leave by the interface whose subnet contains the gateway. The name
	// must be empty for types other than Unicast.
	Interface string
	// Gateway is the next hop. The zero Addr means that the destination itself is on the link.
	Gateway netip.Addr
	// OnLink means that Gateway can be reached over Interface, even if the interface has no address
	// in the gateway's subnet.
	OnLink bool
	// Source is the source address of packets that the host itself sends. The zero Addr means that
	// the kernel chooses one.
	Source netip.Addr
	// MTU of the path, in bytes. 0 means the MTU of the interface.
	MTU int
}

// String returns the route in the syntax of ip: "10.0.0.1/32 dev cali1 table 254".
func (r Route) String() string { return r.text("", "", "") }

// text returns the route in the syntax of ip, with options for which a Route has no field.
func (r Route) text(scope, protocol, tos string) string {
	var b strings.Builder
	if r.Type != Unicast {
		b.WriteString(r.Type.String() + " ")
	}
	b.WriteString(r.Dst.String())
	if r.Gateway.IsValid() {
		fmt.Fprintf(&b, " via %s", r.Gateway)
	}
	if r.Interface != "" {
		b.WriteString(" dev " + r.Interface)
	}
	if r.OnLink {
		b.WriteString(" onlink")
	}
	b.WriteString(scope)
	if r.Source.IsValid() {
		fmt.Fprintf(&b, " src %s", r.Source)
	}
	b.WriteString(protocol)
	if r.Metric != 0 {
		fmt.Fprintf(&b, " metric %d", r.Metric)
	}
	b.WriteString(tos)
	if r.MTU != 0 {
		fmt.Fprintf(&b, " mtu %d", r.MTU)
	}
	if r.Table != 0 {
		fmt.Fprintf(&b, " table %d", r.Table)
	}
	return b.String()
}

// String returns the type as ip names it.
func (t Type) String() string {
	if int(t) >= len(typeNumbers) {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return [...]string{"unicast", "blackhole", "unreachable", "throw"}[t]
}

// validate returns an error for a route that the kernel cannot have. For a valid route it allocates
// no memory.
func (r *Route) validate() error {
	six := r.Dst.Addr().Is6()
	hasNextHop := r.Interface != "" || r.Gateway.IsValid()
	wrong := ""
	switch {
	case !r.Dst.IsValid():
		wrong = "no destination"
	case int(r.Type) >= len(typeNumbers):
		wrong = "unknown type"
	case hasNextHop && r.Type != Unicast:
		wrong = "an interface or a gateway with a type other than unicast"
	case !hasNextHop && r.Type == Unicast:
		wrong = "neither an interface nor a gateway"
	case r.Gateway.IsValid() && r.Gateway.Is6() != six:
		wrong = "gateway is of the other family"
	case r.OnLink && r.Interface == "":
		wrong = "onlink without an interface"
	case r.Source.IsValid() && r.Source.Is6() != six:
		wrong = "source is of the other family"
	case r.MTU < 0 || r.MTU > maxMTU:
		wrong = "MTU is out of range"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrObject, wrong)
}

// The smallest and the largest MTU that the kernel accepts: ETH_MIN_MTU and ETH_MAX_MTU.
const (
	minMTU = 68
	maxMTU = 65535
)

// routeKey is the identity of a route in the kernel. The kernel's identity also has the type of
// service, which is zero in all our routes.
type routeKey struct {
	dst           netip.Prefix
	table, metric uint32
}

func (k routeKey) compare(o routeKey) int {
	return cmp.Or(
		dataplane.ComparePrefixes(k.dst, o.dst), cmp.Compare(k.table, o.table), cmp.Compare(k.metric, o.metric))
}

// canonicalise fills in all defaults, as the kernel lists them.
func (r *Route) canonicalise(table uint32) {
	if a := r.Dst.Addr(); a.Is4In6() && r.Dst.Bits() >= 96 {
		r.Dst = netip.PrefixFrom(a.Unmap(), r.Dst.Bits()-96)
	}
	r.Dst = r.Dst.Masked()
	r.Gateway, r.Source = plainAddr(r.Gateway), plainAddr(r.Source)
	r.Table = cmp.Or(r.Table, table)
	if r.Metric == 0 && r.Dst.Addr().Is6() {
		r.Metric = rtnl.DefaultMetric6
	}
}

// plainAddr returns an address as the kernel lists it: without a zone, because the route or entry
// has the interface.
func plainAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func (r *Route) key() routeKey { return routeKey{r.Dst, r.Table, r.Metric} }

// base sets out to the route as the kernel would list it, without the interface.
func (r *Route) base(protocol uint8, out *rtnl.Route) {
	*out = rtnl.Route{
		Dst: r.Dst, Table: r.Table, Metric: r.Metric, Protocol: protocol, Type: typeNumbers[r.Type],
		Source: r.Source, MTU: uint32(r.MTU), Gateway: r.Gateway, OnLink: r.OnLink,
	}
	if r.Type == Unicast && r.Dst.Addr().Is4() && !r.Gateway.IsValid() {
		out.Scope = rtnl.ScopeLink
	}
}

// kernel sets out to the route as the kernel would list it. Errors: ErrNoInterface,
// ErrInterfaceDown, errPort.
func (r *Route) kernel(protocol uint8, l *links, out *rtnl.Route) (err error) {
	r.base(protocol, out)
	if r.Type == Unicast {
		out.Index, err = l.outInterface(r.Interface, r.Gateway)
	}
	return err
}

// outInterface returns the index of the interface with the name. If the name is empty, it returns
// the index of the interface whose subnet contains the gateway.
func (l *links) outInterface(name string, gateway netip.Addr) (int, error) {
	if name != "" {
		link, err := l.usable(name)
		return link.Index, err
	}
	link, ok := l.towards(gateway)
	if !ok {
		return 0, fmt.Errorf("%w: none in the subnet of %s", ErrNoInterface, gateway)
	}
	return link.Index, nil
}

// usable returns an interface that can have routes. Errors: ErrNoInterface, ErrInterfaceDown,
// errPort.
func (l *links) usable(name string) (rtnl.Link, error) {
	link, exists := l.named(name)
	switch {
	case !exists:
		return link, fmt.Errorf("%w: %s", ErrNoInterface, name)
	case l.port(&link):
		return link, errPort
	case !link.Up:
		return link, fmt.Errorf("%w: %s", ErrInterfaceDown, name)
	}
	return link, nil
}
