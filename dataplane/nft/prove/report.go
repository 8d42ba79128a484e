// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/policy/verdict"
)

// Report is the result of a proof. String writes it for people, encoding/json for programs.
type Report struct {
	// Node is the name of the node.
	Node string `json:"node"`
	// Endpoints is the number of workload endpoints of the node. Groups is the number of groups of
	// endpoints with equal policy.
	Endpoints int `json:"endpoints"`
	Groups    int `json:"groups"`
	// AddressClasses is the number of kinds of addresses that policy or the table distinguishes.
	AddressClasses int `json:"addressClasses"`
	// Packets is the number of packets that were run through the table. Each packet stands for all
	// packets of its kind.
	Packets int64 `json:"packets"`
	// Evaluations is the number of evaluations of policy. Packets that policy cannot distinguish
	// share one.
	Evaluations int64 `json:"evaluations"`
	// Different is the number of packets for which the table and policy have different results.
	Different int64 `json:"different"`
	// Differences has the first packets for which the table and policy have different results, at
	// most Config.Limit. Of several packets that differ only in protocol and ports, it has only the
	// first.
	Differences []Difference `json:"differences"`
	// Complete is set if the table and the world contain nothing that this package cannot compare.
	// If it is not set, Incomplete has the reasons. The kinds of packets in NotProved are never
	// tried, even if Complete is set.
	Complete   bool     `json:"complete"`
	Incomplete []string `json:"incomplete,omitempty"`
	// NotProved lists the kinds of packets that are never tried.
	NotProved []string `json:"notProved"`
}

// Agrees reports whether policy and the table have the same result for all packets.
func (r Report) Agrees() bool { return r.Different == 0 }

// Difference is a packet for which policy and the table have different results.
type Difference struct {
	// Flow is the packet.
	Flow verdict.Flow `json:"flow"`
	// Allowed is the result of the table. It is true if the packet passes all hooks on its way.
	Allowed bool `json:"allowed"`
	// Explanation is the result of policy, with its reasons.
	Explanation *verdict.Explanation `json:"explanation"`
	// Steps are the rules of the table that the packet matched, in order.
	Steps []Step `json:"steps"`
}

// Step is a rule of the table that a packet matched.
type Step struct {
	// Hook is the nft name of the hook, and Chain the name of the chain.
	Hook  string `json:"hook"`
	Chain string `json:"chain"`
	// Rule is the number of the rule in the chain, from 0. It is -1 for the policy of a base chain.
	Rule int `json:"rule"`
	// Comment is the comment of the rule.
	Comment string `json:"comment,omitempty"`
	// Verdict is the verdict of the rule in nft syntax. It is empty if the rule has none.
	Verdict string `json:"verdict,omitempty"`
}

// String returns a description of the difference in several lines. Its text may change.
func (d Difference) String() string {
	result := "drops"
	if d.Allowed {
		result = "accepts"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: policy: %s; table: %s\n", d.Flow, d.Explanation.Result.Combined, result)
	for _, s := range d.Steps {
		fmt.Fprintf(&text, "  %s: %s", s.Hook, s.Chain)
		if s.Rule >= 0 {
			fmt.Fprintf(&text, " rule %d", s.Rule+1)
		}
		if s.Comment != "" {
			fmt.Fprintf(&text, " (%s)", s.Comment)
		}
		if s.Verdict != "" {
			fmt.Fprintf(&text, ": %s", s.Verdict)
		}
		text.WriteString("\n")
	}
	for _, line := range strings.Split(strings.TrimRight(d.Explanation.String(), "\n"), "\n") {
		fmt.Fprintf(&text, "  %s\n", line)
	}
	return text.String()
}

// String returns the differences, the counts, and what was not proved. Its text may change.
func (r Report) String() string {
	var text strings.Builder
	for _, d := range r.Differences {
		text.WriteString(d.String())
	}
	if n := r.Different - int64(len(r.Differences)); n > 0 && len(r.Differences) > 0 {
		fmt.Fprintf(&text, "%d more packets differ\n", n)
	}
	fmt.Fprintf(&text, "%d packets of %d endpoints (%d groups, %d kinds of addresses): ",
		r.Packets, r.Endpoints, r.Groups, r.AddressClasses)
	if r.Agrees() {
		text.WriteString("policy and table agree\n")
	} else {
		fmt.Fprintf(&text, "policy and table differ for %d\n", r.Different)
	}
	for _, reason := range r.Incomplete {
		fmt.Fprintf(&text, "incomplete: %s\n", reason)
	}
	fmt.Fprintf(&text, "not proved: %s\n", strings.Join(r.NotProved, "; "))
	return text.String()
}

// notProved returns the kinds of packets that are never tried.
func notProved() []string {
	return []string{
		"packets of established, related and invalid connections",
		"address translation",
		"packets with a priority or a mark, fragments, and TCP packets other than SYN",
		"IPv6 neighbour and router discovery",
		"DHCP between workloads and their node",
		"interfaces that belong to no endpoint and are not named",
		"limits of rates, logs and counters",
	}
}
