// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/examples/internal/cli/clitest"
)

// No line is wider than the terminal. If the output is not a terminal, lines are not wrapped.
func TestOutputFitsTerminal(t *testing.T) {
	dir := folderOf(t, map[string]string{"pods.yaml": onePod, "deny.yaml": denyAll})
	startAnAgent(t, dir)
	for _, args := range []string{
		"status", "endpoints", "policies", "sets", "routes", "health", "verify", "explain 2001:db8::7 shop/six tcp/80",
		"explain --manifests " + dir + " 2001:db8::7 shop/six tcp/80",
	} {
		_, full, errs := call(t, strings.Fields(args)...)
		require.Empty(t, errs)
		terminal, err := clitest.NewTerminal(72)
		require.NoError(t, err)
		c := cli.Console{Out: terminal.File, Err: terminal.File}
		require.Zero(t, agent(t.Context(), c, strings.Fields(args)), args)
		text, err := terminal.Text()
		require.NoError(t, err)
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, utf8.RuneCountInString(line)-1, 72, "%s: %q", args, line)
		}
		require.NotContains(t, text, "\x1b", "a quick command shows no progress")
		if strings.HasPrefix(args, "explain") || args == "endpoints" || args == "verify" {
			require.Greater(t, strings.Count(text, "\n"), strings.Count(full, "\n"), args)
		}
	}
}
