// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/cli"
)

func program() cli.Program {
	echo := func(flags *flag.FlagSet) cli.Action {
		loud := flags.Bool("loud", false, "shout")
		mark := flags.String("mark", "!", "end with `TEXT`")
		return func(_ context.Context, c cli.Console, args []string) error {
			switch text := strings.Join(args, " "); {
			case text == "usage":
				return fmt.Errorf("wrapped: %w", cli.Usagef("no %s", text))
			case text == "five":
				return cli.ExitStatus(5)
			case text == "fail":
				return errors.New("it broke")
			case *loud:
				c.Printf("%s%s\n", strings.ToUpper(text), *mark)
			default:
				c.Printf("%s\n", text)
			}
			return nil
		}
	}
	return cli.Program{Name: "prog", About: "prog does things.", Failed: 7, Commands: []cli.Command{
		{
			Name: "echo", Args: "TEXT", Summary: "say it", About: "Says it.", Examples: []string{"echo hello"},
			Prepare: echo,
		},
		{Name: "quiet", Summary: "takes nothing", About: "Takes nothing.", Prepare: echo},
	}}
}

func TestRun(t *testing.T) {
	for _, row := range []struct {
		args        string
		status      int
		out, errOut string
	}{
		{"echo a b", 0, "a b\n", ""},
		{"echo --loud a b", 0, "A B!\n", ""},
		{"echo a --loud b --mark=?", 0, "A B?\n", ""},
		{"echo a --mark ? b --loud", 0, "A B?\n", ""},
		{"echo --loud -- a --mark", 0, "A --MARK!\n", ""},
		{"echo a -- --loud", 0, "a --loud\n", ""},
		{"echo usage", 2, "", "prog: wrapped: no usage\nTry 'prog help echo'.\n"},
		{"echo five", 5, "", ""},
		{"echo fail", 7, "", "prog: it broke\n"},
		{"echo a --frob", 2, "", "prog: echo: there is no flag --frob\nTry 'prog help echo'.\n"},
		{"echo a -f", 2, "", "there is no flag -f\n"},
		{"echo a --lodu", 2, "", "there is no flag --lodu: --loud perhaps?\n"},
		{"quiet a", 2, "", `quiet: unexpected argument "a"`},
		{"frob", 2, "", "prog: there is no command \"frob\"\nTry 'prog help'.\n"},
		{"ehco x", 2, "", `there is no command "ehco": "echo" perhaps?`},
		{"quite", 2, "", `"quiet" perhaps?`},
		{"e", 2, "", "there is no command \"e\"\n"},
		{"help ech", 2, "", `"echo" perhaps?`},
		{"", 0, "Usage: prog COMMAND [FLAGS]", ""},
		{"help", 0, "[FLAGS]\n\n  echo   say it\n  quiet  takes nothing\n\n", ""},
		{"help echo", 0, "[FLAGS] TEXT\n\nSays it.\n\nExamples:\n\n  prog echo hello\n\nFlags:\n", ""},
		{"echo x --help", 0, "  --mark TEXT\n        end with TEXT (default !)\n", ""},
	} {
		var out, errOut bytes.Buffer
		status := program().Run(t.Context(), cli.Console{Out: &out, Err: &errOut}, strings.Fields(row.args))
		require.Equal(t, row.status, status, row.args)
		require.Contains(t, out.String(), row.out, row.args)
		require.Contains(t, errOut.String(), row.errOut, row.args)
		require.Equal(t, row.out == "", out.Len() == 0, row.args)
		require.Equal(t, row.errOut == "", errOut.Len() == 0, row.args)
	}
}

// The list of commands has the titles of groups.
func TestGroups(t *testing.T) {
	p := program()
	for i := range p.Commands {
		p.Commands[i].Group = []string{"Speak", "Listen"}[min(i, 1)]
	}
	p.Completion = true
	var out bytes.Buffer
	require.Zero(t, p.Run(t.Context(), cli.Console{Out: &out}, nil))
	require.Contains(t, out.String(), "\n\nSpeak:\n  echo        say it\n")
	require.Contains(t, out.String(), "\n\nListen:\n  quiet       takes nothing\n  completion ")
}

// Only a terminal gets colours.
func TestColoured(t *testing.T) {
	require.False(t, cli.Console{Out: &bytes.Buffer{}}.Coloured())
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	require.False(t, cli.Console{Out: file}.Coloured())
}
