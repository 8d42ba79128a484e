// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// hostList is one of a host endpoint's lists of policies: those for one kind of traffic (normal,
// forwarded, untracked or pre-DNAT) in one direction.
type hostList uint8

const (
	hostIn hostList = iota
	hostOut
	hostForwardIn
	hostForwardOut
	hostRawIn
	hostRawOut
	hostPreDNAT
	// hostRawOutDNAT is hostRawOut for packets whose destination was translated: their outgoing
	// interface is known only after routing.
	hostRawOutDNAT
	hostListCount
)

// HostChains returns the names of the chains that jump to the chains of host endpoints. There is
// one such chain for each kind of traffic and direction, for example host-in and host-forward-in.
// The first result has all these names. The second one, untrackedOut, is also in the first: it is
// the chain for untracked policy of outgoing packets.
func HostChains() (all []string, untrackedOut string) {
	for l := range hostListCount {
		all = append(all, l.name())
	}
	return all, hostRawOut.name()
}

// name returns the name of the chain that jumps to the host endpoints' chains for the list. The
// names of these chains begin with it.
func (l hostList) name() string {
	return [...]string{
		"host-in", "host-out", "host-forward-in", "host-forward-out", "host-raw-in", "host-raw-out", "host-prednat",
		"host-raw-out-dnat",
	}[l]
}

// out reports whether the list is for packets that leave by the interface.
func (l hostList) out() bool {
	return l == hostOut || l == hostForwardOut || l == hostRawOut || l == hostRawOutDNAT
}

// partial reports whether the list has untracked or pre-DNAT policy. Such a list has base chains of
// its own. If no rule of the list matches a packet, a later stage decides about the packet.
func (l hostList) partial() bool { return l >= hostRawIn }

// field returns the interface field that selects the host endpoint.
func (l hostList) field() ruleset.Field {
	if l.out() {
		return ruleset.OIFName
	}
	return ruleset.IIFName
}

// The chains that several host endpoints share.
const (
	chainHostReceives = "host-receives"
	chainHostSends    = "host-sends"
)

// chain returns the name of the chain for one list of a host endpoint.
func (l hostList) chain(s *subject) string { return sets.KeyName(l.name(), s.key) }

// tracked returns the name of a second chain for the list. Its first rules test whether untracked
// policy has allowed the packet. Then it has the same rules as the chain whose name the method
// chain returns. The second chain exists for pre-DNAT policy and for forwarded packets, if there is
// untracked policy. Packets of the host's own interfaces use it. Packets of workloads use the first
// chain.
func (l hostList) tracked(s *subject) string { return sets.KeyName("tracked-"+l.name(), s.key) }

// recheck returns the name of the chain that tests in a later stage whether untracked or pre-DNAT
// policy allowed a packet.
func (l hostList) recheck(s *subject) string { return sets.KeyName("recheck-"+l.name(), s.key) }

// entry returns the name of the chain to which packets of an interface of the host jump.
func (l hostList) entry(s *subject) string {
	if (l == hostPreDNAT || l == hostForwardIn) && s.enforced[hostRawIn] {
		return l.tracked(s)
	}
	return l.chain(s)
}

// partialBase returns the base chain of a partial list, without its rules. The chain that evaluates
// its stale packets must be the next base chain in the hook. The priority of such a packet records
// that the packet is stale. A chain with policy between the two would overwrite this priority.
func (l hostList) partialBase() basePolicy {
	p := basePolicy{
		verdict: chainVerdictUntracked, untracked: true, priority: priorityRaw, againPriority: priorityRaw + 1,
	}
	switch l {
	case hostRawIn:
		p.name, p.point = "untracked-in", ruleset.Prerouting
	case hostRawOut:
		p.name, p.point = "untracked-out", ruleset.Output
	case hostRawOutDNAT: // such packets are already tracked, so policy can only deny them
		p.name, p.point, p.verdict, p.untracked = "untracked-out-dnat", ruleset.Postrouting, "", false
	default:
		p = basePolicy{name: "pre-dnat", point: ruleset.Prerouting}
		p.priority, p.againPriority = priorityPreDNAT, priorityPreDNAT+1
	}
	return p
}
