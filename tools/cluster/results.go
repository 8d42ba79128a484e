// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// junit is the part of a report in the format of JUnit that is used here. The root is one suite, or
// a list of suites.
type junit struct {
	Cases  []junitCase `xml:"testcase"`
	Suites []junit     `xml:"testsuite"`
}

type junitCase struct {
	Name    string   `xml:"name,attr"`
	Skipped *message `xml:"skipped"`
	Failure *message `xml:"failure"`
	Error   *message `xml:"error"`
}

type message struct {
	Message string `xml:"message,attr"`
}

func readJUnit(file string) ([]junitCase, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var report junit
	if err := xml.Unmarshal(content, &report); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	cases := report.Cases
	for _, suite := range report.Suites {
		cases = append(cases, suite.Cases...)
	}
	return cases, nil
}

func (c junitCase) result(name string) result {
	switch {
	case c.Failure != nil:
		return result{name, failed, c.Failure.Message}
	case c.Error != nil:
		return result{name, failed, c.Error.Message}
	case c.Skipped != nil:
		return result{name, skipped, strings.TrimPrefix(c.Skipped.Message, "skipped - ")}
	}
	return result{name, passed, ""}
}

// ginkgoResults returns the results of the tests whose names match an expression. A test that was
// not selected counts as excluded if there is a reason for it, and has no result otherwise.
func ginkgoResults(file, tests string, reasons []reason) ([]result, error) {
	cases, err := readJUnit(file)
	if err != nil {
		return nil, err
	}
	expression, err := regexp.Compile(tests)
	if err != nil {
		return nil, err
	}
	var results []result
	for _, c := range cases {
		name, isTest := strings.CutPrefix(c.Name, "[It] ")
		if !isTest || !expression.MatchString(name) {
			continue
		}
		r := c.result(name)
		if r.outcome == skipped && r.message == "skipped" { // Ginkgo did not select the test
			reason := why(reasons, name)
			if reason == "" {
				continue
			}
			r = result{name, excluded, reason}
		}
		results = append(results, r)
	}
	return results, nil
}

// goTestResults returns the results of the subtests of a test, one level deep, from the output of
// go test -v.
func goTestResults(file, test string) ([]result, error) {
	log, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	line := regexp.MustCompile(`^    --- (PASS|FAIL|SKIP): ` + regexp.QuoteMeta(test) + `/([^/ ]+) `)
	outcomes := map[string]outcome{"PASS": passed, "FAIL": failed, "SKIP": skipped}
	var results []result
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if match := line.FindStringSubmatch(lines.Text()); match != nil {
			results = append(results, result{match[2], outcomes[match[1]], ""})
		}
	}
	return results, lines.Err()
}

// junitResults returns the results of all tests of a report.
func junitResults(file string) ([]result, error) {
	cases, err := readJUnit(file)
	if err != nil {
		return nil, err
	}
	var results []result
	for _, c := range cases {
		results = append(results, c.result(c.Name))
	}
	return results, nil
}
