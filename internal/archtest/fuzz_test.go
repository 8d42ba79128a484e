// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeGo is a go command. It copies fakeTest to the file after -o instead of building a test.
const fakeGo = `#!/bin/sh
while [ $# -gt 0 ]; do
	if [ "$1" = -o ]; then cp "$(dirname "$0")/fake.test" "$2"; fi
	shift
done
`

// fakeTest prints the lines of a fuzz test: the line with the known inputs, and the line with the
// executions.
const fakeTest = `#!/bin/sh
echo "$BASELINE"
case "$*" in *"-test.fuzztime 1x"*) echo "fuzz: elapsed: 0s, execs: 1 (0/sec)" ;; *) echo "$EXECS"; exit $STATUS ;; esac
`

// scripts/fuzz fails if a fuzz test fails, or if its output does not show executions of new inputs.
func TestFuzzScriptCountsNewInputs(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte(fakeGo), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fake.test"), []byte(fakeTest), 0o700))
	const known = "fuzz: elapsed: 0s, gathering baseline coverage: 0/30 completed"
	const execs = "fuzz: elapsed: 1s, execs: 40 (9/sec)"
	for name, tt := range map[string]struct{ runs, baseline, execs, status, fails string }{
		"new inputs":          {"10x", known, execs, "0", ""},
		"a longer time":       {"1s", "", execs, "0", ""},
		"no baseline":         {"10x", "fuzz: gathering", execs, "0", "no line 'baseline coverage: 0/N'"},
		"seeds only":          {"10x", known, "fuzz: elapsed: 1s, execs: 10 (9/sec)", "0", "want 40 executions"},
		"no executions":       {"10x", known, "ok", "0", "no line 'execs: N'"},
		"a failure":           {"10x", known, execs, "1", "40 (9/sec)"},
		"no executions, time": {"1s", known, "ok", "0", "no line 'execs: N'"},
	} {
		cmd := exec.Command("bash", filepath.Join(root, "scripts", "fuzz"), tt.runs)
		cmd.Env = append(os.Environ(),
			"PATH="+dir+":"+os.Getenv("PATH"), "BASELINE="+tt.baseline, "EXECS="+tt.execs, "STATUS="+tt.status)
		out, err := cmd.CombinedOutput()
		if tt.fails == "" {
			require.NoError(t, err, "%s:\n%s", name, out)
			continue
		}
		require.Error(t, err, "%s:\n%s", name, out)
		require.Contains(t, string(out), tt.fails, name)
	}
}
