// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/policy/verdict"
)

// Report is what a proof found. String writes it for people, encoding/json for programs.
type Report struct {
	// Node that the proof is about.
	Node string `json:"node"`
	// Endpoints is the number of workload endpoints of the node, and Groups that of groups of them with
	// equal policy.
	Endpoints int `json:"endpoints"`
	Groups    int `json:"groups"`
	// AddressClasses is the number of kinds of addresses that policy or the table tells apart.
	AddressClasses int `json:"addressClasses"`
	// Packets were run through the table, each of which stands for all of its kind.
	Packets int64 `json:"packets"`
	// Evaluations is how often policy was evaluated. Packets that policy cannot tell apart share one.
	Evaluations int64 `json:"evaluations"`
	// Different is the number of packets for which the table has another result than policy.
	Different int64 `json:"different"`
	// Differences are the first of them, at most Config.Limit. Of packets that differ in protocol and
	// ports alone there is only the first.
	Differences []Difference `json:"differences"`
	// Complete says that the table and the world have nothing that this package cannot judge. If
	// it is false, Incomplete has the reasons. The packets that NotProved lists are left out in any case.
	Complete   bool     `json:"complete"`
	Incomplete []string `json:"incomplete,omitempty"`
	// NotProved lists the kinds of packets that were not run.
	NotProved []string `json:"notProved"`
}

// Agrees reports whether policy and table have the same result for all packets.
func (r Report) Agrees() bool { return r.Different == 0 }

// Difference is a packet for which the table has another result than policy.
type Difference struct {
	// Flow is the packet.
	Flow verdict.Flow `json:"flow"`
	// Allowed is the result of the table: the packet passes all hooks on its way.
	Allowed bool `json:"allowed"`
	// Explanation is the verdict of policy.
	Explanation *verdict.Explanation `json:"explanation"`
	// Steps are the rules of the table that the packet reached the end of.
	Steps []Step `json:"steps"`
}

// Step is a rule of the table that a packet reached the end of.
type Step struct {
	// Hook is the nft name of the hook, and Chain that of the chain.
	Hook  string `json:"hook"`
	Chain string `json:"chain"`
	// Rule is its number in the chain from 0, or -1 for the policy of a base chain.
	Rule int `json:"rule"`
	// Comment is the rule's.
	Comment string `json:"comment,omitempty"`
	// Verdict in nft syntax; empty if the rule has none.
	Verdict string `json:"verdict,omitempty"`
}

// String writes the difference over several lines. The text may change.
func (d Difference) String() string {
	result := "drops"
	if d.Allowed {
		result = "accepts"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: policy says %s, the table %s it\n", d.Flow, d.Explanation.Result.Combined, result)
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

// String writes the differences, the counts, and what was not proved. The text may change.
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

// notProved returns the kinds of packets that are never run.
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
