// SPDX-License-Identifier: Apache-2.0

package losses

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

// logsTest writes and reads the log of one container.
type logsTest struct {
	*testing.T
	file string
	logs *Logs
}

func newLogsTest(t *testing.T) logsTest {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "faults-open_a_uid", "prober", "0.log")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	l := logsTest{t, file, NewLogs(filepath.Join(folder, "faults-*", "*", "*.log"))}
	t.Cleanup(l.logs.Close)
	return l
}

func (l logsTest) write(file, text string) {
	l.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		l.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		l.Fatal(err)
	}
}

// writeLines writes a line for each pod.
func (l logsTest) writeLines(file string, pods ...string) {
	l.Helper()
	for _, pod := range pods {
		l.write(file, "2026-11-26T18:00:00Z stdout F {\"time\":1,\"pod\":\""+pod+"\"}\n")
	}
}

func (l logsTest) read(want []string, wantProblems int) {
	l.Helper()
	lines, problems, err := l.logs.Read()
	if err != nil {
		l.Fatal(err)
	}
	var pods []string
	for _, line := range lines {
		pods = append(pods, line.Pod)
	}
	if !reflect.DeepEqual(pods, want) || len(problems) != wantProblems {
		l.Errorf("got %v and problems %q, want %v", pods, problems, want)
	}
}

func (l logsTest) do(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func TestLogsAreReadOnce(t *testing.T) {
	l := newLogsTest(t)
	l.read(nil, 0)
	l.writeLines(l.file, "a")
	l.write(l.file, "2026-11-26T18:00:01Z stdout F {\"time\":2,")
	l.read([]string{"a"}, 0)
	l.write(l.file, "\"pod\":\"b\"}\n2026-11-26T18:00:02Z stderr F prober: fault\n"+
		"2026-11-26T18:00:02Z stdout P {\"time\"\n")
	l.read([]string{"b"}, 2)
	l.read(nil, 0)
	// The pod is recreated with the same names, before and after a call.
	l.do(os.Remove(l.file))
	l.writeLines(l.file, "c", "d", "e", "f")
	l.read([]string{"c", "d", "e", "f"}, 0)
	l.do(os.Remove(l.file))
	for range 3 {
		l.read(nil, 0)
	}
	if n := len(l.logs.files); n != 0 {
		t.Errorf("%d files are open", n)
	}
	l.writeLines(l.file, "g")
	l.read([]string{"g"}, 0)
	l.do(os.Truncate(l.file, 0))
	l.read(nil, 0)
	l.writeLines(l.file, "h")
	l.read([]string{"h"}, 0)
}

// kubelet renames a large log. Then the container runtime opens a new one.
func TestRotatedLogsAreReadOnce(t *testing.T) {
	l := newLogsTest(t)
	rotated := l.file + ".20261126-180000"
	l.writeLines(l.file, "a", "b", "c")
	l.read([]string{"a", "b", "c"}, 0)

	// The new file is longer than the part of the old one that was read.
	l.writeLines(l.file, "d")
	l.do(os.Rename(l.file, rotated))
	l.writeLines(l.file, "f", "g", "h", "i", "j")
	l.writeLines(rotated, "e")
	l.read([]string{"d", "e", "f", "g", "h", "i", "j"}, 0)

	// The files are read between renaming and reopening, and the runtime still writes to the old
	// one. It is compressed at once.
	l.writeLines(l.file, "k")
	l.do(os.Rename(l.file, rotated))
	l.read([]string{"k"}, 0)
	l.read(nil, 0)
	l.read(nil, 0)
	l.writeLines(rotated, "l")
	l.read([]string{"l"}, 0)
	l.writeLines(rotated, "m")
	l.do(os.Remove(rotated))
	l.writeLines(l.file, "n")
	l.read([]string{"m", "n"}, 0)
	for range 3 {
		l.read(nil, 0)
	}
	if n := len(l.logs.files); n != 1 {
		t.Errorf("%d files are open", n)
	}
}

var start = time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC)

func at(seconds float64) int64 {
	return start.Add(time.Duration(seconds * float64(time.Second))).UnixMilli()
}

func instant(seconds float64) time.Time { return time.UnixMilli(at(seconds)) }

func loss(to string, service bool, first, last float64, count int, backend string) probe.Loss {
	return probe.Loss{
		Flow:  probe.Flow{To: to, Service: service, Proto: probe.UDP, Expect: probe.Allow},
		First: at(first), Last: at(last), Count: count, Backend: backend,
	}
}

func TestLossesAreAttributed(t *testing.T) {
	dead := Exclusion{
		Why: "dead", Pods: []string{"b"}, Backends: []string{"c"}, Services: []string{"web"},
		Start: instant(10), End: instant(20),
	}
	for _, c := range []struct {
		name string
		from string
		loss probe.Loss
		want bool
	}{
		{"to the pod", "a", loss("b", false, 11, 12, 5, ""), true},
		{"from the pod", "b", loss("a", false, 11, 12, 5, ""), true},
		{"other pair", "a", loss("d", false, 11, 12, 5, ""), false},
		{"too early", "a", loss("b", false, 9.9, 12, 5, ""), false},
		{"beyond the end", "a", loss("b", false, 19.5, 20.1, 5, ""), false},
		{"directly to a backend", "a", loss("c", false, 11, 12, 5, ""), false},
		{"new flow to the service", "a", loss("web", true, 11, 11, 1, ""), true},
		{"new flow to another service", "a", loss("db", true, 11, 11, 1, ""), false},
		{"a flow that a dead backend answered", "a", loss("web", true, 11, 11, 1, "c"), true},
		{"a flow that a live backend answered", "a", loss("web", true, 11, 11, 1, "d"), false},
	} {
		if got := dead.covers(c.from, c.loss); got != c.want {
			t.Errorf("%s: covers = %v", c.name, got)
		}
	}
	peers := Exclusion{Pods: []string{"b"}, Peers: []string{"c"}, Start: instant(10), End: instant(20)}
	for _, c := range []struct {
		from string
		loss probe.Loss
		want bool
	}{
		{"b", loss("c", false, 11, 11, 1, ""), true},
		{"c", loss("b", false, 11, 11, 1, ""), true},
		{"b", loss("d", false, 11, 11, 1, ""), false},
		{"d", loss("b", false, 11, 11, 1, ""), false},
		{"b", loss("web", true, 11, 11, 1, ""), true},
		{"b", loss("web", true, 11, 11, 1, "c"), true},
		{"b", loss("web", true, 11, 11, 1, "d"), false},
	} {
		if got := peers.covers(c.from, c.loss); got != c.want {
			t.Errorf("peers: from %s %+v: covers = %v", c.from, c.loss, got)
		}
	}
	open := dead
	open.End = time.Time{}
	if !open.covers("a", loss("b", false, 1000, 1000, 1, "")) {
		t.Error("an exclusion without end ended")
	}
}

func TestResultOfScenario(t *testing.T) {
	tally := Tally{Scenario: "1", Start: instant(0), End: instant(100)}
	counts := func(expect probe.Verdict, sent, answered int) probe.Count {
		return probe.Count{Flow: probe.Flow{To: "b", Expect: expect, Proto: probe.UDP}, Sent: sent, Answered: answered}
	}
	tally.Exclude(&Exclusion{Why: "dead", Pods: []string{"b"}, Start: instant(10), End: instant(20)})
	tally.Add(
		probe.Line{
			Time: at(-1), Pod: "a", Counts: []probe.Count{counts(probe.Allow, 1000, 1000)},
			Losses: []probe.Loss{loss("b", false, -5, -5, 1, "")},
		},
		probe.Line{Time: at(5), Pod: "a", Counts: []probe.Count{counts(probe.Allow, 100, 90), counts(probe.Deny, 40,
			0), counts(probe.Either, 9, 3)}},
		probe.Line{Time: at(30), Pod: "a", Losses: []probe.Loss{loss("b", false, 11, 12, 10, "")}},
		// Two overflows explain the first of these, and not the second.
		probe.Line{Time: at(52), Pod: "c", Overflows: 2},
		probe.Line{Time: at(60), Pod: "a", Losses: []probe.Loss{loss("c", false, 50, 50, 2, ""), loss("c", false,
			51, 51, 1, "")}},
		probe.Line{
			Time: at(110), Pod: "a", Counts: []probe.Count{counts(probe.Allow, 1000, 1000)},
			Losses: []probe.Loss{loss("b", false, 101, 101, 1, "")},
		},
	)
	row := tally.Result()
	if row.AllowedSent != 100 || row.DeniedSent != 40 || row.DeniedArrived != 0 || row.DeniedAnswered != 0 ||
		row.Lost != 13 {
		t.Errorf("counts: %+v", row)
	}
	if want := map[string]int{
		"dead":                           10,
		"full socket buffer of a prober": 2,
	}; !reflect.DeepEqual(row.Excluded, want) {
		t.Errorf("excluded: %v", row.Excluded)
	}
	if len(row.Unexplained) != 1 || !strings.Contains(row.Unexplained[0], "18:00:51.000") || !row.Failed() {
		t.Errorf("unexplained: %q", row.Unexplained)
	}
	var table strings.Builder
	WriteTable(&table, []Row{row})
	if !strings.Contains(table.String(),
		"| 1 | 1m40s | 40 | 0 | 0 | 100 | 13 | 10: dead; 2: full socket buffer of a prober | 1 | 0 | 0 ms |") {
		t.Error(table.String())
	}
}

// An exclusion of new flows holds for a share of them only.
func TestTooManyNewFlowsLost(t *testing.T) {
	for lost, fails := range map[int]bool{20: false, 60: false, 71: true} {
		tally := Tally{Start: instant(0), End: instant(100)}
		tally.Exclude(&Exclusion{
			Why: "dead backend", Pods: []string{"x"}, Services: []string{"s"}, Start: instant(10), End: instant(20),
			MaxShare: 0.6,
		})
		flow := probe.Flow{To: "s", Service: true, Proto: probe.TCP, Expect: probe.Allow}
		long, denied, other := flow, flow, flow
		long.Proto, denied.Expect, other.To = probe.UDP, probe.Deny, "o"
		counts := func(sent int) []probe.Count {
			return []probe.Count{
				{Flow: flow, Sent: sent}, {Flow: long, Sent: 999}, {Flow: denied, Sent: 999}, {Flow: other, Sent: 999},
			}
		}
		tally.Add(
			probe.Line{Time: at(9), Pod: "a", Counts: counts(999)},
			probe.Line{Time: at(12), Pod: "a", Counts: counts(60)},
			probe.Line{Time: at(13), Pod: "x", Counts: counts(999)},
			probe.Line{Time: at(22), Pod: "a", Counts: counts(40)},
			probe.Line{Time: at(30), Pod: "a", Counts: counts(999), Losses: []probe.Loss{
				{Flow: flow, First: at(11), Last: at(19), Count: lost},
			}},
			probe.Line{Time: at(30), Pod: "x", Losses: []probe.Loss{
				{Flow: flow, First: at(11), Last: at(19), Count: 999},
			}},
		)
		row := tally.Result()
		if row.Failed() != fails || len(row.Unexplained) > 0 {
			t.Errorf("%d lost: %+v", lost, row)
		}
	}
}

// Segments that were sent again are losses where no packet may be lost.
func TestResends(t *testing.T) {
	for _, counted := range []bool{false, true} {
		tally := Tally{Start: instant(0), End: instant(10), NoResends: counted}
		tally.Add(probe.Line{Time: at(5), Pod: "a", Counts: []probe.Count{
			{Flow: probe.Flow{Expect: probe.Allow}, Sent: 1, Answered: 1, Resent: 2},
			{Flow: probe.Flow{Expect: probe.Deny}, Sent: 1},
		}})
		if row := tally.Result(); row.Failed() != counted {
			t.Errorf("%t: %+v", counted, row)
		}
	}
}

func TestLeaksFail(t *testing.T) {
	base := []probe.Line{{Time: at(5), Pod: "a", Counts: []probe.Count{
		{Flow: probe.Flow{Expect: probe.Allow}, Sent: 1, Answered: 1}, {Flow: probe.Flow{Expect: probe.Deny}, Sent: 1},
	}}}
	for name, line := range map[string]probe.Line{
		"":        {Time: at(6), Pod: "a"},
		"arrived": {Time: at(6), Pod: "b", Leaks: []probe.Leak{{From: "a", Proto: probe.TCP, First: at(5), Count: 3}}},
		"answered": {Time: at(6), Pod: "a", Counts: []probe.Count{{
			Flow: probe.Flow{Expect: probe.Deny}, Sent: 1,
			Answered: 1,
		}}},
	} {
		tally := Tally{Start: instant(0), End: instant(10)}
		tally.Add(append(base, line)...)
		row := tally.Result()
		if row.Failed() != (name != "") || len(row.Leaks) != min(len(name), 1) {
			t.Errorf("%q: %+v", name, row)
		}
	}
	silent := Tally{Start: instant(0), End: instant(10)}
	if !silent.Result().Failed() {
		t.Error("a scenario without probes passed")
	}
}

func TestSilentAndRestartedProbersFail(t *testing.T) {
	report := func(pod string, seconds float64) probe.Line {
		return probe.Line{Time: at(seconds), Pod: pod, Counts: []probe.Count{
			{Flow: probe.Flow{Expect: probe.Allow}, Sent: 1, Answered: 1},
			{Flow: probe.Flow{Expect: probe.Deny}, Sent: 1},
		}}
	}
	for _, c := range []struct {
		name    string
		lines   []probe.Line
		deleted bool
		want    []string
	}{
		{"reports", []probe.Line{report("b", 5), report("b", 72)}, false, nil},
		{"deleted", []probe.Line{report("b", 5)}, true, nil},
		{"died", []probe.Line{report("b", 5), report("b", 69)}, false, []string{
			"b reported last at 18:01:09.000, before all its probes were answered or lost",
		}},
		{"was never read", nil, false, []string{"b reported nothing"}},
		{"came late", []probe.Line{report("b", -1), report("b", 72)}, false, []string{"b reported nothing"}},
		{"deleted too early", []probe.Line{report("b", -1)}, true, []string{"b reported nothing"}},
		{"only started", []probe.Line{{Time: at(5), Pod: "b", Addresses: []string{"10.0.0.1"}}}, true, []string{
			"b reported nothing", "b started at 18:00:05.000 for no known reason",
		}},
	} {
		tally := Tally{Start: instant(0), End: instant(10)}
		tally.RequireReports("a", false)
		tally.RequireReports("b", c.deleted)
		tally.Add(report("a", 5), report("a", 72))
		tally.Add(c.lines...)
		row := tally.Result()
		if !reflect.DeepEqual(row.Invalid, c.want) || row.Failed() != (c.want != nil) {
			t.Errorf("%s: %q, failed: %v", c.name, row.Invalid, row.Failed())
		}
	}
	tally := Tally{Scenario: "idle", Start: instant(0), End: instant(10)}
	tally.Exclude(&Exclusion{Pods: []string{"a"}, Start: instant(4), End: instant(6)})
	tally.Exclude(&Exclusion{Pods: []string{"a"}, Peers: []string{"b"}, Start: instant(0)})
	tally.Add(report("a", 5))
	for _, seconds := range []float64{-1, 5, 7} {
		tally.Add(probe.Line{Time: at(seconds), Pod: "a", Addresses: []string{"10.0.0.1"}})
	}
	tally.Invalidate("the log of %s was never read", "server")
	var table, details strings.Builder
	row := tally.Result()
	WriteTable(&table, []Row{row})
	WriteDetails(&details, row)
	const silent, restarted = "INVALID: the log of server was never read\n",
		"INVALID: a started at 18:00:07.000 for no known reason\n"
	if !row.Failed() || !strings.Contains(table.String(), "- idle: "+silent+"- idle: "+restarted) ||
		details.String() != "- "+silent+"- "+restarted {
		t.Errorf("%s%s", table.String(), details.String())
	}
}
