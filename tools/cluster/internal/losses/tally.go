// SPDX-License-Identifier: Apache-2.0

package losses

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

// Tally has the reports of the probers in one scenario. It is for one goroutine.
type Tally struct {
	Scenario   string
	Start, End time.Time
	// NoResends means that the scenario fails if TCP segments were sent again.
	NoResends  bool
	lines      []probe.Line
	exclusions []*Exclusion
	clients    map[string]bool // true: deleted in the scenario
	invalid    []string
}

// Add adds lines of probers. The lines may also be from before Start or after End: see Result.
func (t *Tally) Add(lines ...probe.Line) { t.lines = append(t.lines, lines...) }

// Exclude adds an exclusion, whose End the caller may set later.
func (t *Tally) Exclude(e *Exclusion) *Exclusion {
	t.exclusions = append(t.exclusions, e)
	return e
}

// RequireReports makes the results invalid if the client does not report between Start and End.
// They are also invalid if its last report is less than probe.AnswerLimit later than End, because
// an earlier report does not have the last losses. If the client's pod was deleted on purpose, pass
// true for deleted: the second condition is then not checked.
func (t *Tally) RequireReports(client string, deleted bool) {
	if t.clients == nil {
		t.clients = map[string]bool{}
	}
	t.clients[client] = deleted
}

// Invalidate makes the scenario fail because its results are invalid.
func (t *Tally) Invalidate(format string, args ...any) {
	t.invalid = append(t.invalid, fmt.Sprintf(format, args...))
}

// Row is the result of a scenario.
type Row struct {
	Scenario                                  string
	Duration                                  time.Duration
	DeniedSent, DeniedArrived, DeniedAnswered int // answered as the client counts
	AllowedSent, Lost, Resent, Slowest        int // Slowest in milliseconds
	Excluded                                  map[string]int
	Unexplained                               []string // losses
	Leaks                                     []string // denied probes that arrived or were answered
	Invalid                                   []string // reasons why the results are invalid
	Notes                                     []string
}

// Failed reports whether a denied probe leaked, an allowed one was lost for no known reason, or the
// results are invalid.
func (r Row) Failed() bool {
	return len(r.Invalid) > 0 || r.DeniedArrived > 0 || r.DeniedAnswered > 0 || len(r.Unexplained) > 0 ||
		r.AllowedSent == 0 || r.DeniedSent == 0
}

// Result counts the probes that were reported from Start to End, and the losses of probes that were
// sent in this time. It counts all denied probes that arrived after Start, also after End. A prober
// reports a loss some time after the probe. So lines from after End must be added, too, until all
// losses have been reported.
func (t *Tally) Result() Row {
	row := Row{Scenario: t.Scenario, Duration: t.End.Sub(t.Start), Excluded: map[string]int{}}
	start, end := t.Start.UnixMilli(), t.End.UnixMilli()
	exclusions := append(slices.Clone(t.exclusions), t.overflows()...)
	for _, e := range exclusions {
		e.used, e.usedNew = 0, 0
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
				if exclusions[i].isNew(line.Pod, loss) {
					exclusions[i].usedNew += loss.Count
				}
				row.Excluded[exclusions[i].Why] += loss.Count
				continue
			}
			row.Unexplained = append(row.Unexplained, describe(line.Pod, loss))
		}
	}
	slices.Sort(row.Unexplained)
	slices.Sort(row.Leaks)
	row.Invalid = slices.Concat(t.invalid, t.silent(start, end), t.restarted(start))
	for _, e := range exclusions {
		if text := e.tooMany(t.lines); text != "" {
			row.Invalid = append(row.Invalid, text)
		}
	}
	if t.NoResends && row.Resent > 0 {
		row.Unexplained = append(row.Unexplained, fmt.Sprintf("TCP sent %d segments again", row.Resent))
	}
	return row
}

// silent describes the clients that have not reported as RequireReports requires.
func (t *Tally) silent(start, end int64) []string {
	reported, last := map[string]bool{}, map[string]int64{}
	for _, line := range t.lines {
		if len(line.Counts) == 0 {
			continue
		}
		if line.Time > start && line.Time <= end {
			reported[line.Pod] = true
		}
		last[line.Pod] = max(last[line.Pod], line.Time)
	}
	var out []string
	for _, client := range slices.Sorted(maps.Keys(t.clients)) {
		switch deleted := t.clients[client]; {
		case !reported[client]:
			out = append(out, client+" reported nothing")
		case !deleted && last[client] < end+probe.AnswerLimit.Milliseconds():
			out = append(out, fmt.Sprintf("%s reported last at %s, before all its probes were answered or lost",
				client, clock(last[client])))
		}
	}
	return out
}

// restarted describes the probers that started while no exclusion held for their pods. The last
// losses of the one before are not known.
func (t *Tally) restarted(start int64) []string {
	var out []string
	for _, line := range t.lines {
		expected := func(e *Exclusion) bool {
			return len(e.Peers) == 0 && slices.Contains(e.Pods, line.Pod) && e.holds(line.Time, line.Time)
		}
		if len(line.Addresses) > 0 && line.Time > start && !slices.ContainsFunc(t.exclusions, expected) {
			out = append(out, fmt.Sprintf("%s started at %s for no known reason", line.Pod, clock(line.Time)))
		}
	}
	return out
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

// WhyOverflow is the heading of losses that a prober itself has caused.
const WhyOverflow = "full socket buffer of a prober"

// overflows returns exclusions for datagrams that arrived at a pod whose prober read too slowly.
// They are no more than the kernel counted.
func (t *Tally) overflows() []*Exclusion {
	const reported = 5 * time.Second // after the overflow, at most, on a busy host
	var out []*Exclusion
	for _, line := range t.lines {
		if line.Overflows > 0 {
			at := time.UnixMilli(line.Time)
			out = append(out, &Exclusion{
				Why: WhyOverflow, Pods: []string{line.Pod},
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
