// SPDX-License-Identifier: Apache-2.0

package losses

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// maxDetails is the number of leaks, and of losses, that are listed for a scenario.
const maxDetails = 20

// WriteTable writes a table in Markdown, and then the notes, invalid results, leaks and unexplained
// losses of each scenario.
func WriteTable(out io.Writer, rows []Row) {
	fmt.Fprintln(out,
		"| scenario | time | denied sent | arrived | answered | allowed sent | lost | of these excluded | unexplained "+
			"| TCP sent again | slowest answer |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		var excluded []string
		total := 0
		for _, why := range r.reasons() {
			excluded = append(excluded, fmt.Sprintf("%d: %s", r.Excluded[why], why))
			total += r.Excluded[why]
		}
		if len(excluded) == 0 {
			excluded = []string{"none"}
		}
		fmt.Fprintf(out, "| %s | %s | %d | %d | %d | %d | %d | %s | %d | %d | %d ms |\n",
			r.Scenario, r.Duration.Round(time.Second), r.DeniedSent, r.DeniedArrived, r.DeniedAnswered,
			r.AllowedSent, r.Lost, strings.Join(excluded, "; "), r.Lost-total, r.Resent, r.Slowest)
	}
	fmt.Fprintln(out)
	for _, r := range rows {
		for _, note := range r.Notes {
			fmt.Fprintf(out, "- %s: %s\n", r.Scenario, note)
		}
		writeDetails(out, r.Scenario+": INVALID", r.Invalid, maxDetails)
		writeDetails(out, r.Scenario+": LEAK", r.Leaks, maxDetails)
		writeDetails(out, r.Scenario+": UNEXPLAINED", r.Unexplained, maxDetails)
	}
}

// WriteDetails writes all invalid results, leaks and unexplained losses of a scenario.
func WriteDetails(out io.Writer, r Row) {
	writeDetails(out, "INVALID", r.Invalid, len(r.Invalid))
	writeDetails(out, "LEAK", r.Leaks, len(r.Leaks))
	writeDetails(out, "UNEXPLAINED", r.Unexplained, len(r.Unexplained))
}

func writeDetails(out io.Writer, heading string, details []string, limit int) {
	for i, detail := range details {
		if i == limit {
			fmt.Fprintf(out, "- %s: and %d more lines\n", heading, len(details)-i)
			return
		}
		fmt.Fprintf(out, "- %s: %s\n", heading, detail)
	}
}
