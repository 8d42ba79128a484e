// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// table has the results of a suite.
type table struct {
	suite    suite
	version  string
	duration time.Duration
	results  []result
}

// check returns an error if the suite failed without a failed test, or if too few tests ran. The
// argument ended is the error with which the program of the suite ended.
func (t table) check(ended error, focus string) error {
	ran := t.count(passed) + t.count(failed)
	switch {
	case ran == 0:
		return errors.New("no test ran: all are skipped or excluded")
	case focus == "" && ran < t.suite.minTests:
		return fmt.Errorf("only %d tests ran, of at least %d", ran, t.suite.minTests)
	case ended != nil && t.count(failed) == 0:
		return fmt.Errorf("the program failed, but no test did: %w", ended)
	}
	return nil
}

func (t table) count(o outcome) int { return len(t.with(o)) }

func (t table) with(o outcome) []result {
	var out []result
	for _, r := range t.results {
		if r.outcome == o {
			out = append(out, r)
		}
	}
	return out
}

// why returns the reason for a test, or "".
func why(reasons []reason, test string) string {
	for _, r := range reasons {
		if strings.Contains(test, r.test) {
			return r.why
		}
	}
	return ""
}

// writeTables writes Markdown: a line for each suite, and one for each test that did not pass.
func writeTables(out io.Writer, tables []table) {
	fmt.Fprintln(out,
		"| suite | version | passed | failed | skipped | excluded | time |\n|---|---|---|---|---|---|---|")
	for _, t := range tables {
		fmt.Fprintf(out, "| %s | %s | %d | %d | %d | %d | %s |\n", t.suite.title, t.version,
			t.count(passed), t.count(failed), t.count(skipped), t.count(excluded), t.duration.Round(time.Second))
	}
	for _, t := range tables {
		for _, o := range []outcome{failed, skipped, excluded} {
			for _, r := range t.with(o) {
				fmt.Fprintf(out, "- %s %s: %s: %s\n", t.suite.name, o, r.test, oneLine(r.message))
			}
		}
	}
}

// oneLine shortens a message to its first line.
func oneLine(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	if len(line) > 200 {
		line = line[:200] + "..."
	}
	return line
}
