// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
)

// completion returns the command that prints a script for a shell.
func (p Program) completion() Command {
	return Command{
		Name: "completion", Args: "SHELL", Summary: "print a script with which a shell completes commands and flags",
		About: fmt.Sprintf(`Prints a script with which bash, zsh or fish completes commands and flags. To use it in
a running shell:

  source <(%[1]s completion bash)
  source <(%[1]s completion zsh)
  %[1]s completion fish | source`, p.Name),
		Examples: []string{"completion bash"},
		Prepare: func(*flag.FlagSet) Action {
			return func(_ context.Context, c Console, args []string) error {
				if len(args) != 1 {
					return Usagef("completion: want one SHELL: bash, zsh or fish")
				}
				switch args[0] {
				case "bash":
					c.Printf("%s", p.bash())
				case "zsh":
					c.Printf("autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n%s",
						p.bash())
				case "fish":
					c.Printf("%s", p.fish())
				default:
					return Usagef("completion: %q is neither bash, zsh nor fish", args[0])
				}
				return nil
			}
		},
	}
}

// flagsOf returns the flags of a command as they are typed.
func flagsOf(c Command) (names []string) {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	c.Prepare(flags)
	flags.VisitAll(func(f *flag.Flag) { names = append(names, dashes(f.Name)+f.Name) })
	return names
}

// dashes returns the dashes before the name of a flag.
func dashes(name string) string {
	if len(name) == 1 {
		return "-"
	}
	return "--"
}

// all returns all commands, including the command for completion.
func (p Program) all() []Command {
	if !p.Completion {
		return p.Commands
	}
	completion := p.completion()
	completion.Group = p.Commands[len(p.Commands)-1].Group
	return append(slices.Clone(p.Commands), completion)
}

// bash returns the script for bash. A word that is neither a command nor a flag is completed as a
// file name.
func (p Program) bash() string {
	var names []string
	var cases strings.Builder
	for _, c := range p.all() {
		names = append(names, c.Name)
		fmt.Fprintf(&cases, "    %s) words=\"%s\" ;;\n", c.Name, strings.Join(flagsOf(c), " "))
	}
	return fmt.Sprintf(`_%[1]s() {
  local words="%[2]s help" word="${COMP_WORDS[COMP_CWORD]}"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "${COMP_WORDS[1]}" in
%[3]s    help) ;;
    *) words="" ;;
    esac
    if [ "${COMP_WORDS[1]}" != help ] && [ "${word#-}" = "$word" ]; then
      COMPREPLY=($(compgen -f -- "$word"))
      return
    fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o filenames -F _%[1]s %[1]s
`, p.Name, strings.Join(names, " "), cases.String())
}

// fish returns the script for fish.
func (p Program) fish() string {
	var out strings.Builder
	for _, c := range p.all() {
		fmt.Fprintf(&out, "complete -c %s -n __fish_use_subcommand -a %s -d '%s'\n", p.Name, c.Name,
			strings.ReplaceAll(c.Summary, "'", "\\'"))
		flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
		c.Prepare(flags)
		flags.VisitAll(func(f *flag.Flag) {
			option := "-l"
			if len(f.Name) == 1 {
				option = "-s"
			}
			fmt.Fprintf(&out, "complete -c %s -n '__fish_seen_subcommand_from %s' %s %s\n", p.Name, c.Name, option,
				f.Name)
		})
	}
	return out.String()
}
