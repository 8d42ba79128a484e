// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strconv"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// The chains that carry out decisions: they accept, drop or reject a packet.
//
// Policy overwrites the packet's priority. A packet with priority zero stays in the base chain. A
// packet with a priority of Classes.Priorities jumps to forward-priority-N, which jumps to policy
// and then records the priority. accepted-priority-N restores it. Any other priority becomes zero.
const (
	chainVerdict  = "verdict"
	chainRejected = "rejected"
	chainAccepted = "accepted"
	// chainVerdictUntracked carries out decisions of untracked policy.
	chainVerdictUntracked = "verdict-untracked"
	// suffixPriority is part of the names of chains for packets with a nonzero priority.
	suffixPriority = "-priority"
)

// firstPriorityRecord and the numbers after it record that policy allows a packet, and which of
// Classes.Priorities the packet had. The numbers from firstUntrackedRecord on record the same for
// untracked policy.
const (
	firstPriorityRecord  uint32 = 1<<32 - 256
	firstUntrackedRecord        = firstPriorityRecord + 128
)

// adminProhibited is the code that ICMP and ICMPv6 share in nftables (icmpx): "administratively
// prohibited".
const adminProhibited = 3

// verdicts makes the base chains with policy and the chains that carry out decisions. They preserve
// the priorities that the configuration lists.
type verdicts struct {
	cfg        *Config
	statements *statements
}

// silent returns the name of the chain verdict for packets from the host itself. It never rejects:
// some of these packets are decided after routing, where the kernel can only drop.
func (v *verdicts) silent() string {
	if v.cfg.Reject {
		return chainVerdict + "-silent"
	}
	return chainVerdict
}

// chains returns the chains that carry out a decision: they drop or reject a packet, or restore its
// priority and accept it. The chains that end in -priority are for packets that had one of the
// listed priorities.
func (v *verdicts) chains() (chains []*ruleset.Chain) {
	verdict := func(name string, deny ruleset.Rule) {
		accept := build.Always(record(0), build.Accept())
		chains = append(chains, &ruleset.Chain{Name: name, Rules: []ruleset.Rule{deny, accept}})
		if v.hasPriorities() {
			chains = append(chains, v.chainByPriority(name, deny))
		}
	}
	drop := build.When(build.Drop(), denied())
	if !v.cfg.Reject {
		verdict(chainVerdict, drop)
	} else {
		verdict(chainVerdict, build.When(build.Goto(chainRejected), denied()))
		verdict(v.silent(), drop)
		chains = append(chains, &ruleset.Chain{
			Name: chainRejected, Rules: append([]ruleset.Rule{
				build.When(build.Drop(), build.Equals(outcome.Register, ruleset.Uint32(priorityRefused))), forget(),
			}, rejections()...),
		})
	}
	if v.hasPriorities() {
		for _, p := range v.cfg.Classes.Priorities {
			chains = append(chains, &ruleset.Chain{Name: withPriority(chainAccepted, p), Rules: []ruleset.Rule{
				build.Always(ruleset.Assign{Field: outcome.Register, Value: p}, build.Accept()),
			}})
		}
	}
	return chains
}

// chainByPriority returns the chain that replaces the chain name for packets that had one of the
// listed priorities.
func (v *verdicts) chainByPriority(name string, deny ruleset.Rule) *ruleset.Chain {
	c := &ruleset.Chain{Name: name + suffixPriority}
	for i, p := range v.cfg.Classes.Priorities {
		record := ruleset.Uint32(firstPriorityRecord + uint32(i))
		c.Rules = append(c.Rules, build.When(
			build.Goto(withPriority(chainAccepted, p)), build.Equals(outcome.Register, record),
		))
	}
	// To a packet on the previous generation, forward-priority-N is empty, so it has no record of a
	// priority.
	c.Rules = append(c.Rules, deny, build.Always(build.Drop()))
	return c
}

// untracked returns the chains that carry out decisions of untracked policy. Connection tracking
// skips the packets that they accept.
func (v *verdicts) untracked() []*ruleset.Chain {
	notrack := func(p uint32) ruleset.Rule {
		return build.Always(ruleset.Notrack{}, ruleset.Assign{Field: outcome.Register, Value: p}, build.Accept())
	}
	allow, drop := notrack(0), build.When(build.Drop(), denied())
	allow.Matches = []ruleset.Match{build.Equals(outcome.Register, ruleset.Uint32(priorityAllowed))}
	chains := []*ruleset.Chain{{Name: chainVerdictUntracked, Rules: []ruleset.Rule{
		drop, allow, build.Always(record(0), build.Accept()),
	}}}
	if !v.hasPriorities() {
		return chains
	}
	entry := v.chainByPriority(chainVerdictUntracked, drop)
	var first []ruleset.Rule
	for i, p := range v.cfg.Classes.Priorities {
		c := &ruleset.Chain{Name: withPriority(chainVerdictUntracked, p), Rules: []ruleset.Rule{notrack(p)}}
		first = append(first, build.When(build.Goto(c.Name), build.Equals(
			outcome.Register, ruleset.Uint32(firstUntrackedRecord+uint32(i)),
		)))
		chains = append(chains, c)
	}
	entry.Rules = append(first, entry.Rules...)
	return append(chains, entry)
}

// byPriority returns the rules for packets with a nonzero priority, and the chains that they use. A
// stale packet does not match the second rule. It then passes policy once more, and the last rule
// of the base chain records that it is stale.
func (v *verdicts) byPriority(p *basePolicy) (rules []ruleset.Rule, chains []*ruleset.Chain) {
	nonzero := ruleset.Compare{Field: outcome.Register, Not: true, Value: ruleset.Uint32(0)}
	if !v.hasPriorities() {
		forget := forget()
		forget.Matches = []ruleset.Match{nonzero}
		return []ruleset.Rule{forget}, nil
	}
	entry := &ruleset.Chain{Name: p.name + suffixPriority}
	for i, one := range v.cfg.Classes.Priorities {
		c := &ruleset.Chain{Name: withPriority(p.name, one), Rules: append(
			slices.Clone(p.jumps), build.When(build.Return(), denied()),
		)}
		if p.untracked {
			untracked := build.Always(record(firstUntrackedRecord+uint32(i)), build.Return())
			untracked.Matches = []ruleset.Match{build.Equals(outcome.Register, ruleset.Uint32(priorityAllowed))}
			c.Rules = append(c.Rules, untracked)
		}
		c.Rules = append(c.Rules, build.Always(record(firstPriorityRecord+uint32(i))))
		entry.Rules = append(entry.Rules, build.When(
			build.Goto(c.Name), build.Equals(outcome.Register, ruleset.Uint32(one)),
		))
		chains = append(chains, c)
	}
	entry.Rules = append(entry.Rules, forget())
	return []ruleset.Rule{
		build.When(build.Jump(entry.Name), nonzero),
		build.When(build.Goto(p.verdict+suffixPriority), nonzero, build.InSet(setEpoch, ruleset.NFProto)),
	}, append(chains, entry)
}

// hasPriorities reports whether policy preserves priorities other than zero.
func (v *verdicts) hasPriorities() bool {
	return len(v.cfg.Classes.Priorities) > 0
}

// withPriority returns the name of the chain that replaces a chain for packets of a priority.
func withPriority(chain string, p uint32) string {
	return chain + suffixPriority + "-" + strconv.FormatUint(uint64(p), 16)
}

// rejections returns the rules that answer packets which policy denies.
func rejections() []ruleset.Rule {
	tcp := ruleset.Rule{
		Matches:    []ruleset.Match{build.Equals(ruleset.L4Proto, ruleset.Byte(uint8(policy.ProtocolTCP)))},
		Statements: []ruleset.Statement{ruleset.Reject{Kind: ruleset.RejectTCPReset}},
	}
	return []ruleset.Rule{tcp, build.Always(ruleset.Reject{Kind: ruleset.RejectICMPX, Code: adminProhibited})}
}
