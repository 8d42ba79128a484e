// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// The sets of failsafe ports, protocol and port, that are for all peers.
const (
	setFailsafeIn  = "failsafe-in"
	setFailsafeOut = "failsafe-out"
)

// failsafeSet returns the set of those that are for all peers.
func failsafeSet(name string, list []policy.Failsafe) *elementSet {
	s := newElementSet(ruleset.Set{Name: name, Key: []ruleset.Type{ruleset.TypeProto, ruleset.TypeService}})
	for _, f := range list {
		if !f.Net.IsValid() {
			s.put(element(nil, ruleset.Byte(uint8(f.Protocol)), ruleset.Port(f.Port)))
		}
	}
	return s
}

// failsafes are the failsafe ports of one direction.
type failsafes struct {
	set  string
	list []policy.Failsafe
}

func (r *Renderer) failsafesIn() failsafes {
	return failsafes{setFailsafeIn, r.cfg.Host.FailsafeInbound}
}

func (r *Renderer) failsafesOut() failsafes {
	return failsafes{setFailsafeOut, r.cfg.Host.FailsafeOutbound}
}

// rules decides for packets whose port, in the field, is a failsafe one, and whose peer, the source or the
// destination, is one that it is for (S112).
func (f failsafes) rules(v ruleset.Verdict, port ruleset.Field, peer func(family) ruleset.Field, matches ...ruleset.Match) (out []ruleset.Rule) {
	add := func(ms ...ruleset.Match) {
		out = append(out, noted(when(v, append(matches[:len(matches):len(matches)], ms...)...), "failsafe port"))
	}
	original := port == ruleset.CtOriginalDport // which nft knows no type of, and so takes in no concatenation
	all := false
	for _, one := range f.list {
		if !one.Net.IsValid() {
			all = all || !original
			if original {
				add(equals(ruleset.L4Proto, ruleset.Byte(uint8(one.Protocol))), equals(port, ruleset.Port(one.Port)))
			}
			continue
		}
		fam, ms := familyOf(one.Net.Addr()), []ruleset.Match(nil)
		if one.Net.Bits() > 0 {
			ms = append(ms, netMatch(peer(fam), mergeNets(prefixesOf(fam, []netip.Prefix{one.Net})), false))
		}
		add(append(append([]ruleset.Match{ofFamily(fam)}, ms...),
			equals(ruleset.L4Proto, ruleset.Byte(uint8(one.Protocol))), equals(port, ruleset.Port(one.Port)))...)
	}
	if all {
		add(inSet(f.set, ruleset.L4Proto, port))
	}
	return out
}

// sharedHostChains returns what comes before the normal policy of every host endpoint (S111): connections that were allowed
// once, and failsafe ports.
func (r *Renderer) sharedHostChains() []*ruleset.Chain {
	return []*ruleset.Chain{
		{Name: chainHostReceives, Rules: append([]ruleset.Rule{knownConnections()}, r.failsafesIn().rules(accept(), ruleset.Dport, saddr)...)},
		{Name: chainHostSends, Rules: append([]ruleset.Rule{knownConnections()}, r.failsafesOut().rules(accept(), ruleset.Dport, daddr)...)},
	}
}

// rawFailsafes passes over the untracked or pre-DNAT policy of packets of failsafe ports, addressed to the host itself. Where
// connections are not tracked, that goes for replies, too (S114).
func (r *Renderer) rawFailsafes(l hostList) []ruleset.Rule {
	if l == hostRawOut {
		return append(r.failsafesOut().rules(accept(), ruleset.Dport, daddr), r.failsafesIn().rules(accept(), ruleset.Sport, daddr)...)
	}
	if l == hostRawOutDNAT {
		return append(r.failsafesOut().rules(accept(), ruleset.CtOriginalDport, originalDaddr), r.failsafesIn().rules(accept(), ruleset.Sport, originalDaddr)...)
	}
	local := oneOf(ruleset.FibDaddrType, ruleset.Uint32(ruleset.FibTypeLocal), ruleset.Uint32(ruleset.FibTypeBroadcast))
	rules := r.failsafesIn().rules(accept(), ruleset.Dport, saddr, local)
	if l == hostRawIn {
		rules = append(rules, r.failsafesOut().rules(accept(), ruleset.Sport, saddr, local)...)
	}
	return rules
}

// originalFailsafes returns from the chain with packets that were for a failsafe port before destination NAT: pre-DNAT policy
// passed them over, so it has not allowed them. Whether they were for the host itself then is not known any more: those that
// were not do not count as allowed either.
func (r *Renderer) originalFailsafes() []ruleset.Rule {
	return r.failsafesIn().rules(ruleset.Verdict{Kind: ruleset.Return}, ruleset.CtOriginalDport, saddr,
		equals(ruleset.CtStatus, ruleset.Uint32(ruleset.CtDNAT)))
}
