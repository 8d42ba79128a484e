// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/examples/internal/cli/clitest"
)

// A terminal has a width, progress, and colours unless the environment disables them.
func TestTerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	terminal, err := clitest.NewTerminal(40)
	require.NoError(t, err)
	c := cli.Console{Out: terminal.File, Err: terminal.File}
	require.Equal(t, 40, c.Width())
	require.True(t, c.Coloured())
	t.Setenv("TERM", "dumb")
	require.False(t, c.Coloured())
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	require.False(t, c.Coloured())

	program := cli.Program{Name: "prog", Commands: []cli.Command{{
		Name: "slow", About: "Takes a while, and says so\nin more than forty columns.\n\n  kept\n  lines",
		Prepare: func(*flag.FlagSet) cli.Action {
			return func(_ context.Context, c cli.Console, _ []string) error {
				p := cli.NewProgress(c, "a text that is far longer than the terminal is wide")
				_, err := terminal.Written.ReadString('K') // the line begins
				p.End()
				return err
			}
		},
	}}}
	require.Zero(t, program.Run(t.Context(), c, []string{"slow"}))
	require.Zero(t, program.Run(t.Context(), c, []string{"help", "slow"}))
	text, err := terminal.Text()
	require.NoError(t, err)
	require.Contains(t, text, "a text that is far longer than the term\r\x1b[K")
	require.Contains(t, text, "Takes a while, and says so in more than\nforty columns.\n\n  kept\n  lines\n")
}

// A device that is not a terminal has none of these.
func TestNoTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	require.Zero(t, cli.Console{Out: null}.Width())
	require.False(t, cli.Console{Out: null}.Coloured())
}
