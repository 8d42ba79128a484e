// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

func addr(s string) ruleset.Value { return ruleset.Addr(netip.MustParseAddr(s)) }

func one(v ruleset.Value) ruleset.Element { return ruleset.Element{Key: []ruleset.Value{v}} }

func verdict(kind ruleset.VerdictKind, chain ...string) ruleset.Verdict {
	return ruleset.Verdict{Kind: kind, Chain: strings.Join(chain, "")}
}

func rule(s ruleset.Statement, ms ...ruleset.Match) ruleset.Rule {
	return ruleset.Rule{Matches: ms, Statements: []ruleset.Statement{s}}
}

func is(f ruleset.Field, v ruleset.Value) ruleset.Match { return ruleset.Compare{Field: f, Value: v} }
