// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/losses"
	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

func testFaultRun() *faultRun {
	r := &faultRun{
		services: map[string][]string{"guarded": {"10.96.0.7", "fd00:96::7"}, "open": {"10.96.0.8"}},
		pods:     map[string]*proberPod{}, overrides: map[[2]string]probe.Verdict{},
	}
	for _, kind := range podKinds() {
		for i, node := range []string{"node1", "node2"} {
			pod := &proberPod{podKind: kind, node: node}
			if kind.server {
				pod.addresses = []string{"10.0.0." + string(rune('1'+i)) + kind.name[:1]}
			}
			r.pods[pod.name()] = pod
		}
	}
	return r
}

func TestEveryServerIsATargetOfEveryClient(t *testing.T) {
	r := testFaultRun()
	for client, allowed := range map[string][]string{
		"friend": {"guarded"}, "partner": {"guarded"}, "stranger": {"open"}, "banned": nil, "guest": {
			"guarded",
			"open",
		},
	} {
		targets := r.targetsOf(r.pods[client+"-node1"]).Targets
		if len(targets) != 7 {
			t.Errorf("%s has %d targets", client, len(targets))
		}
		for _, target := range targets {
			kind := target.Name
			if !target.Service {
				kind = r.pods[target.Name].podKind.name
			}
			want := probe.Deny
			if slices.Contains(allowed, kind) {
				want = probe.Allow
			}
			if target.Expect != want {
				t.Errorf("%s to %s: %s", client, target.Name, target.Expect)
			}
		}
	}
}

func TestOverridesOfPodsAndKinds(t *testing.T) {
	r := testFaultRun()
	r.overrides[[2]string{"stranger", "guarded"}] = probe.Allow
	r.overrides[[2]string{"stranger-node1", "guarded-node2"}] = probe.Either
	got := map[string]probe.Verdict{}
	for _, target := range r.targetsOf(r.pods["stranger-node1"]).Targets {
		got[target.Name] = target.Expect
	}
	if got["guarded-node1"] != probe.Allow || got["guarded-node2"] != probe.Either || got["guarded"] != probe.Allow ||
		got["open"] != probe.Allow {
		t.Errorf("%v", got)
	}
}

func TestChangedBackendsAreFound(t *testing.T) {
	slice := func(ready ...bool) (s endpointSlice) {
		s.Metadata.Name = "guarded-1"
		for i, r := range ready {
			var e endpoint
			e.TargetRef.Name, e.Conditions.Ready = []string{"guarded-node1", "guarded-node2"}[i], r
			s.Endpoints = append(s.Endpoints, e)
		}
		return s
	}
	known := map[string]map[string]bool{}
	var changed []string
	for _, s := range []endpointSlice{slice(true, false), slice(true, false), slice(false, true), slice(false)} {
		for _, c := range endpointsChanged(known, s) {
			changed = append(changed, fmt.Sprint(c.pod, " ", c.ready))
		}
	}
	slices.Sort(changed)
	want := []string{"guarded-node1 false", "guarded-node2 false", "guarded-node2 true"}
	if !slices.Equal(changed, want) {
		t.Errorf("changed: %q", changed)
	}
}

// New flows through a service are excluded while a ready backend does not listen, and no longer.
func TestReturnedBackendsAreExcludedUntilTheyListen(t *testing.T) {
	r := testFaultRun()
	r.ready, r.starts = map[string]time.Time{}, map[string]probe.Line{}
	now := time.Now()
	r.tally = &losses.Tally{Start: now.Add(-time.Hour), End: now.Add(time.Hour)}
	for _, change := range []endpointChange{
		{"guarded-node1", true},
		{"guarded-node2", false},
		{"guarded-node2", true},
		{"guarded-node2", true},
		{"open-node1", true},
		{"open-node2", true},
		{"open-node2", false},
		{"friend-node2", true},
	} {
		r.excludeBackend(change)
	}
	for name, listening := range map[string]time.Duration{
		"guarded-node2": 3 * time.Second, // after it is ready
		"open-node1":    -5 * time.Second,
		"open-node2":    9 * time.Second, // it is not ready
		"friend-node2":  9 * time.Second, // no backend
	} {
		r.starts[name] = probe.Line{Time: now.Add(listening).UnixMilli()}
	}
	r.excludeUntilListening([]string{"guarded-node2", "open-node1", "open-node2", "friend-node2"})
	for _, c := range []struct {
		service string
		at      time.Duration
		want    bool
	}{
		{"guarded", -3 * time.Second, false},
		{"guarded", -time.Second, true},
		{"guarded", 2 * time.Second, true},
		{"guarded", 4 * time.Second, false},
		{"open", -time.Second, false},
		{"open", 2 * time.Second, false},
	} {
		tally := *r.tally
		tally.Add(probe.Line{Time: now.UnixMilli(), Pod: "partner-node1", Losses: []probe.Loss{{
			Flow:  probe.Flow{To: c.service, Service: true, Proto: probe.TCP, Expect: probe.Allow},
			First: now.Add(c.at).UnixMilli(), Last: now.Add(c.at).UnixMilli(), Count: 1,
		}}})
		if row := tally.Result(); (row.Excluded["backend that does not listen yet"] == 1) != c.want {
			t.Errorf("%s at %s: %v", c.service, c.at, row.Excluded)
		}
	}
}

// The section of docs/cluster.md has a paragraph for each cause, and no other.
func TestDocumentHasAllExclusions(t *testing.T) {
	content, err := os.ReadFile("../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n### What is excluded\n")
	section, _, _ = strings.Cut(section, "\n### ")
	var found []string
	for line := range strings.Lines(section) {
		if text, ok := strings.CutPrefix(line, "- **"); ok {
			heading, _, _ := strings.Cut(text, ".**")
			found = append(found, strings.ToLower(heading[:1])+heading[1:])
		}
	}
	want := []string{losses.WhyOverflow}
	for c := range causes {
		want = append(want, c.String())
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("docs/cluster.md has %q, want %q", found, want)
	}
}

func TestEveryProberMustReport(t *testing.T) {
	start := time.Now().Add(-time.Hour)
	r := testFaultRun()
	r.tally = &losses.Tally{Start: start, End: start.Add(time.Minute)}
	r.starts = map[string]probe.Line{}
	for name := range r.pods {
		if name == "guarded-node2" || name == "friend-node1" {
			continue
		}
		r.starts[name] = probe.Line{}
		if name == "afterbackup-node1" {
			continue
		}
		for _, at := range []time.Duration{time.Second, 2 * time.Minute} {
			r.add([]probe.Line{{
				Time: start.Add(at).UnixMilli(), Pod: name,
				Counts: []probe.Count{{Flow: probe.Flow{Expect: probe.Deny}, Sent: 1}},
			}})
		}
	}
	r.add([]probe.Line{{
		Time: start.Add(time.Second).UnixMilli(), Pod: "afterbackup-node2",
		Counts: []probe.Count{{Flow: probe.Flow{Expect: probe.Allow}, Sent: 1}},
	}})
	r.removePod("afterbackup-node2") // it has reported
	r.removePod("afterbackup-node1")
	want := []string{
		"the log of guarded-node2 was never read", "afterbackup-node1 reported nothing",
		"friend-node1 reported nothing",
	}
	if row := r.result(); !slices.Equal(row.Invalid, want) || !row.Failed() {
		t.Errorf("invalid: %q", row.Invalid)
	}
}

func TestAgentHasApplied(t *testing.T) {
	const revision = 70
	for kinds, want := range map[string]bool{
		`{"kind":"pods","revision":"70"},{"kind":"nodes"}`:                   true,
		`{"kind":"pods","revision":"69"}`:                                    false,
		`{"kind":"pods","revision":"70"},{"kind":"nodes","error":"refused"}`: false,
	} {
		status := `{"kubernetes":{"inSync":true,"kinds":[` + kinds + `]}}`
		if got, err := hasApplied([]byte(status), revision); got != want || err != nil {
			t.Errorf("%s: %v, %v", status, got, err)
		}
	}
	for _, status := range []string{
		`{}`,
		`{"kubernetes":{"inSync":false,"kinds":[{"kind":"pods","revision":"70"}]}}`,
		`{"pending":true,"kubernetes":{"inSync":true,"kinds":[{"kind":"pods","revision":"70"}]}}`,
	} {
		if got, err := hasApplied([]byte(status), revision); got || err != nil {
			t.Errorf("%s: %v, %v", status, got, err)
		}
	}
}

func TestAddressesAreComparedByValue(t *testing.T) {
	if !sameAddresses([]string{"10.0.0.1", "fd00::0:1"}, []string{"fd00::1", "10.0.0.1"}) {
		t.Error("equal addresses differ")
	}
	if sameAddresses([]string{"10.0.0.1"}, []string{"10.0.0.1", "fd00::1"}) {
		t.Error("different addresses are equal")
	}
}
