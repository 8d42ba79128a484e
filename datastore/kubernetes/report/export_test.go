// SPDX-License-Identifier: Apache-2.0

package report

import "time"

// SkipReportPause makes the next Run write the node's report at once. Run must not run.
func (r *Reporter) SkipReportPause() { r.report.next = time.Time{} }
