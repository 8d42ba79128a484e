// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

func TestGinkgoResults(t *testing.T) {
	file := write(t, `<testsuites><testsuite name="e2e">
		<testcase name="[SynchronizedBeforeSuite]" status="passed"></testcase>
		<testcase name="[It] [net] works" status="passed"></testcase>
		<testcase name="[It] [net] fails" status="failed">
			<failure message="expected 1" type="failed">stack</failure>
		</testcase>
		<testcase name="[It] [net] panics" status="panicked"><error message="nil" type="panicked"></error></testcase>
		<testcase name="[It] [net] skips itself" status="skipped">
			<skipped message="skipped - one node"></skipped>
		</testcase>
		<testcase name="[It] [net] not selected" status="skipped"><skipped message="skipped"></skipped></testcase>
		<testcase name="[It] [net] needs a cloud" status="skipped"><skipped message="skipped"></skipped></testcase>
		<testcase name="[It] [storage] works" status="passed"></testcase>
	</testsuite></testsuites>`)
	results, err := ginkgoResults(file, `\[net\]`, []reason{{"needs a cloud", "no cloud"}})
	require.NoError(t, err)
	require.Equal(t, []result{
		{"[net] works", passed, ""},
		{"[net] fails", failed, "expected 1"},
		{"[net] panics", failed, "nil"},
		{"[net] skips itself", skipped, "one node"},
		{"[net] needs a cloud", excluded, "no cloud"},
	}, results)
	_, err = ginkgoResults(write(t, "<a>"), "", nil)
	require.ErrorContains(t, err, "read /")
}

func TestGoTestResults(t *testing.T) {
	file := write(t, `=== RUN   TestConformance
=== RUN   TestConformance/One
--- FAIL: TestConformance (9.00s)
    --- PASS: TestConformance/One (2.00s)
        --- PASS: TestConformance/One/part (1.00s)
    --- FAIL: TestConformance/Two (3.00s)
        --- FAIL: TestConformance/Two/part (1.00s)
    --- SKIP: TestConformance/Three (0.00s)
    --- PASS: TestOther/One (0.00s)
FAIL
`)
	results, err := goTestResults(file, "TestConformance")
	require.NoError(t, err)
	require.Equal(t, []result{{"One", passed, ""}, {"Two", failed, ""}, {"Three", skipped, ""}}, results)
}

func TestJUnitResults(t *testing.T) {
	file := write(t, `<testsuite name="cyclonus" failures="1">
		<testcase name="1: conflict"></testcase><testcase name="2: sctp"><failure message=""></failure></testcase>
	</testsuite>`)
	results, err := junitResults(file)
	require.NoError(t, err)
	require.Equal(t, []result{{"1: conflict", passed, ""}, {"2: sctp", failed, ""}}, results)
}

func TestTables(t *testing.T) {
	s := suite{name: "net", title: "Networks"}
	tables := []table{{suite: s, version: "v1", duration: 61400 * time.Millisecond, results: []result{
		{"works", passed, ""},
		{"breaks", failed, "expected 1\ngot 2"},
		{"needs a cloud", excluded, "no cloud"},
		{"skips itself", skipped, "one node"},
	}}}
	var out bytes.Buffer
	writeTables(&out, tables)
	require.Equal(t, `| suite | version | passed | failed | skipped | excluded | time |
|---|---|---|---|---|---|---|
| Networks | v1 | 1 | 1 | 1 | 1 | 1m1s |
- net failed: breaks: expected 1
- net skipped: skips itself: one node
- net excluded: needs a cloud: no cloud
`, out.String())
}

func TestSuiteWithoutFailedTestsFails(t *testing.T) {
	run := func(minTests int, results ...result) table {
		return table{suite: suite{name: "s", minTests: minTests}, results: results}
	}
	ended := errors.New("exit status 1")
	ok, bad, skip := result{test: "a", outcome: passed}, result{test: "b", outcome: failed}, result{outcome: skipped}
	require.NoError(t, run(1, ok, skip).check(nil, ""))
	require.NoError(t, run(1, ok, bad).check(ended, ""), "the table has the failed test")
	require.NoError(t, run(2, ok).check(nil, "focus"))
	require.ErrorContains(t, run(2, ok, skip).check(nil, ""), "only 1 tests ran, of at least 2")
	require.ErrorIs(t, run(1, ok).check(ended, ""), ended)
	require.ErrorContains(t, run(0, skip).check(ended, ""), "no test ran")
}
