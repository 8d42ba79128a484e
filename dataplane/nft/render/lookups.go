// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// lookupsConfig returns the part of the lookups' configuration that comes from Config.
func lookupsConfig(cfg *Config) outcome.Config {
	out := outcome.Config{
		MaxPerGroup: cfg.Classes.MaxPerGroup, MaxTotal: cfg.Classes.MaxTotal, EachRule: cfg.eachRule(),
	}
	if cfg.Classes.TestHook.HasFewNumbers() {
		out.ClassNumber = func(hash uint32) uint32 { return 1 + hash%499 }
		out.OutcomeNumber = func(hash uint32) uint32 { return 1<<31 | hash%499 }
	}
	return out
}

// lookupWriter implements outcome.Writer: it makes the rules that lookups need.
type lookupWriter struct{ rules *ruleWriter }

func (w *lookupWriter) Rule(
	list match.List, rule *match.Merged, chain string,
) ([]ruleset.Rule, []*ruleset.Chain, error) {
	return w.rules.rule(list, false, chain, rule)
}

func (w *lookupWriter) Target(rule *match.Merged) ruleset.Verdict {
	if chain := w.rules.statements.ruleChainName(false, &rule.Rule); chain != "" {
		return build.Goto(chain)
	}
	return build.Return()
}

func (w *lookupWriter) Allow() []ruleset.Statement {
	return []ruleset.Statement{record(priorityAllowed), build.Return()}
}

func (w *lookupWriter) Deny() ruleset.Verdict { return build.Goto(chainDenied) }

func (w *lookupWriter) Denial(reason string) ruleset.Rule {
	return w.rules.statements.denial(match.StageNormal, reason)
}

func (w *lookupWriter) Call(chain string) []ruleset.Rule {
	return call(chain)
}
