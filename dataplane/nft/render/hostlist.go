// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// hostList is one of a host endpoint's lists of policies.
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

// HostChains returns the names of the chains that jump to host endpoints, one for each list, and
// that of the list of untracked policy for outgoing packets.
func HostChains() (all []string, untrackedOut string) {
	for l := range hostListCount {
		all = append(all, l.name())
	}
	return all, hostRawOut.name()
}

// name returns the name of the chain that jumps to the host endpoints' chains for the list. Their
// names begin with it.
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

// partial reports whether the list is of untracked or pre-DNAT policy. It leaves packets that no
// rule matches to later stages, and has base chains of its own.
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

// tracked returns the name of the chain that tests first whether untracked policy allowed the
// packet, and then has the rules of chain. The host's interfaces use it if there is untracked
// policy. It exists for pre-DNAT policy and for forwarded packets: there, workloads' interfaces use
// chain.
func (l hostList) tracked(s *subject) string { return sets.KeyName("tracked-"+l.name(), s.key) }

// recheck returns the name of the chain that tests whether untracked or pre-DNAT policy allowed a
// packet.
func (l hostList) recheck(s *subject) string { return sets.KeyName("recheck-"+l.name(), s.key) }

// entry returns the name of the chain for packets of an interface of the host.
func (l hostList) entry(s *subject) string {
	if (l == hostPreDNAT || l == hostForwardIn) && s.enforced[hostRawIn] {
		return l.tracked(s)
	}
	return l.chain(s)
}

// partialBase returns the base chain of a partial list, without its rules. The -again chain must be
// the next one in the hook: another base chain in between would overwrite the record of a stale
// packet.
func (l hostList) partialBase() basePolicy {
	p := basePolicy{
		verdict: chainVerdictUntracked, untracked: true, priority: priorityRaw, againPriority: priorityRaw + 1,
	}
	switch l {
	case hostRawIn:
		p.name, p.point = "untracked-in", ruleset.Prerouting
	case hostRawOut:
		p.name, p.point = "untracked-out", ruleset.Output
	case hostRawOutDNAT: // such packets are already tracked, so policy only denies them
		p.name, p.point, p.verdict, p.untracked = "untracked-out-dnat", ruleset.Postrouting, "", false
	default:
		p = basePolicy{name: "pre-dnat", point: ruleset.Prerouting}
		p.priority, p.againPriority = priorityPreDNAT, priorityPreDNAT+1
	}
	return p
}
