// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// asProgram makes the test program run as the command gauge.
const asProgram = "WAYLEAVE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, command := range []string{"", "serve", "connect", "watch", "write"} {
		var args []string
		if command != "" {
			args = []string{command}
		}
		require.ErrorIs(t, run(t.Context(), append(args, "-h")), flag.ErrHelp)
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", append(args, "--help")...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		printed, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", printed)
		require.Contains(t, string(printed), "usage: gauge "+command)
	}
}
