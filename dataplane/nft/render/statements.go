// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// The records of decisions in the packet's priority. No class or outcome has these numbers. Both
// bits of priorityDeniedBits are set only if a packet is denied, so one comparison detects a
// denial. The records of preserved priorities (firstPriorityRecord) have both bits, too; their
// chains match them first.
const (
	priorityAllowed           = outcome.Reserved
	priorityDenied            = outcome.Reserved | priorityDeniedBits
	priorityDeniedBits uint32 = 1<<31 | 1<<30
	// priorityRefused records that a packet is denied for a reason other than policy, so it is not
	// answered.
	priorityRefused = priorityDenied + 1
	// priorityUndecided records that untracked or pre-DNAT policy leaves a packet to later stages.
	priorityUndecided = outcome.Reserved + 1
	// priorityDecided is a mask of all bits except the one in which priorityAllowed and
	// priorityDenied differ.
	priorityDecided uint32 = 1<<32 - 1 - 1<<30
)

// priorityStale records that a packet is stale.
const priorityStale uint32 = 1 << 30

// statements makes the statements and rules with which policy decides: verdicts, records in the
// packet, counters and logs. They depend only on the configuration.
type statements struct{ cfg *Config }

// count returns the counter of a rule of policy, or nothing if rules have no counters.
func (st *statements) count(s match.Stage) []ruleset.Statement {
	if !st.cfg.Counters || s.Recheck() {
		return nil
	}
	return []ruleset.Statement{ruleset.Counter{}}
}

// account returns the statements that count and log a decision, or nothing if the configuration has
// neither.
func (st *statements) account(s match.Stage, decision, by string) []ruleset.Statement {
	out := st.count(s)
	if st.cfg.VerdictLog.Enabled && !s.Recheck() {
		group := st.cfg.VerdictLog.Group
		out = append(out, ruleset.Log{Prefix: sets.Quotable(decision+" "+by, ruleset.MaxLogPrefix), Group: &group})
	}
	return out
}

// logLine returns the statements of a Log rule.
func (st *statements) logLine(id string) []ruleset.Statement {
	line := ruleset.Log{Prefix: sets.Quotable(st.cfg.LogPrefix+" "+id, ruleset.MaxLogPrefix-2) + ": "}
	if st.cfg.LogRate < 0 {
		return []ruleset.Statement{line}
	}
	rate := uint64(st.cfg.LogRate)
	return []ruleset.Statement{
		ruleset.Limit{Rate: rate, Per: time.Second, Burst: uint32(rate) * defaultLogSeconds}, line,
	}
}

// denial returns the rule at the end of policy that denies all remaining packets, with the reason.
func (st *statements) denial(s match.Stage, why string) ruleset.Rule {
	return build.Commented(build.Always(append(st.account(s, "deny", why), build.Goto(chainDenied))...), why)
}

// refusal returns a rule that drops packets at once, for a reason other than policy.
func (st *statements) refusal(why string, matches ...ruleset.Match) ruleset.Rule {
	statements := st.account(match.StageNormal, "deny", why)
	return ruleset.Rule{Matches: matches, Statements: append(statements, build.Drop()), Comment: sets.Comment(why)}
}

// recordRefusal returns a rule that records that packets are denied for a reason other than policy.
// The base chain then drops them. Unlike with refusal, stale packets are evaluated again.
func (st *statements) recordRefusal(why string, matches ...ruleset.Match) ruleset.Rule {
	to := chainDenied
	if st.cfg.Reject {
		to = chainRefused
	}
	statements := st.account(match.StageNormal, "deny", why)
	return ruleset.Rule{Matches: matches, Statements: append(statements, build.Goto(to)), Comment: sets.Comment(why)}
}

// action returns the statements of a rule of policy. If the rule has a chain of its own, they lead
// there.
func (st *statements) action(k match.List, profile bool, rule *match.Merged) ([]ruleset.Statement, error) {
	id := rule.IDs[0]
	if chain := st.ruleChainName(profile, &rule.Rule); chain != "" && !k.Stage.Recheck() {
		return []ruleset.Statement{build.Goto(chain)}, nil
	}
	switch action := rule.Action; {
	case action == policy.Allow:
		return []ruleset.Statement{record(priorityAllowed), build.Return()}, nil
	case action == policy.Deny || action == policy.Pass && profile: // S32
		return []ruleset.Statement{build.Goto(chainDenied)}, nil
	case action == policy.Pass:
		return []ruleset.Statement{build.Return()}, nil
	case action == policy.Log:
		return append(st.count(k.Stage), st.logLine(id)...), nil
	default:
		return nil, fmt.Errorf("unknown action %q", rule.Action)
	}
}

// record returns the statement that records a decision in the packet.
func record(decision uint32) ruleset.Assign {
	return ruleset.Assign{Field: outcome.Register, Value: decision}
}

// forget returns the rule that removes the record from the packet.
func forget() ruleset.Rule { return build.Always(record(0)) }

// denied matches packets that are recorded as denied.
func denied() ruleset.Match {
	bits := ruleset.Uint32(priorityDeniedBits)
	return ruleset.Compare{Field: outcome.Register, Value: bits, Mask: bits}
}

// returnDecided returns the rule that returns packets with a recorded decision.
func returnDecided() ruleset.Rule {
	return build.When(build.Return(), ruleset.Compare{
		Field: outcome.Register, Value: ruleset.Uint32(priorityAllowed), Mask: ruleset.Uint32(priorityDecided),
	})
}

// call returns a rule that jumps to a chain of policy, and a rule that then returns packets with a
// decision.
func call(chain string, matches ...ruleset.Match) []ruleset.Rule {
	return []ruleset.Rule{build.When(build.Jump(chain), matches...), returnDecided()}
}

// connections returns rules that allow packets of known connections, and drop invalid packets
// unless KeepInvalid is set. Most packets that reach these rules are new. The comparison with the
// state "new" costs such a packet a quarter of a lookup.
func connections() []ruleset.Rule {
	other := build.State(ruleset.CtNew)
	other.Not = true
	allowed := build.Equals(outcome.Register, ruleset.Uint32(priorityAllowed))
	states := build.Dispatch(mapCtState, ruleset.CtState)
	states.Matches = append(states.Matches, other)
	return []ruleset.Rule{states, build.When(build.Return(), allowed)}
}

// noFragments drops IPv6 packets that have a fragment header and satisfy the matches. Only two
// kinds of fragments reach our chains, because the kernel reassembles all others. One is a first
// fragment without the transport header, which RFC 8200 section 4.5 forbids. The other is a
// fragment within a fragment. Rules that deny by port would not stop these fragments, although the
// receiver may reassemble the packet.
func (st *statements) noFragments(matches ...ruleset.Match) ruleset.Rule {
	fragment := []ruleset.Match{match.OfFamily(sets.IPv6), build.Equals(ruleset.FragmentHeader, ruleset.Byte(1))}
	return st.refusal("fragment without its transport header", append(fragment, matches...)...)
}

// midstream drops TCP packets that begin a connection without a SYN, if TCPFromSYN is set.
func (st *statements) midstream() []ruleset.Rule {
	if !st.cfg.TCPFromSYN {
		return nil
	}
	flags := ruleset.Byte(ruleset.TCPFin | ruleset.TCPSyn | ruleset.TCPRst | ruleset.TCPAck)
	return []ruleset.Rule{st.refusal("TCP in the middle of a connection",
		build.State(ruleset.CtNew),
		build.Equals(ruleset.L4Proto, ruleset.Byte(uint8(policy.ProtocolTCP))),
		ruleset.Compare{Field: ruleset.TCPFlags, Not: true, Mask: flags, Value: ruleset.Byte(ruleset.TCPSyn)})}
}
