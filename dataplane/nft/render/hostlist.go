// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// hostList is one of the lists of policies that a host endpoint has.
type hostList uint8

const (
	hostIn hostList = iota
	hostOut
	hostForwardIn
	hostForwardOut
	hostRawIn
	hostRawOut
	hostPreDNAT
	// hostRawOutDNAT is hostRawOut for packets whose destination was translated: the outgoing interface
	// is known only after routing.
	hostRawOutDNAT
	hostListCount
)

func hostLists() []hostList {
	return []hostList{
		hostIn, hostOut, hostForwardIn, hostForwardOut, hostRawIn, hostRawOut, hostPreDNAT, hostRawOutDNAT,
	}
}

// HostChains returns the names of the chains for the lists of host endpoints, and which of them has
// the untracked policy of outgoing packets.
func HostChains() (all []string, untrackedOut string) {
	for _, l := range hostLists() {
		all = append(all, l.name())
	}
	return all, hostRawOut.name()
}

// name is the name of the chain that leads to the host endpoints' chains for the list, whose names begin
// with it.
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

// early reports whether policy of the list does not decide about packets that match no rule. Such
// policy has base chains of its own.
func (l hostList) early() bool { return l >= hostRawIn }

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

// tracked returns the name of the chain that takes the place of chain for packets of the host's
// interfaces, if there is untracked policy: it tests first whether that allowed the packet. It exists
// for pre-DNAT policy and for forwarded traffic, where chain is for interfaces of workloads, too.
func (l hostList) tracked(s *subject) string { return sets.KeyName("tracked-"+l.name(), s.key) }

// recheck returns the name of the chain that tests whether untracked or pre-DNAT policy allowed a
// packet.
func (l hostList) recheck(s *subject) string { return sets.KeyName("recheck-"+l.name(), s.key) }

// entry returns the chain that packets of an interface of the host go to. It always records a decision.
func (l hostList) entry(s *subject) string {
	if (l == hostPreDNAT || l == hostForwardIn) && s.governed[hostRawIn] {
		return l.tracked(s)
	}
	return l.chain(s)
}

// earlyBase returns the base chain of an early list, without its rules. Two base chains of one hook need
// priorities apart: the record of a stale packet must reach the chain with -again.
func (l hostList) earlyBase() basePolicy {
	p := basePolicy{verdict: chainVerdictUntracked, untracked: true, priority: priorityRaw, again: priorityRaw + 1}
	switch l {
	case hostRawIn:
		p.name, p.point = "untracked-in", ruleset.Prerouting
	case hostRawOut:
		p.name, p.point = "untracked-out", ruleset.Output
	case hostRawOutDNAT: // Tracking has begun: such packets are only denied.
		p.name, p.point, p.verdict, p.untracked = "untracked-out-dnat", ruleset.Postrouting, "", false
	default:
		p = basePolicy{name: "pre-dnat", point: ruleset.Prerouting}
		p.priority, p.again = priorityPreDNAT, priorityPreDNAT+1
	}
	return p
}
