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

// Config configures a Renderer. It is a plain value; whoever shares one must not change its lists.
type Config struct {
	// Table is the name of the nftables table, ours alone. Default "wayleave".
	Table string
	// InterfacePrefix is what the names of workload interfaces begin with: one that is no known
	// endpoint's drops, so it must not be how other interfaces are named ("wl" is how wireless ones are).
	// Endpoints may have other names; such an interface is only judged while its endpoint is known.
	// At most 14 bytes. Default "way".
	InterfacePrefix string
	// UnknownWorkloads is the action for packets of an interface with the InterfacePrefix and without an
	// endpoint. The default is HostDrop. HostAccept is for a node where another agent enforces policy at some
	// of these interfaces. Then only policy at the other end of a packet decides, and a workload may send and
	// receive anything from CNI ADD until it has an endpoint. Other actions are errors.
	UnknownWorkloads policy.HostAction
	// Bridges are the names of bridges whose ports are the interfaces of workloads. An endpoint whose
	// interface is a port of one is bridged. The hooks of IP see its packets with the interface of the
	// bridge. So a packet that enters or leaves by a bridge belongs to the endpoint that has its
	// source or destination address there, and drops if none has (S171), also if UnknownWorkloads
	// accepts. AllowedSources have no effect for a bridged endpoint. Two endpoints of one bridge with
	// the same address are both at fault.
	//
	// Such a bridge is for workloads alone: packets of a router or an uplink among its ports drop, but
	// without bridge-nf-call its frames to workloads pass without policy. The bridge's name must not
	// begin with InterfacePrefix. No host endpoint governs it, not even by its name. Policy applies to
	// frames between two ports only with net.bridge.bridge-nf-call-iptables and -ip6tables. None by
	// default: then an endpoint whose interface is a port of any master is at fault (S170).
	Bridges []string
	// EgressPriority is the priority of the base chains with normal policy, IngressPriority that of
	// the base chains that evaluate their stale packets. It must be the larger. Both must be
	// between -100 and 99: policy sees the destination after destination NAT (-100), and the source
	// before source NAT (100). Both zero means -10 and -9.
	EgressPriority, IngressPriority int
	// Host says how the host's own traffic is treated: failsafe ports, traffic between the host and
	// its workloads, tunnels that workloads open themselves, invalid packets. The zero value means
	// the defaults that policy.HostConfig tells.
	Host policy.HostConfig
	// AllowDHCP accepts packets from workloads to a DHCP server on the host: UDP from port 68 to 67
	// and, over IPv6, from 546 to 547. The source must be the unspecified address, one of the
	// workload's own, or a link-local one (S175): any of fe80::/10 except the host's on that
	// interface. By default policy decides, and drops sources that are not the workload's.
	AllowDHCP bool
	// DenyNeighbourDiscovery judges IPv6 neighbour discovery between the host and its neighbours
	// and workloads like anything else. By default it is let through, for without it there is no
	// traffic over IPv6.
	DenyNeighbourDiscovery bool
	// ReversePath drops what a workload sends from an address that the routes do not lead back to
	// its interface, besides what has a false source: also what AllowedSources would let through,
	// if no route leads back. By default the source address alone is looked at.
	ReversePath bool
	// TCPFromSYN drops TCP of workloads, in either direction, that begins a connection in the
	// middle: without a SYN. By default connection tracking may take up such a connection, as after
	// a restart that lost what it knew, and policy is asked about it like about a new one.
	TCPFromSYN bool
	// LogPrefix begins the kernel log line of a Log rule; the rule's id follows. At most 63 bytes. Default
	// "wayleave".
	LogPrefix string
	// LogRate is how many lines a second each Log rule may write, of which it may save up five
	// seconds' worth. Zero means 10; a negative number means any. With Classes, a rule stands in
	// each outcome that it is part of, and counts for itself in each.
	LogRate int
	// VerdictLog sends each packet that policy allows or denies to an nflog group.
	VerdictLog VerdictLog
	// Reject answers what policy denies with a TCP reset or, where it is not TCP, an ICMP error
	// "administratively prohibited". By default it is dropped in silence. What is dropped for
	// another reason than policy, or before NAT, never has an answer. Nor has what the host itself
	// sends: some of that is decided after routing, where the kernel can only drop.
	Reject bool
	// Counters counts packets and bytes of every rule of policy. A rule that decides has one counter,
	// in its chain allow/ID, deny/ID or pass/ID, for as long as it exists. A Log rule has one in each
	// chain that it is part of.
	Counters bool
	// NAT says how the addresses of pools and of workloads are translated.
	NAT NATConfig
	// Classes limits the size of lookups.
	Classes ClassesConfig
}

// ClassesConfig limits the size of lookups. Policy of workloads and host endpoints is written as
// lookups, so that the cost of a new flow does not depend on the number of rules. A group over a
// limit is written as chains of rules.
type ClassesConfig struct {
	// MaxPerGroup limits the cost of one group, MaxTotal that of all groups. A group over
	// MaxPerGroup is written as chains. So are the most expensive groups while the total is over
	// MaxTotal. Zero means 65,536 and 400,000, which keeps a node at about 64 MB with 250,000
	// addresses, besides what its rules would take as chains. ClassStats reports how near the
	// limits are.
	//
	// A group is the endpoints with the same policies and profiles in one direction. Untracked and
	// pre-DNAT policy has groups of its own: an endpoint is in up to five for untracked policy, and
	// in up to two for pre-DNAT policy.
	//
	// A cost of one is 55 to 110 bytes of kernel memory. A class costs one. An outcome costs two for
	// its element in a map; classes have different outcomes if different policies or peers select
	// them. The chain of an outcome costs four; 32 more, and one for each range, for a list of
	// ports; and four for each rule that logs, or matches more than addresses, protocol and
	// destination port. Outcomes of a group with equal rules share a chain, and equal rules of a
	// chain count once. With Counters or VerdictLog, rules with different ids are not equal. The
	// cost of the group's rules as chains is subtracted from that of its outcomes' chains, down to
	// zero. In the total, a chain, a policy, or an element of the maps of workloads that groups
	// share counts once.
	MaxPerGroup, MaxTotal int
	// Priorities are the nonzero packet priorities (skb->priority) that policy preserves. Policy
	// overwrites the priority, and any other becomes zero. At most 16, each once and below
	// 0x40000000. Nil means 1, 2, 4 and 6, which the kernel derives from the type of service
	// (rt_tos2priority).
	Priorities []uint32
	// TestHook is for tests only.
	TestHook testhook.Classes
}

// VerdictLog says whether verdicts are logged through nflog, so that each packet that a rule or the
// end of a tier decides about can be attributed. What is decided before policy is not logged: known
// and invalid connections, failsafe ports, and what is sent to an endpoint that is down or at
// fault. The prefix of the message is "allow " or "deny ", then the rule's id, or the reason in
// words where no rule decided. A rule that decides logs in its chain, see Config.Counters.
type VerdictLog struct {
	// Enabled turns it on.
	Enabled bool
	// Group is the nflog group, from 0.
	Group uint16
}

// NATConfig says how addresses are translated. Where another table translates a packet first, that
// counts. It is a plain value; whoever shares one must not change its lists.
type NATConfig struct {
	// Disabled leaves all translation to others: no NAT chain is made.
	Disabled bool
	// Source4 and Source6 are what pools with NATOutgoing are translated to. The zero Addr means
	// the address of the interface that the packet leaves by.
	Source4, Source6 netip.Addr
	// FirstPort and LastPort are the source ports to choose from, for TCP, UDP and SCTP. Both zero
	// leaves it to the kernel.
	FirstPort, LastPort uint16
	// Exclude are destinations that pools are not translated for, besides the pools themselves.
	Exclude []netip.Prefix
	// ExcludeNodes adds the addresses of the nodes to those.
	ExcludeNodes bool
}

// The limits of the texts in a Config, in bytes: what the kernel leaves room for.
const (
	maxInterfacePrefix = ruleset.IfnameSize - 2
	maxLogPrefix       = 63
	maxPriorities      = 16
)

// The priorities of others in the hooks of IP: between connection tracking and the kernel's usual NAT.
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
		errs = append(errs, fmt.Errorf("nft: renderer config: "+format, args...))
	}
	if !ruleset.ValidName(c.Table) {
		bad("Table %q is no name", c.Table)
	}
	if !ruleset.ValidIfname(c.InterfacePrefix) || len(c.InterfacePrefix) > maxInterfacePrefix ||
		sets.Clean(c.InterfacePrefix) != c.InterfacePrefix {
		bad("InterfacePrefix %q is no beginning of an interface name", c.InterfacePrefix)
	}
	if c.UnknownWorkloads != policy.HostDrop && c.UnknownWorkloads != policy.HostAccept {
		bad("UnknownWorkloads %q is not %s or %s", c.UnknownWorkloads, policy.HostDrop, policy.HostAccept)
	}
	for i, name := range c.Bridges {
		switch {
		case !ruleset.ValidIfname(name) || sets.Clean(name) != name || name == loopback:
			bad("Bridges: %q is no name of a bridge", name)
		case strings.HasPrefix(name, c.InterfacePrefix):
			bad("Bridges: %q begins with InterfacePrefix %q", name, c.InterfacePrefix)
		case slices.Contains(c.Bridges[:i], name):
			bad("Bridges: %q is there twice", name)
		}
	}
	if c.EgressPriority >= c.IngressPriority {
		bad("EgressPriority %d is not less than IngressPriority %d", c.EgressPriority, c.IngressPriority)
	}
	if c.EgressPriority <= priorityDstNAT || c.IngressPriority+1 >= prioritySrcNAT {
		bad("EgressPriority %d and IngressPriority %d are not between %d and %d",
			c.EgressPriority, c.IngressPriority, priorityDstNAT, prioritySrcNAT-1)
	}
	if err := c.Host.Validate(); err != nil {
		bad("Host: %w", err)
	}
	if len(c.LogPrefix) > maxLogPrefix || strings.ContainsFunc(c.LogPrefix, sets.NotQuotable) {
		bad(
			"LogPrefix %q: at most %d printable bytes, no quotation mark, backslash or dollar", c.LogPrefix,
			maxLogPrefix,
		)
	}
	if c.LogRate > math.MaxInt32/defaultLogSeconds {
		bad("LogRate %d is too much", c.LogRate)
	}
	if c.Classes.MaxPerGroup < 0 || c.Classes.MaxTotal < 0 {
		bad("Classes: MaxPerGroup %d and MaxTotal %d must not be negative", c.Classes.MaxPerGroup, c.Classes.MaxTotal)
	}
	p := slices.Sorted(slices.Values(c.Classes.Priorities))
	distinct := len(slices.Compact(slices.Clone(p)))
	if len(p) > maxPriorities || distinct < len(p) || slices.Contains(p, 0) ||
		len(p) > 0 && p[len(p)-1] >= priorityStale {
		bad(
			"Classes: Priorities %d: at most %d, each once, neither zero nor %#x or more", c.Classes.Priorities,
			maxPriorities, priorityStale,
		)
	}
	return errors.Join(append(errs, c.NAT.validate()...)...)
}

func (c NATConfig) validate() (errs []error) {
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("nft: renderer config: NAT: "+format, args...))
	}
	if c.Source4.IsValid() && !c.Source4.Is4() {
		bad("Source4 %s is no IPv4 address", c.Source4)
	}
	if a := c.Source6; a.IsValid() && (!a.Is6() || a.Is4In6() || a.Zone() != "") {
		bad("Source6 %s is no IPv6 address", a)
	}
	if c.FirstPort > c.LastPort || c.FirstPort == 0 && c.LastPort != 0 {
		bad("FirstPort %d and LastPort %d are no range", c.FirstPort, c.LastPort)
	}
	for _, p := range c.Exclude {
		if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
			bad("Exclude %s is no prefix, or has host bits", p)
		}
	}
	return errs
}
