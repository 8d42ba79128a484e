// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeGo is a go command that prints the lines of a fuzz test: first the one with the known inputs,
// then, after the first call, the one with the executions.
const fakeGo = `#!/bin/sh
echo "$BASELINE"
case "$*" in *"-fuzztime 1x"*) echo "fuzz: elapsed: 0s, execs: 1 (0/sec)" ;; *) echo "$EXECS" ;; esac
`

// scripts/fuzz fails if the output of the go command does not show that new inputs were executed.
func TestFuzzScriptCountsNewInputs(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte(fakeGo), 0o700))
	const known = "fuzz: elapsed: 0s, gathering baseline coverage: 0/30 completed"
	const execs = "fuzz: elapsed: 1s, execs: 40 (9/sec)"
	for name, tt := range map[string]struct{ runs, baseline, execs, fails string }{
		"new inputs":          {"10x", known, execs, ""},
		"a longer time":       {"1s", "", execs, ""},
		"no baseline":         {"10x", "fuzz: gathering", execs, "no line 'baseline coverage: 0/N'"},
		"seeds only":          {"10x", known, "fuzz: elapsed: 1s, execs: 10 (9/sec)", "want 40 executions"},
		"no executions":       {"10x", known, "ok", "no line 'execs: N'"},
		"no executions, time": {"1s", known, "ok", "no line 'execs: N'"},
	} {
		cmd := exec.Command("bash", filepath.Join(root, "scripts", "fuzz"), tt.runs)
		cmd.Env = append(os.Environ(),
			"PATH="+dir+":"+os.Getenv("PATH"), "BASELINE="+tt.baseline, "EXECS="+tt.execs)
		out, err := cmd.CombinedOutput()
		if tt.fails == "" {
			require.NoError(t, err, "%s:\n%s", name, out)
			continue
		}
		require.Error(t, err, "%s:\n%s", name, out)
		require.Contains(t, string(out), tt.fails, name)
	}
}
