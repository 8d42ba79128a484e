// SPDX-License-Identifier: Apache-2.0

package report

import "time"

// SkipReportPause makes the next Run write the node's report at once. It must not be called during
// Run.
func (r *Reporter) SkipReportPause() { r.report.next = time.Time{} }

// Waiting returns the length of the backlogs.
func (r *Reporter) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.backlogs[eventTask].waiting) + len(r.backlogs[conditionTask].waiting)
}
