// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// Object is an object that a Keeper keeps in the kernel: a Route, Neighbour, Proxy, FDB, Rule or
// Setting, or a tunnel device: VXLAN, IPIP or Wireguard. There are no other kinds. Do not change an
// object after you have passed it to Set. All objects except devices can be compared with ==.
// String returns an object in the syntax of ip or sysctl, without the name of the command.
type Object interface {
	fmt.Stringer
	// kind is the name of the kind in errors.
	kind() string
}

// Describe returns the kind of an object and its text, as in "route 10.1.0.0/24 dev eth0 table
// 254".
func Describe(o Object) string { return o.kind() + " " + o.String() }

var (
	_ Object = Route{}
	_ Object = Neighbour{}
	_ Object = Proxy{}
	_ Object = FDB{}
	_ Object = Rule{}
	_ Object = Setting{}
)

func (Route) kind() string     { return "route" }
func (Neighbour) kind() string { return "neighbour" }
func (Proxy) kind() string     { return "proxy entry" }
func (FDB) kind() string       { return "FDB entry" }
func (Rule) kind() string      { return "rule" }
func (Setting) kind() string   { return "sysctl" }

// MAC is a link-layer address of six bytes.
type MAC [6]byte

// String returns the usual form, as in "66:3e:ca:a4:db:65".
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// Neighbour is a permanent entry of the ARP or NDP table. Interface and Addr are its identity.
type Neighbour struct {
	// Addr is the address that the entry resolves.
	Addr netip.Addr
	// Interface is the name of the interface that the entry is on.
	Interface string
	// MAC is the link-layer address of Addr.
	MAC MAC
}

// String returns "10.0.0.1 lladdr 66:3e:ca:a4:db:65 dev cali1".
func (n Neighbour) String() string {
	return fmt.Sprintf("%s lladdr %s dev %s", n.Addr, n.MAC, n.Interface)
}

// Proxy makes the host answer ARP or NDP requests for an address on an interface. An example is a
// gateway address that no host has. The kernel answers only if IP forwarding is enabled on the
// interface. In addition, IPv4 needs a route to the address over another interface, and IPv6 needs
// the setting proxy_ndp of the interface. Two Proxies are the same if all fields are equal.
type Proxy struct {
	// Addr is the address for which the host answers.
	Addr netip.Addr
	// Interface is the name of the interface by which requests come in.
	Interface string
}

// String returns "proxy 169.254.1.1 dev cali1".
func (p Proxy) String() string { return fmt.Sprintf("proxy %s dev %s", p.Addr, p.Interface) }

// FDB is a permanent entry of the forwarding database of a VXLAN device. MAC and Interface are its
// identity.
type FDB struct {
	// MAC is the destination of the inner frames; not zero.
	MAC MAC
	// Dst is the address of the host that these frames are sent to.
	Dst netip.Addr
	// Interface is the name of the VXLAN device.
	Interface string
}

// String returns "66:3e:ca:a4:db:65 dev vxlan.way dst 192.0.2.7".
func (f FDB) String() string { return fmt.Sprintf("%s dev %s dst %s", f.MAC, f.Interface, f.Dst) }

// Rule is a rule of policy routing. If a packet matches, the kernel looks up its destination in
// Table, or continues with the rule whose priority is Goto. A Rule that has neither Table nor Goto
// does nothing (nop), and can be the target of another Rule's Goto. Two Rules are the same if all
// fields are equal.
type Rule struct {
	// Family is 4 or 6.
	Family int
	// Priority orders the rules; a smaller number comes first.
	Priority uint32
	// From and To are prefixes of source and destination. The zero Prefix matches any address.
	From, To netip.Prefix
	// UDPSourcePort limits the rule to UDP packets from this port. 0 means no limit.
	UDPSourcePort uint16
	// Local limits the rule to packets that the host itself sends. The kernel's lookups for
	// rp_filter match such a rule as well.
	Local bool
	// Table is the routing table to look up in. 0 means none.
	Table uint32
	// Goto is the priority of the rule with which the kernel continues. It must be larger than
	// Priority. If no rule has this priority, the kernel continues with the next rule. 0 means
	// none. Table and Goto exclude each other.
	Goto uint32
}

// String returns "from 10.0.0.0/8 lookup 100 priority 50".
func (r Rule) String() string {
	var b strings.Builder
	b.WriteString("from ")
	if r.From.IsValid() {
		b.WriteString(r.From.String())
	} else {
		b.WriteString("all")
	}
	if r.To.IsValid() {
		fmt.Fprintf(&b, " to %s", r.To)
	}
	if r.Local {
		b.WriteString(" iif lo")
	}
	if r.UDPSourcePort != 0 {
		fmt.Fprintf(&b, " ipproto udp sport %d", r.UDPSourcePort)
	}
	switch {
	case r.Table != 0:
		fmt.Fprintf(&b, " lookup %d", r.Table)
	case r.Goto != 0:
		fmt.Fprintf(&b, " goto %d", r.Goto)
	default:
		b.WriteString(" nop")
	}
	fmt.Fprintf(&b, " priority %d", r.Priority)
	return b.String()
}

// canonical returns the rule as the kernel lists it.
func (r Rule) canonical() Rule {
	r.From, r.To = canonicalMatch(r.From), canonicalMatch(r.To)
	return r
}

// canonicalMatch returns a prefix of a rule as the kernel lists it. The kernel lists no
// prefix of length 0.
func canonicalMatch(p netip.Prefix) netip.Prefix {
	switch {
	case !p.IsValid():
		return p // for validate
	case p.Bits() == 0:
		return netip.Prefix{}
	}
	return p.Masked()
}

func (r Rule) key(protocol uint8) ruleKey {
	r = r.canonical()
	action := uint8(rtnl.RuleNop)
	switch {
	case r.Table != 0:
		action = rtnl.RuleLookup
	case r.Goto != 0:
		action = rtnl.RuleGoto
	}
	return ruleKey{
		Family: r.Family, Priority: r.Priority, From: r.From, To: r.To, Table: r.Table, Goto: r.Goto,
		Action: action, Protocol: protocol, UDPSourcePort: r.UDPSourcePort, Local: r.Local,
	}
}

// Setting is a sysctl. Path is its identity.
type Setting struct {
	// Path is the file below /proc/sys, as in "net/ipv4/conf/cali1/rp_filter". It is separated by
	// slashes, because an interface's name may have dots.
	Path string
	// Value is the value, in the form in which the kernel prints it.
	Value string
	// Interface is the name of the interface for which the sysctl is needed. No route over this
	// interface is added until the sysctl is set. Empty means none.
	Interface string
}

// String returns "net/ipv4/conf/cali1/rp_filter=1".
func (s Setting) String() string { return s.Path + "=" + s.Value }
