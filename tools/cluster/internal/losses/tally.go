// SPDX-License-Identifier: Apache-2.0

package losses

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

// Tally has what the probers reported in one scenario. It is for one goroutine.
type Tally struct {
	Scenario   string
	Start, End time.Time
	lines      []probe.Line
	exclusions []*Exclusion
}

// Add adds lines of probers. Those of another time are ignored.
func (t *Tally) Add(lines ...probe.Line) { t.lines = append(t.lines, lines...) }

// Exclude adds an exclusion, whose End the caller may set later.
func (t *Tally) Exclude(e *Exclusion) *Exclusion {
	t.exclusions = append(t.exclusions, e)
	return e
}

// Row is the result of a scenario.
type Row struct {
	Scenario                                  string
	Duration                                  time.Duration
	DeniedSent, DeniedArrived, DeniedAnswered int // answered as the client counts
	AllowedSent, Lost, Resent, Slowest        int // Slowest in milliseconds
	Excluded                                  map[string]int
	Unexplained                               []string // losses
	Leaks                                     []string
	Notes                                     []string
}

// Failed reports whether a denied probe passed, or an allowed one was lost for no known
// reason.
func (r Row) Failed() bool {
	return r.DeniedArrived > 0 || r.DeniedAnswered > 0 || len(r.Unexplained) > 0 ||
		r.AllowedSent == 0 || r.DeniedSent == 0
}

// Judge counts the probes that were sent from Start to End. Losses are reported some time later, so
// Add needs the lines of that time, too.
func (t *Tally) Judge() Row {
	row := Row{Scenario: t.Scenario, Duration: t.End.Sub(t.Start), Excluded: map[string]int{}}
	start, end := t.Start.UnixMilli(), t.End.UnixMilli()
	exclusions := append(slices.Clone(t.exclusions), t.overflows()...)
	for _, e := range exclusions {
		e.used = 0
	}
	for _, line := range t.lines {
		if line.Time > start && line.Time <= end {
			row.count(line)
		}
		for _, leak := range line.Leaks {
			if leak.First >= start { // also while the last reports arrive
				row.DeniedArrived += leak.Count
				row.Leaks = append(row.Leaks, fmt.Sprintf("%s %s from %s to %s: %d arrived",
					clock(leak.First), leak.Proto, leak.From, line.Pod, leak.Count))
			}
		}
		for _, loss := range line.Losses {
			if loss.First < start || loss.First > end {
				continue
			}
			row.Lost += loss.Count
			i := slices.IndexFunc(exclusions, func(e *Exclusion) bool { return e.covers(line.Pod, loss) })
			if i >= 0 {
				exclusions[i].used += loss.Count
				row.Excluded[exclusions[i].Why] += loss.Count
				continue
			}
			row.Unexplained = append(row.Unexplained, describe(line.Pod, loss))
		}
	}
	slices.Sort(row.Unexplained)
	slices.Sort(row.Leaks)
	return row
}

func (r *Row) count(line probe.Line) {
	for _, count := range line.Counts {
		switch count.Expect {
		case probe.Allow:
			r.AllowedSent += count.Sent
			r.Resent += count.Resent
			r.Slowest = max(r.Slowest, count.Slowest)
		case probe.Deny:
			r.DeniedSent += count.Sent
			r.DeniedAnswered += count.Answered
			if count.Answered > 0 {
				r.Leaks = append(r.Leaks, fmt.Sprintf("%s %s from %s to %s (%s): %d answered",
					clock(line.Time), count.Proto, line.Pod, count.To, count.Address, count.Answered))
			}
		}
	}
}

// overflows returns exclusions for datagrams that arrived at a pod whose prober read too slowly. They
// are no more than the kernel counted.
func (t *Tally) overflows() []*Exclusion {
	const reported = 5 * time.Second // after the overflow, at most, on a busy host
	var out []*Exclusion
	for _, line := range t.lines {
		if line.Overflows > 0 {
			at := time.UnixMilli(line.Time)
			out = append(out, &Exclusion{
				Why: "buffer of a prober's socket was full", Pods: []string{line.Pod},
				Start: at.Add(-reported), End: at, Limit: line.Overflows,
			})
		}
	}
	return out
}

func describe(from string, loss probe.Loss) string {
	to := loss.To
	if loss.Service {
		to = "service " + to
		if loss.Backend != "" {
			to += " (last " + loss.Backend + ")"
		}
	}
	return fmt.Sprintf("%s to %s %s from %s to %s at %s: %d lost",
		clock(loss.First), clock(loss.Last), loss.Proto, from, to, loss.Address, loss.Count)
}

func clock(milliseconds int64) string {
	return time.UnixMilli(milliseconds).UTC().Format("15:04:05.000")
}

// reasons returns the reasons of excluded losses in order.
func (r Row) reasons() []string { return slices.Sorted(maps.Keys(r.Excluded)) }
