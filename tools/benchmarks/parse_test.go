// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"strings"
	"testing"
)

// TestResultsOfSeveralRunsAreMerged has lines as `go test -bench` prints them. Load has units of
// package testing. Churn has minima and medians that the benchmark computed. In Routes, the minimum
// and the median are not a pair, because the forms of their units differ.
func TestResultsOfSeveralRunsAreMerged(t *testing.T) {
	runs, err := parseRuns(strings.NewReader(`goos: linux
pkg: example.com/x
BenchmarkLoad/eps=25k/pols-1-2 	       1	 300.5 ns/op	 20 B/op	 3 allocs/op
BenchmarkLoad/eps=25k/pols-1-2 	       1	 100 ns/op	 20 B/op	 3 allocs/op
BenchmarkLoad/eps=25k/pols-1-2 	       1	 200 ns/op	 20 B/op	 3 allocs/op
BenchmarkChurn-16	 9	 5 min-ns/step	 9 median-ns/step	 4 us-min	 6 us-median
BenchmarkChurn-16	 9	 6 min-ns/step	 7 median-ns/step	 3 us-min	 8 us-median
BenchmarkRoutes  	 9	 5 min-ms	 9 ms-median
BenchmarkNot a result
--- BENCH: BenchmarkRoutes
PASS
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Result{
		{"Load/eps=25k/pols-1", 3, map[string]Figure{"ns/op": {100, 200}, "B/op": {20, 20}, "allocs/op": {3, 3}}},
		{"Churn", 2, map[string]Figure{"ns/step": {5, 7}, "us": {3, 6}}},
		{"Routes", 1, map[string]Figure{"min-ms": {5, 5}, "ms-median": {9, 9}}},
	}
	if got := merge(runs); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestMalformedFigureIsAnError(t *testing.T) {
	if _, err := parseRuns(strings.NewReader("BenchmarkX 1 many ns/op\n")); err == nil {
		t.Error("no error")
	}
}

func TestFiguresAreShownInTheirScale(t *testing.T) {
	for _, tt := range []struct {
		unit   string
		values []float64
		want   string
	}{
		{"ns/op", []float64{4.3}, "4.30 ns"},
		{"ns/op", []float64{590e6, 620e6}, "590 / 620 ms"},
		{"ns/op", []float64{940e3, 1222e3}, "940 / 1,222 µs"},
		{"us/median", []float64{1500}, "1.50 ms"},
		{"send-ns/flow", []float64{9700, 10600}, "9.70 / 10.6 µs"},
		{"s/proof", []float64{7.7, 7.7}, "7.70 s"},
		{"heap-B/endpoint", []float64{191}, "191 B"},
		{"rss-MiB", []float64{100}, "105 MB"},
		{"allocs/op", []float64{400123}, "400,123"},
		{"allocs/op", []float64{0}, "0"},
		{"x-raw", []float64{1.066}, "1.07x"},
		{"updates/s", []float64{998}, "998 a second"},
		{"missed/flow", []float64{0.25}, "0.25"},
	} {
		if got := format(tt.unit, tt.values...); got != tt.want {
			t.Errorf("%s %v: got %q, want %q", tt.unit, tt.values, got, tt.want)
		}
	}
}

func TestQuantitiesOfTargets(t *testing.T) {
	for _, tt := range []struct {
		text, unit string
		want       float64
		ok         bool
	}{
		{"0.6 s, 3 M allocs", "ns/op", 0.6e9, true},
		{"1 µs, 0 B", "ns/step", 1000, true},
		{"100 ms", "p99-ms", 100, true},
		{"150 MB", "heap-MB", 150, true},
		{"1,024 B", "B/op", 1024, true},
		{"1.25 times raw", "ms", 0, false},
		{"linear", "ns/op", 0, false},
		{"", "ns/op", 0, false},
		{"250 MB", "ns/op", 0, false},
	} {
		got, ok := parseQuantity(tt.text, tt.unit)
		if ok != tt.ok || ok && (got < tt.want*0.999 || got > tt.want*1.001) {
			t.Errorf("%q in %s: got %v, %t, want %v, %t", tt.text, tt.unit, got, ok, tt.want, tt.ok)
		}
	}
}
