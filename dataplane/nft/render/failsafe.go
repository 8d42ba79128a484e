// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// The sets of failsafe ports for all peers. Their elements are protocol and port.
const (
	setFailsafeIn  = "failsafe-in"
	setFailsafeOut = "failsafe-out"
)

// failsafeSet returns the set of the failsafe ports that are open to all peers.
func failsafeSet(name string, list []policy.Failsafe) *sets.ElementSet {
	s := sets.NewElementSet(ruleset.Set{Name: name, Key: []ruleset.Type{ruleset.TypeProto, ruleset.TypeService}})
	for _, f := range list {
		if !f.Net.IsValid() {
			s.Put(sets.Element(nil, ruleset.Byte(uint8(f.Protocol)), ruleset.Port(f.Port)))
		}
	}
	return s
}

// failsafePorts are the failsafe ports of one direction.
type failsafePorts struct {
	set  string
	list []policy.Failsafe
}

// failsafes makes the rules for failsafe ports.
type failsafes struct{ in, out failsafePorts }

func newFailsafes(cfg policy.HostConfig) *failsafes {
	return &failsafes{
		in:  failsafePorts{setFailsafeIn, cfg.FailsafeInbound},
		out: failsafePorts{setFailsafeOut, cfg.FailsafeOutbound},
	}
}

// rules returns rules with the given verdict for packets whose port is a failsafe port for their
// peer (S112). The parameter port is the field of the packet that has the port. The function peer
// returns the field that has the address of the other side.
func (f failsafePorts) rules(
	v ruleset.Verdict, port ruleset.Field, peer func(sets.Family) ruleset.Field, matches ...ruleset.Match,
) (out []ruleset.Rule) {
	add := func(ms ...ruleset.Match) {
		out = append(out, build.Commented(
			build.When(v, append(matches[:len(matches):len(matches)], ms...)...), "failsafe port",
		))
	}
	original := port == ruleset.CtOriginalDport // has no type in nft, so no concatenation
	all := false
	for _, one := range f.list {
		if !one.Net.IsValid() {
			all = all || !original
			if original {
				add(
					build.Equals(ruleset.L4Proto, ruleset.Byte(uint8(one.Protocol))),
					build.Equals(port, ruleset.Port(one.Port)),
				)
			}
			continue
		}
		fam, ms := sets.FamilyOf(one.Net.Addr()), []ruleset.Match(nil)
		if one.Net.Bits() > 0 {
			ms = append(ms, match.Nets(peer(fam), sets.MergeNets(sets.PrefixesOf(fam, []netip.Prefix{one.Net})), false))
		}
		add(append(append([]ruleset.Match{match.OfFamily(fam)}, ms...),
			build.Equals(ruleset.L4Proto, ruleset.Byte(uint8(one.Protocol))),
			build.Equals(port, ruleset.Port(one.Port)))...)
	}
	if all {
		add(build.InSet(f.set, ruleset.L4Proto, port))
	}
	return out
}

// shared returns the chains that allow packets of failsafe ports before normal policy (S111).
func (f *failsafes) shared() []*ruleset.Chain {
	allow := build.Goto(chainAllowed)
	return []*ruleset.Chain{
		{Name: chainHostReceives, Rules: f.in.rules(allow, ruleset.Dport, match.Saddr)},
		{Name: chainHostSends, Rules: f.out.rules(allow, ruleset.Dport, match.Daddr)},
	}
}

// raw returns rules with the given verdict for packets of failsafe ports, before untracked or
// pre-DNAT policy. Before untracked policy, they also match replies to such packets (S114).
func (f *failsafes) raw(l hostList, v ruleset.Verdict) []ruleset.Rule {
	if l == hostRawOut {
		return append(
			f.out.rules(v, ruleset.Dport, match.Daddr), f.in.rules(v, ruleset.Sport, match.Daddr)...,
		)
	}
	if l == hostRawOutDNAT {
		return append(
			f.out.rules(v, ruleset.CtOriginalDport, match.OriginalDaddr),
			f.in.rules(v, ruleset.Sport, match.OriginalDaddr)...,
		)
	}
	local := build.OneOf(
		ruleset.FibDaddrType, ruleset.Uint32(ruleset.FibTypeLocal), ruleset.Uint32(ruleset.FibTypeBroadcast),
	)
	rules := f.in.rules(v, ruleset.Dport, match.Saddr, local)
	if l == hostRawIn {
		rules = append(rules, f.out.rules(v, ruleset.Sport, match.Saddr, local)...)
	}
	return rules
}

// original returns rules that return packets whose original port is a failsafe port. Pre-DNAT
// policy did not evaluate these packets, so they do not count as packets that it allowed. The rules
// also match forwarded packets to such a port, because they cannot distinguish these from packets
// for the host itself.
func (f *failsafes) original() []ruleset.Rule {
	return f.in.rules(build.Return(), ruleset.CtOriginalDport, match.Saddr,
		build.Equals(ruleset.CtStatus, ruleset.Uint32(ruleset.CtDNAT)))
}
