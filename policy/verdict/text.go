// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// String returns the explanation in several lines, with a final line break. The text is for people
// and may change. The JSON encoding is for programs.
func (x *Explanation) String() string { return x.Text(Origins{}) }

// Origins finds the origins of rules and policies, for example lines of manifests. A function
// returns "" if the origin is not known. If a function is nil, it knows no origin.
type Origins struct {
	// Rule returns the origin of the rule with the given ID.
	Rule func(ruleID string) string
	// Policy returns the origin of a policy. It is called only for a policy of which the
	// explanation has no rule.
	Policy func(policy.Key) string
}

// Text returns the text of String, with the origin of each rule. If the explanation has no rule of
// a policy, the text has the origin of the policy.
func (x *Explanation) Text(o Origins) string {
	if o.Rule == nil {
		o.Rule = func(string) string { return "" }
	}
	if o.Policy == nil {
		o.Policy = func(policy.Key) string { return "" }
	}
	t := &text{origins: o}
	t.line(0, "%s: %s", x.Flow, x.Result.Combined)
	if x.Flow.Node == "" || len(x.Stages) == 0 && x.Result.Combined == Deny {
		t.direction(x.Egress)
		t.direction(x.Ingress)
	}
	for _, d := range x.Stages {
		t.direction(d)
	}
	if x.Flow.Node != "" && x.Result.Combined == NotApplicable {
		t.line(0, "no policy applies on the way")
	}
	return t.String()
}

// text builds indented lines.
type text struct {
	strings.Builder
	origins Origins
}

func (t *text) line(depth int, format string, args ...any) {
	t.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(t, format, args...)
	t.WriteByte('\n')
}

func (t *text) direction(d *Direction) {
	if d.Endpoint == (policy.Key{}) {
		t.line(0, "%s: %s: %s", d.Type, d.Outcome, t.decision(d.Decision))
		return
	}
	outcome := string(d.Outcome)
	if d.Outcome == NotApplicable {
		outcome = "continues"
	}
	t.line(0, "%s%s of %s: %s: %s", d.Stage.prefix(), d.Type, d.Endpoint, outcome, t.decision(d.Decision))
	for _, tier := range d.Tiers {
		t.tier(tier)
	}
	for _, p := range d.Profiles {
		if p.Missing {
			t.line(1, "profile %s does not exist: Deny", p.Profile)
			continue
		}
		t.line(1, "profile %s: %s", p.Profile, actionOr(p.Action, "nothing matches"))
		t.rules(2, p.Rules)
	}
	if d.IfStagedEnforced != "" && d.IfStagedEnforced != d.Outcome {
		t.line(1, "if the staged policies were enforced: %s: %s", d.IfStagedEnforced,
			t.decision(d.IfStagedDecision))
	}
}

// decision returns the text of a decision, with the origin of its rule.
func (t *text) decision(d Decision) string {
	if at := t.origins.Rule(d.RuleID); d.RuleID != "" && at != "" {
		return d.String() + ", " + at
	}
	return d.String()
}

// prefix returns the text for a stage before its direction.
func (s Stage) prefix() string {
	switch s {
	case StageUntracked:
		return "untracked "
	case StagePreDNAT:
		return "pre-DNAT "
	case StageForward:
		return "forward "
	case StageEndpointToHost:
		return "to the host: "
	case StageHostToEndpoint:
		return "from the host: "
	default:
		return ""
	}
}

func (t *text) tier(tier TierStep) {
	note := ""
	if tier.Missing {
		note = ", which does not exist"
	}
	end := string(tier.Action)
	switch {
	case tier.Action == "" && !slices.ContainsFunc(tier.Policies, func(p PolicyStep) bool { return !p.Staged }):
		end = "does not decide, all its policies are staged"
	case tier.Action == "":
		end = "no rule decides"
	case tier.Default:
		end += ", its default"
	}
	t.line(1, "tier %s%s: %s", tier.Name, note, end)
	for _, p := range tier.Policies {
		would := ""
		if p.Staged {
			would = " (if it were enforced)"
		}
		at := ""
		if len(p.Rules) == 0 {
			at = inBrackets(t.origins.Policy(p.Policy))
		}
		t.line(2, "%s%s: %s%s", p.Policy, would, actionOr(p.Action, "nothing matches"), at)
		t.rules(3, p.Rules)
	}
}

func (t *text) rules(depth int, rules []RuleStep) {
	for i, r := range rules {
		what := string(r.Action) + annotationText(r.Annotations) + inBrackets(t.origins.Rule(r.ID))
		switch {
		case len(r.Doubts) > 0 && r.Mismatch == nil:
			t.line(depth, "rule %d %s%s: matches everything", i+1, what, doubtText(r.Doubts))
		case len(r.Doubts) > 0:
			t.line(depth, "rule %d %s%s: matches nothing", i+1, what, doubtText(r.Doubts))
		case r.Mismatch == nil:
			t.line(depth, "rule %d %s: matches", i+1, what)
		default:
			t.line(depth, "rule %d %s: no: %s: %s", i+1, what, r.Mismatch.Field, r.Mismatch.Reason)
		}
	}
}

// inBrackets returns an origin to append; empty if it is not known.
func inBrackets(origin string) string {
	if origin == "" {
		return ""
	}
	return " (" + origin + ")"
}

// doubtText returns the text for a closed rule, with the reasons.
func doubtText(doubts []policy.Problem) string {
	if len(doubts) == 0 {
		return ""
	}
	texts := make([]string, len(doubts))
	for i, doubt := range doubts {
		texts[i] = doubt.String()
	}
	return " in doubt (" + strings.Join(texts, "; ") + ")"
}

func actionOr(a policy.Action, otherwise string) string {
	if a == "" {
		return otherwise
	}
	return string(a)
}

// annotationText returns annotations in brackets, sorted.
func annotationText(annotations map[string]string) string {
	if len(annotations) == 0 {
		return ""
	}
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", k, annotations[k]))
	}
	return " [" + strings.Join(pairs, " ") + "]"
}

// String returns a short text for people, to print after a colon. It has no full stop.
func (d Decision) String() string {
	switch d.By {
	case ByRule:
		return d.rule()
	case ByEndOfTier:
		return fmt.Sprintf("no rule of tier %s decided", d.Tier)
	case ByMissingProfile:
		return fmt.Sprintf("profile %s does not exist", d.Profile)
	case ByEndOfProfiles:
		return "no tier decided, and no profile"
	case ByEndOfTiers:
		return "no tier decided"
	case ByNoPolicy:
		return "no policy of this kind"
	case ByAdminState:
		return "the endpoint is down"
	case ByFalseSource:
		return "the source is not the workload's"
	case ByEncapsulation:
		return "workloads may not send encapsulated packets"
	case ByEncapsulationSource:
		return "only nodes may send " + d.Detail + ", and the source is not an address of a node"
	case ByEstablished:
		return "the connection was allowed before"
	case ByInvalidState:
		return "connection tracking considers the packet invalid"
	case ByFailsafe:
		return "failsafe port " + d.Detail
	case BySetting:
		return "by the node's settings"
	case ByNoEndpoint:
		return "no endpoint here, so no policy"
	case ByInvalidFlow:
		if d.RuleID != "" {
			return d.Detail + " (" + d.rule() + ")"
		}
		return d.Detail
	default:
		return string(d.By)
	}
}

// rule returns the text for the deciding rule.
func (d Decision) rule() string {
	if d.Profile != "" {
		return fmt.Sprintf("by rule %s of profile %s%s", d.RuleID, d.Profile, annotationText(d.Annotations))
	}
	return fmt.Sprintf("by rule %s of %s in tier %s%s%s", d.RuleID, d.Policy, d.Tier, annotationText(d.Annotations),
		doubtText(d.Doubts))
}
