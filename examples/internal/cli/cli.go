// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Misused is the exit status for an invalid command line.
const Misused = 2

// Console has the input and the outputs of a command.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
}

// Printf writes to the output.
func (c Console) Printf(format string, args ...any) { _, _ = fmt.Fprintf(c.Out, format, args...) }

// Errorf writes to the error output.
func (c Console) Errorf(format string, args ...any) { _, _ = fmt.Fprintf(c.Err, format, args...) }

// Coloured reports whether the output may have colours. That is so if the output is a terminal,
// NO_COLOR (https://no-color.org) is empty or not set, and TERM is not "dumb".
func (c Console) Coloured() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(c.Out)
}

// Width returns the number of columns of the terminal. It returns 0, which means no limit, if the
// output is not a terminal.
func (c Console) Width() int { return columns(c.Out) }

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// columns returns the number of columns of a terminal; 0 if w is not a terminal, or if the terminal
// has no size.
func columns(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Command is a subcommand of a program.
type Command struct {
	// Name is the name of the command on the command line.
	Name string
	// Args describes the arguments besides the flags, for the help. Empty means that there are
	// none.
	Args string
	// Summary is half a sentence, for the list of commands.
	Summary string
	// Group is the title above the command in the list of commands. Commands of one group must
	// follow each other.
	Group string
	// About is the whole description. The help wraps each paragraph to the width of the terminal.
	// But if a line of a paragraph is indented, the paragraph keeps its line breaks.
	About string
	// Examples are command lines without the name of the program, for the help.
	Examples []string
	// Prepare declares the flags, and returns the function to call once the flags are parsed.
	Prepare func(*flag.FlagSet) Action
}

// Action runs a command. The parameter args has the arguments that are not flags.
type Action func(ctx context.Context, c Console, args []string) error

// Program is a program with subcommands.
type Program struct {
	// Name is the name of the program on the command line.
	Name string
	// About describes the program in one line.
	About string
	// Commands in the order of the help.
	Commands []Command
	// Failed is the exit status for an error that does not itself determine an exit status.
	Failed int
	// Completion adds a command that prints scripts with which shells complete commands and flags.
	Completion bool
}

// usageError is the error of an invalid command line.
type usageError struct{ error }

// Unwrap returns the cause.
func (e usageError) Unwrap() error { return e.error }

// Usagef returns the error of an invalid command line.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// ExitStatus is an error that only determines the exit status: the command has printed everything
// else.
type ExitStatus int

// Error returns a text with the status.
func (e ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Run runs the command that the arguments name, and returns the exit status.
func (p Program) Run(ctx context.Context, c Console, args []string) int {
	err := p.dispatch(ctx, c, args)
	var status ExitStatus
	var usage usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &usage):
		c.Errorf("%s: %v\nTry '%s'.\n", p.Name, err, p.helpFor(args))
		return Misused
	}
	c.Errorf("%s: %v\n", p.Name, err)
	return p.Failed
}

// helpFor returns the command that helps with a command line.
func (p Program) helpFor(args []string) string {
	for _, cmd := range p.all() {
		if len(args) > 0 && cmd.Name == args[0] {
			return p.Name + " help " + cmd.Name
		}
	}
	return p.Name + " help"
}

// alike returns the name that is most similar to a word: the one with the most letters of the word,
// in any order. If no name has most of the letters, it returns "".
func alike(word string, names []string) string {
	best, most := "", len(word)/2
	for _, name := range names {
		left, common := name, 0
		for _, letter := range word {
			if before, after, ok := strings.Cut(left, string(letter)); ok {
				left = before + after
				common++
			}
		}
		if common -= len(left); common > most {
			best, most = name, common
		}
	}
	return best
}

func (p Program) dispatch(ctx context.Context, c Console, args []string) error {
	help := len(args) == 0
	if !help {
		switch args[0] {
		case "help", "-h", "-help", "--help":
			help, args = true, args[1:]
		}
	}
	if len(args) == 0 {
		c.Printf("%s", Fold(p.overview(), c.Width()))
		return nil
	}
	for _, cmd := range p.all() {
		if cmd.Name != args[0] {
			continue
		}
		flags := flag.NewFlagSet(cmd.Name, flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		do := cmd.Prepare(flags)
		rest, err := parse(flags, args[1:])
		switch {
		case help || errors.Is(err, flag.ErrHelp):
			c.Printf("%s", p.help(cmd, flags, c.Width()))
			return nil
		case err != nil:
			return Usagef("%s: %w", cmd.Name, flagError(err, cmd))
		case cmd.Args == "" && len(rest) > 0:
			return Usagef("%s: unexpected argument %q", cmd.Name, rest[0])
		}
		return do(ctx, c, rest)
	}
	var names []string
	for _, cmd := range p.all() {
		names = append(names, cmd.Name)
	}
	if meant := alike(args[0], names); meant != "" {
		return Usagef("there is no command %q: %q perhaps?", args[0], meant)
	}
	return Usagef("there is no command %q", args[0])
}

// flagError adds a similar flag to the error of an unknown flag.
func flagError(err error, c Command) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err
	}
	var names []string
	for _, typed := range flagsOf(c) {
		names = append(names, strings.TrimLeft(typed, "-"))
	}
	if meant := alike(name, names); meant != "" {
		return fmt.Errorf("there is no flag %s%s: %s%s perhaps?", dashes(name), name, dashes(meant), meant)
	}
	return fmt.Errorf("there is no flag %s%s", dashes(name), name)
}

// parse parses flags at any position, and returns the other arguments. (The flag package stops at
// the first argument that is not a flag.)
func parse(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		left := flags.Args()
		parsed := len(args) - len(left)
		if len(left) == 0 || parsed > 0 && args[parsed-1] == "--" {
			return append(rest, left...), nil
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

func (p Program) overview() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\nUsage: %s COMMAND [FLAGS]\n", p.About, p.Name)
	commands, width, group := p.all(), 0, "none"
	for _, cmd := range commands {
		width = max(width, len(cmd.Name))
	}
	for _, cmd := range commands {
		if cmd.Group != group {
			group = cmd.Group
			fmt.Fprintf(&out, "\n%s", strings.TrimPrefix(group+":\n", ":\n"))
		}
		fmt.Fprintf(&out, "  %-*s  %s\n", width, cmd.Name, cmd.Summary)
	}
	fmt.Fprintf(&out, "\n'%s help COMMAND' describes a command.\n", p.Name)
	return out.String()
}

// maxHelpWidth is the maximum number of columns of a paragraph of the help: longer lines are hard
// to read.
const maxHelpWidth = 100

// help describes a command and its flags. Width 0 means no limit by a terminal.
func (p Program) help(c Command, flags *flag.FlagSet, width int) string {
	limit := maxHelpWidth
	if width > 0 {
		limit = min(limit, width)
	}
	var out strings.Builder
	usage := strings.TrimSpace(p.Name + " " + c.Name + " [FLAGS] " + c.Args)
	fmt.Fprintf(&out, "Usage: %s\n\n%s\n", usage, fill(strings.TrimSpace(c.About), limit))
	for i, example := range c.Examples {
		if i == 0 {
			out.WriteString("\nExamples:\n\n")
		}
		fmt.Fprintf(&out, "  %s %s\n", p.Name, example)
	}
	out.WriteString("\nFlags:\n")
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(&out, "  %s%s\n", dashes(f.Name), strings.TrimSpace(f.Name+" "+value))
		if f.DefValue != "" && f.DefValue != "false" {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		for _, line := range wrapLines(usage, max(limit-len(usageIndent), minColumn)) {
			out.WriteString(usageIndent + line + "\n")
		}
	})
	return Fold(out.String(), width)
}

// usageIndent precedes each line of the description of a flag.
const usageIndent = "        "
