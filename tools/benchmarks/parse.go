// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// benchRun is one line of `go test -bench`: one run of a benchmark.
type benchRun struct {
	name   string
	values map[string]float64 // by unit
}

// processors is the number of processors that `go test` appends to a name.
var processors = regexp.MustCompile(`-\d+$`)

// parseRuns reads the output of `go test -bench`. Names are without the word Benchmark.
func parseRuns(r io.Reader) ([]benchRun, error) {
	var runs []benchRun
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(fields[1]); err != nil {
			continue
		}
		one := benchRun{
			name:   processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), ""),
			values: map[string]float64{},
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("parse line %q: %w", lines.Text(), err)
			}
			one.values[fields[i+1]] = value
		}
		runs = append(runs, one)
	}
	return runs, lines.Err()
}

// merge returns a result for each name, in the order of the first runs.
func merge(runs []benchRun) []Result {
	var results []Result
	byName := map[string][]benchRun{}
	for _, r := range runs {
		if byName[r.name] == nil {
			results = append(results, Result{Name: r.name})
		}
		byName[r.name] = append(byName[r.name], r)
	}
	for i := range results {
		mine := byName[results[i].Name]
		results[i].Runs, results[i].Figures = len(mine), figures(mine)
	}
	return results
}

// figures merges the values of all runs of one benchmark.
func figures(runs []benchRun) map[string]Figure {
	minima, medians := map[string][]float64{}, map[string][]float64{}
	for _, r := range runs {
		for unit, value := range r.values {
			base, statistic := r.statistic(unit)
			if statistic != "median" {
				minima[base] = append(minima[base], value)
			}
			if statistic != "min" {
				medians[base] = append(medians[base], value)
			}
		}
	}
	merged := map[string]Figure{}
	for unit, values := range minima {
		merged[unit] = Figure{Min: slices.Min(values), Median: median(medians[unit])}
	}
	return merged
}

// statistic splits a unit such as "min-ns/step" or "ms-median" into the unit and the word, if the
// run has both of them.
func (r benchRun) statistic(unit string) (base, word string) {
	for word, other := range map[string]string{"min": "median", "median": "min"} {
		if base, ok := strings.CutPrefix(unit, word+"-"); ok && r.has(other+"-"+base) {
			return base, word
		}
		if base, ok := strings.CutSuffix(unit, "-"+word); ok && r.has(base+"-"+other) {
			return base, word
		}
	}
	return unit, ""
}

func (r benchRun) has(unit string) bool {
	_, ok := r.values[unit]
	return ok
}

// median returns the lower of the two in the middle if their number is even.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
