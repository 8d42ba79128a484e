// SPDX-License-Identifier: Apache-2.0

package late

import (
	"strconv"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// Late packets of a connection are dropped for as long as the kernel would have kept the conntrack
// entry. But the period is at least MinPeriod and at most MaxPeriod. MinPeriod is the kernel's
// timeout of UDP without a reply (nf_conntrack_udp_timeout). MaxPeriod is the kernel's timeout for
// unknown protocols (nf_conntrack_generic_timeout).
const (
	MinPeriod = 30 * time.Second
	MaxPeriod = 10 * time.Minute
)

// priority is after connection tracking (NF_IP_PRI_CONNTRACK, -200) and before destination NAT
// (-100). There, packets have the addresses and ports of their tuple.
const priority = -150

// protocolDCCP has ports, but policy cannot match them (RFC 4340).
const protocolDCCP policy.Protocol = 33

// Config configures a Table.
type Config struct {
	// NetNS is a file descriptor of the network namespace, needed only during New. Zero means the
	// namespace of the calling thread.
	NetNS int
	// PolicyTable is the name of the table with the policy. The table for late packets is
	// PolicyTable + "-ended".
	PolicyTable string
}

// tableName returns the name of the table for late packets.
func tableName(table string) string { return table + "-ended" }

// setName returns the name of the set for tuples of a family, with or without ports.
func setName(f sets.Family, ports bool) string {
	name := "replies"
	if !ports {
		name = "portless"
	}
	return name + strconv.Itoa(int(f))
}

// hasPorts reports whether the first four bytes of the transport header are the ports of a tuple.
// For the rarer protocols, it depends on the kernel's configuration whether conntrack knows the
// ports.
func hasPorts(t conntrack.Tuple) bool {
	switch policy.Protocol(t.Protocol) {
	case policy.ProtocolUDP:
		return true
	case policy.ProtocolUDPLite, policy.ProtocolSCTP, protocolDCCP:
		return t.Source.Port() != 0 || t.Destination.Port() != 0
	}
	return false
}

// startsFlow reports whether a late packet of the flow could begin another flow.
func startsFlow(f *conntrack.Flow) bool {
	switch policy.Protocol(f.Protocol()) {
	case policy.ProtocolTCP, policy.ProtocolICMP, policy.ProtocolICMPv6:
		return false
	}
	return true
}

// tuples returns the tuples of packets that could begin a new flow.
func tuples(f *conntrack.Flow) []conntrack.Tuple {
	if f.Status&conntrack.StatusExpected != 0 { // the server may have begun it
		return []conntrack.Tuple{f.Reply, f.Original}
	}
	return []conntrack.Tuple{f.Reply}
}

// element returns the element of a tuple, and the name of its set.
func element(t conntrack.Tuple, timeout time.Duration) (set string, e ruleset.Element) {
	e = ruleset.Element{Timeout: min(max(timeout, MinPeriod), MaxPeriod), Key: []ruleset.Value{
		ruleset.Addr(t.Source.Addr()), ruleset.Addr(t.Destination.Addr()), ruleset.Byte(t.Protocol),
	}}
	ports := hasPorts(t)
	if ports {
		e.Key = append(e.Key, ruleset.Port(t.Source.Port()), ruleset.Port(t.Destination.Port()))
	}
	return setName(sets.FamilyOf(t.Source.Addr()), ports), e
}

// Rules returns the table for late packets, with empty sets. Its name is made from the name of the
// policy table, which is the parameter.
func Rules(policyTable string) *ruleset.Table {
	const replies = "replies"
	t := &ruleset.Table{Name: tableName(policyTable)}
	look := &ruleset.Chain{Name: replies}
	for _, f := range sets.Families() {
		fields := []ruleset.Field{ruleset.IPSaddr, ruleset.IPDaddr}
		if f == sets.IPv6 {
			fields = []ruleset.Field{ruleset.IP6Saddr, ruleset.IP6Daddr}
		}
		key := []ruleset.Type{sets.AddrType(f), sets.AddrType(f), ruleset.TypeProto}
		fields = append(fields, ruleset.L4Proto)
		add := func(ports bool, fields []ruleset.Field, key []ruleset.Type) {
			set := setName(f, ports)
			t.Sets = append(t.Sets, &ruleset.Set{Name: set, Key: key, Timeout: MinPeriod})
			look.Rules = append(look.Rules, ruleset.Rule{
				Matches:    []ruleset.Match{match.OfFamily(f), build.InSet(set, fields...)},
				Statements: []ruleset.Statement{ruleset.Counter{}, build.Drop()},
				Comment:    "late packet of an ended connection",
			})
		}
		add(false, fields, key)
		add(true, append(fields[:3:3], ruleset.Sport, ruleset.Dport),
			append(key[:3:3], ruleset.TypeService, ruleset.TypeService))
	}
	t.Chains = append(t.Chains, look)
	for _, c := range []struct {
		name  string
		point ruleset.HookPoint
	}{{"prerouting", ruleset.Prerouting}, {"output", ruleset.Output}} {
		t.Chains = append(t.Chains, &ruleset.Chain{
			Name:  c.name,
			Hook:  &ruleset.Hook{Point: c.point, Priority: priority, Policy: build.Accept()},
			Rules: []ruleset.Rule{build.When(build.Goto(replies), build.State(ruleset.CtNew))},
		})
	}
	return t
}
