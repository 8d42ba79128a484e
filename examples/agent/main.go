// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := agent(ctx, console{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// console is where a command reads and writes.
type console struct {
	in       io.Reader
	out, err io.Writer
}

func (c console) printf(format string, args ...any) { _, _ = fmt.Fprintf(c.out, format, args...) }

// command is something that the agent can do.
type command struct {
	name string
	// args after the flags, as help shows them.
	args    string
	summary string
	about   string
	// prepare declares the flags and returns what to do once they are parsed.
	prepare func(*flag.FlagSet) action
}

type action func(ctx context.Context, c console, args []string) error

func commands() []command {
	return []command{runCommand(), rulesetCommand(), explainCommand(), demoCommand()}
}

// usageError says that the command line makes no sense.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode is an error that has been reported already.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// agent runs the command that the arguments ask for and returns the exit code.
func agent(ctx context.Context, c console, args []string) int {
	err := dispatch(ctx, c, args)
	var code exitCode
	var usage usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(c.err, "agent: %v\nTry 'agent help'.\n", err)
		return 2
	}
	_, _ = fmt.Fprintf(c.err, "agent: %v\n", err)
	return 1
}

func dispatch(ctx context.Context, c console, args []string) error {
	help := len(args) == 0
	if !help {
		switch args[0] {
		case "help", "-h", "-help", "--help":
			help, args = true, args[1:]
		}
	}
	if len(args) == 0 {
		c.printf("%s", overview())
		return nil
	}
	for _, cmd := range commands() {
		if cmd.name != args[0] {
			continue
		}
		flags := flag.NewFlagSet(cmd.name, flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		do := cmd.prepare(flags)
		err := flags.Parse(args[1:])
		switch {
		case help || errors.Is(err, flag.ErrHelp):
			c.printf("%s", cmd.help(flags))
			return nil
		case err != nil:
			return usagef("%s: %w", cmd.name, err)
		case cmd.args == "" && flags.NArg() > 0:
			return usagef("%s: unexpected argument %q", cmd.name, flags.Arg(0))
		}
		return do(ctx, c, flags.Args())
	}
	return usagef("there is no command %q", args[0])
}

func overview() string {
	var out strings.Builder
	out.WriteString("agent programs network policy and routes of one node, from manifests.\n\nUsage: agent COMMAND [FLAGS]\n\n")
	for _, cmd := range commands() {
		fmt.Fprintf(&out, "  %-9s %s\n", cmd.name, cmd.summary)
	}
	out.WriteString("\n'agent help COMMAND' tells more of one.\n")
	return out.String()
}

// help describes the command and its flags.
func (c command) help(flags *flag.FlagSet) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Usage: %s\n\n%s\n", strings.TrimSpace("agent "+c.name+" [FLAGS] "+c.args), strings.TrimSpace(c.about))
	out.WriteString("\nFlags:\n")
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(&out, "  --%s\n", strings.TrimSpace(f.Name+" "+value))
		if f.DefValue != "" && f.DefValue != "false" {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(&out, "        %s\n", usage)
	})
	return out.String()
}
