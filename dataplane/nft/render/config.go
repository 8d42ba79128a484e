// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/internal/testhook"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// Config configures a Renderer. A Config that is in use must not change, including its lists.
type Config struct {
	// Table is the name of the nftables table. No other program may use it. Default "wayleave".
	Table string
	// InterfacePrefix is the beginning of the names of workload interfaces. At most 14 bytes.
	// Default "way". Packets of an interface that has the prefix but no endpoint are dropped (see
	// UnknownWorkloads). So other interfaces must not have the prefix. An endpoint may have an
	// interface without the prefix. When this endpoint is removed, its interface is treated as any
	// other interface of the host.
	InterfacePrefix string
	// UnknownWorkloads is the action for packets of an interface that has the InterfacePrefix but
	// no endpoint: HostDrop (the default) or HostAccept. Other actions are errors. Set HostAccept
	// only on a node where another agent enforces policy at some of these interfaces. With
	// HostAccept, only the policy of the other side decides about such a packet. This is also so
	// for a new workload, from CNI ADD until it has an endpoint.
	UnknownWorkloads policy.HostAction
	// Bridges are the names of bridges whose ports are interfaces of workloads. Default: none. An
	// endpoint whose interface is a port of any other master is at fault (S170).
	//
	// In the netfilter hooks of IPv4 and IPv6, the interface of a packet from or to such a port is
	// the bridge. So an address identifies the endpoint. For a packet that enters by the bridge,
	// this is the source address. For a packet that leaves by the bridge, this is the destination
	// address. If no endpoint has the address, the packet is dropped (S171), even if
	// UnknownWorkloads is HostAccept. If two endpoints of a bridge have the same address, both are
	// at fault. AllowedSources have no effect behind bridges.
	//
	// Use such a bridge only for workloads. If one of its ports leads to a router or is an uplink,
	// the table drops the packets of this port.
	//
	// Policy does not apply to frames that the bridge forwards from one of its ports to another,
	// unless net.bridge.bridge-nf-call-iptables and -ip6tables are set.
	//
	// The bridge's name must not begin with InterfacePrefix. Host endpoints do not apply to the
	// bridge, even if they name it.
	Bridges []string
	// EgressPriority is the priority of the base chains with normal policy. IngressPriority is the
	// priority of the base chains that evaluate stale packets: packets that were in a base chain
	// while the table changed. IngressPriority must be larger than EgressPriority. Both must be
	// between -100 and 99: after destination NAT (-100) and before source NAT (100). Both zero
	// means -10 and -9.
	EgressPriority, IngressPriority int
	// Host configures traffic of the host itself: failsafe ports, traffic between the host and its
	// workloads, tunnels that workloads open, and invalid packets. The zero value means the
	// defaults of policy.HostConfig.
	Host policy.HostConfig
	// AllowDHCP accepts packets from workloads to a DHCP server on the host: UDP from port 68 to 67
	// and, over IPv6, from 546 to 547. The source must be the unspecified address, one of the
	// workload's own addresses, or an IPv6 link-local address. The host must not have this
	// link-local address on the workload's interface (S175). By default, policy decides about these
	// packets, and a packet with a source that the workload may not use is dropped.
	AllowDHCP bool
	// DenyNeighbourDiscovery makes policy decide about IPv6 neighbour discovery between the host
	// and its neighbours or workloads. By default, neighbour discovery is always accepted, because
	// IPv6 does not work without it.
	DenyNeighbourDiscovery bool
	// ReversePath drops packets from a workload if the route to their source does not lead back to
	// the workload's interface. This also applies to sources that AllowedSources lists. By default,
	// the route does not matter, only whether the workload may send from the source.
	ReversePath bool
	// TCPFromSYN drops TCP packets of workloads, in both directions, that begin a connection
	// without a SYN. By default, connection tracking may pick up a connection in the middle, for
	// example after a restart that lost the table of connections. Policy then decides about the
	// packet as if it began a connection.
	TCPFromSYN bool
	// LogPrefix is the beginning of the kernel log lines of Log rules. The rule's id follows. At
	// most 63 bytes. Default "wayleave".
	LogPrefix string
	// LogRate is the maximum rate of lines of a Log rule, in lines per second. A burst may have up
	// to five times LogRate lines. Zero means 10; a negative number means no limit. A rule whose
	// policy is written as lookups (see ClassesConfig) may be in several chains. Each of these
	// chains has a limit of its own.
	LogRate int
	// VerdictLog sends a message to an nflog group for each packet that policy allows or denies.
	VerdictLog VerdictLog
	// Reject answers packets that policy denies: TCP with a reset, others with an ICMP error
	// "administratively prohibited". By default they are dropped without an answer. Three kinds of
	// packets never get an answer:
	//
	//   - packets that are dropped for a reason other than policy,
	//   - packets that are dropped before NAT,
	//   - packets from the host itself.
	Reject bool
	// Counters counts the packets and bytes of every rule of policy. A rule that decides has one
	// counter, in its chain allow/ID, deny/ID or pass/ID. The counter lasts as long as there is a
	// rule with this id. A Log rule has a counter in each chain that contains it.
	Counters bool
	// NAT configures the translation of addresses of pools and workloads.
	NAT NATConfig
	// Classes limits the cost of lookups, a measure of their kernel memory. By default, policy is
	// written as lookups: see ClassesConfig.
	Classes ClassesConfig
}

// ClassesConfig limits the cost of lookups. By default, policy of workloads and host endpoints is
// written as lookups: maps lead from an address to the few rules that match it. Policy whose
// lookups cost more than a limit is written as chains of rules.
//
// Three terms describe lookups:
//
//   - A class is a set of addresses: all addresses that are in the same IP sets and lists of
//     prefixes.
//   - A group is a set of endpoints: all endpoints with the same policies and profiles in one
//     direction. Untracked policy and pre-DNAT policy have separate groups, because the table
//     applies each of them at several places. An endpoint can be in up to five groups of untracked
//     policy, and in up to two groups of pre-DNAT policy.
//   - An outcome belongs to a group and a class. It consists of those rules of the group that match
//     addresses of the class. These rules are compiled to a short chain.
type ClassesConfig struct {
	// MaxPerGroup is the maximum cost of one group, and MaxTotal the maximum cost of all groups. A
	// group that costs more than MaxPerGroup is written as chains. While all groups together cost
	// more than MaxTotal, the most expensive groups are written as chains, too. Zero means the
	// defaults: 65,536 for MaxPerGroup and 400,000 for MaxTotal. ClassStats reports the cost. The
	// section Bounds of docs/nft.md has the memory of a table at the default limit.
	//
	// A cost of one is about 50 to 110 bytes of kernel memory:
	//
	//   - A class costs 1.
	//   - An outcome costs 2, for its element in a map. Classes of one family (IPv4 or IPv6) share
	//     an outcome of a group if the group's rules do not distinguish them. This means that each
	//     condition on addresses in these rules matches all of the classes, or none.
	//   - The chain of an outcome costs 4. Outcomes of a group with equal rules share a chain.
	//   - A list of ports in a chain costs 32, and 1 for each range.
	//   - A rule of a chain costs 4 if it logs, or matches more than addresses, protocol and
	//     destination port. Equal rules of a chain count once. With Counters or VerdictLog, rules
	//     with different ids are not equal.
	//
	// The rules of the group would have a cost as chains, too. This cost is subtracted from the sum
	// of the last three items. If the result is negative, it counts as zero.
	//
	// The total cost of all groups counts a chain or a map element once, even if several groups
	// share it. It also subtracts the rules of a policy only once.
	MaxPerGroup, MaxTotal int
	// Priorities are the nonzero packet priorities (skb->priority) that policy preserves. Policy
	// uses the priority of a packet while it decides. Afterwards it restores the priorities in this
	// list, and sets all others to zero. There may be at most 16 priorities, distinct and below
	// 0x40000000. Nil means 1, 2, 4 and 6, which the kernel derives from the type of service
	// (rt_tos2priority).
	Priorities []uint32
	// TestHook is for tests only.
	TestHook testhook.Classes
}

// VerdictLog configures the log of decisions through nflog. There is a message for each packet
// about which a rule or the end of a tier decides. The prefix of the message is "allow" or "deny",
// a space, and the id of the rule that decided. If no rule decided, the text has the reason instead
// of the id. With VerdictLog or Config.Counters, each rule that can decide has a chain of its own,
// such as allow/ID.
//
// There is no message for packets that are accepted or dropped before policy is evaluated:
//
//   - packets of established connections
//   - packets that connection tracking marks as invalid
//   - packets to failsafe ports
//   - packets of an endpoint that is down or at fault
type VerdictLog struct {
	// Enabled turns the log on.
	Enabled bool
	// Group is the nflog group, from 0.
	Group uint16
}

// NATConfig configures address translation. If another nftables table has already translated the
// source or destination of a packet, Wayleave's table does not change that translation. A NATConfig
// that is in use must not change, including its lists.
type NATConfig struct {
	// Disabled leaves all translation to other tables: the table has no NAT chains.
	Disabled bool
	// Source4 and Source6 are the new source addresses of packets from pools with NATOutgoing. The
	// zero Addr means the address of the interface by which the packet leaves.
	Source4, Source6 netip.Addr
	// FirstPort and LastPort limit the new source ports of TCP, UDP and SCTP. Both zero means that
	// the kernel chooses.
	FirstPort, LastPort uint16
	// Exclude lists prefixes that count as destinations in pools: packets to them get no source
	// NAT.
	Exclude []netip.Prefix
	// ExcludeNodes means that NATOutgoing does not translate packets to the addresses of nodes.
	// Unlike Exclude, it does not affect source NAT to a floating address.
	ExcludeNodes bool
}

// The limits of the texts and lists in a Config. The kernel limits the texts, in bytes.
const (
	maxInterfacePrefix = ruleset.IfnameSize - 2
	maxLogPrefix       = 63
	maxPriorities      = 16
)

// Priorities of base chains, and defaults of a Config.
const (
	priorityRaw       = -300
	priorityPreDNAT   = -150 // after connection tracking (-200), before destination NAT
	priorityDstNAT    = -100
	prioritySrcNAT    = 100
	defaultLogRate    = 10
	defaultLogSeconds = 5
)

func (c Config) withDefaults() Config {
	c.Table = cmp.Or(c.Table, "wayleave")
	c.InterfacePrefix = cmp.Or(c.InterfacePrefix, "way")
	c.UnknownWorkloads = cmp.Or(c.UnknownWorkloads, policy.HostDrop)
	c.LogPrefix = cmp.Or(c.LogPrefix, "wayleave")
	c.LogRate = cmp.Or(c.LogRate, defaultLogRate)
	c.Host = c.Host.WithDefaults()
	c.Classes.MaxPerGroup = cmp.Or(c.Classes.MaxPerGroup, 1<<16)
	if c.Classes.Priorities == nil {
		c.Classes.Priorities = []uint32{1, 2, 4, 6}
	}
	c.Classes.MaxTotal = cmp.Or(c.Classes.MaxTotal, 400_000)
	if c.EgressPriority == 0 && c.IngressPriority == 0 {
		c.EgressPriority, c.IngressPriority = -10, -9
	}
	return c
}

// eachRule reports whether each rule of policy counts or logs its decisions.
func (c *Config) eachRule() bool { return c.Counters || c.VerdictLog.Enabled }

func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("render: Config."+format, args...))
	}
	if !ruleset.ValidName(c.Table) {
		bad("Table: %q is not a name", c.Table)
	}
	if !ruleset.ValidIfname(c.InterfacePrefix) || len(c.InterfacePrefix) > maxInterfacePrefix ||
		sets.Clean(c.InterfacePrefix) != c.InterfacePrefix {
		bad("InterfacePrefix: %q cannot begin an interface name", c.InterfacePrefix)
	}
	if c.UnknownWorkloads != policy.HostDrop && c.UnknownWorkloads != policy.HostAccept {
		bad("UnknownWorkloads: %q is not %s or %s", c.UnknownWorkloads, policy.HostDrop, policy.HostAccept)
	}
	for i, name := range c.Bridges {
		switch {
		case !ruleset.ValidIfname(name) || sets.Clean(name) != name || name == loopback:
			bad("Bridges: %q is not a bridge name", name)
		case strings.HasPrefix(name, c.InterfacePrefix):
			bad("Bridges: %q begins with InterfacePrefix %q", name, c.InterfacePrefix)
		case slices.Contains(c.Bridges[:i], name):
			bad("Bridges: %q is duplicated", name)
		}
	}
	if c.EgressPriority >= c.IngressPriority {
		bad("EgressPriority: %d is not less than IngressPriority %d", c.EgressPriority, c.IngressPriority)
	}
	if c.EgressPriority <= priorityDstNAT || c.IngressPriority+1 >= prioritySrcNAT {
		bad("EgressPriority and IngressPriority: %d and %d are not between %d and %d",
			c.EgressPriority, c.IngressPriority, priorityDstNAT, prioritySrcNAT-1)
	}
	if err := c.Host.Validate(); err != nil {
		bad("Host: %w", err)
	}
	if len(c.LogPrefix) > maxLogPrefix || strings.ContainsFunc(c.LogPrefix, sets.NotQuotable) {
		bad(
			"LogPrefix: %q: at most %d printable bytes, no quotation mark, backslash or dollar", c.LogPrefix,
			maxLogPrefix,
		)
	}
	if c.LogRate > math.MaxInt32/defaultLogSeconds {
		bad("LogRate: %d is too much", c.LogRate)
	}
	if c.Classes.MaxPerGroup < 0 || c.Classes.MaxTotal < 0 {
		bad("Classes.MaxPerGroup and MaxTotal: %d and %d must not be negative", c.Classes.MaxPerGroup,
			c.Classes.MaxTotal)
	}
	p := slices.Sorted(slices.Values(c.Classes.Priorities))
	distinct := len(slices.Compact(slices.Clone(p)))
	if len(p) > maxPriorities || distinct < len(p) || slices.Contains(p, 0) ||
		len(p) > 0 && p[len(p)-1] >= priorityStale {
		bad(
			"Classes.Priorities: %d: at most %d, each once, neither zero nor %#x or more", c.Classes.Priorities,
			maxPriorities, priorityStale,
		)
	}
	return errors.Join(append(errs, c.NAT.validate()...)...)
}

func (c NATConfig) validate() (errs []error) {
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("render: Config.NAT."+format, args...))
	}
	if c.Source4.IsValid() && !c.Source4.Is4() {
		bad("Source4: %s is not an IPv4 address", c.Source4)
	}
	if a := c.Source6; a.IsValid() && (!a.Is6() || a.Is4In6() || a.Zone() != "") {
		bad("Source6: %s is not an IPv6 address", a)
	}
	if c.FirstPort > c.LastPort || c.FirstPort == 0 && c.LastPort != 0 {
		bad("FirstPort and LastPort: %d and %d are not a range", c.FirstPort, c.LastPort)
	}
	for _, p := range c.Exclude {
		if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
			bad("Exclude: %s is not a prefix, or has host bits", p)
		}
	}
	return errs
}
