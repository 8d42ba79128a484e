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
)

func hostLists() []hostList {
	return []hostList{
		hostIn, hostOut, hostForwardIn, hostForwardOut, hostRawIn, hostRawOut, hostPreDNAT, hostRawOutDNAT,
	}
}

// HostChains returns the names of the base chains for the lists of host endpoints, and which of
// them has the untracked policy of outgoing packets. It omits host-out-dnat and the -again chains.
func HostChains() (all []string, untrackedOut string) {
	for _, l := range hostLists() {
		all = append(all, l.name())
	}
	return all, hostRawOut.name()
}

// name begins the names of the list's chains, and is that of the base chain.
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

// early reports whether policy of the list does not decide about packets that match no rule.
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
	chainHostOutDNAT  = "host-out-dnat"
)

// chain returns the name of the chain for one list of a host endpoint.
func (l hostList) chain(s *subject) string { return sets.KeyName(l.name(), s.key) }

// before returns the name of the chain that packets of the host's interfaces pass before chain. It
// exists for pre-DNAT policy, and for forwarded traffic if there is untracked policy.
func (l hostList) before(s *subject) string { return sets.KeyName("before-"+l.name(), s.key) }

// again returns the name of the chain that tests whether untracked or pre-DNAT policy allowed a
// packet.
func (l hostList) again(s *subject) string { return sets.KeyName("again-"+l.name(), s.key) }

// entry returns the chain that packets of an interface of the host go to. It always ends in a verdict.
func (l hostList) entry(s *subject) string {
	if l == hostPreDNAT || l == hostForwardIn && s.governed[hostRawIn] {
		return l.before(s)
	}
	return l.chain(s)
}

// hook returns the hook and the priority of the base chain of a list.
func (l hostList) hook(cfg *Config) (ruleset.HookPoint, int) {
	switch l {
	case hostIn:
		return ruleset.Input, cfg.IngressPriority
	case hostOut:
		return ruleset.Output, cfg.IngressPriority
	case hostForwardIn, hostForwardOut:
		return ruleset.Forward, cfg.IngressPriority
	case hostRawIn:
		return ruleset.Prerouting, priorityRaw
	case hostRawOut:
		return ruleset.Output, priorityRaw
	case hostRawOutDNAT:
		return ruleset.Postrouting, cfg.EgressPriority
	default:
		return ruleset.Prerouting, priorityPreDNAT
	}
}
