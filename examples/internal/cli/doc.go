// SPDX-License-Identifier: Apache-2.0

// Package cli is what the commands among the examples have in common: a program with subcommands,
// each with flags and a help text of its own, on the flag package of the standard library.
//
// # Usage
//
//	program := cli.Program{Name: "agent", About: "agent does ...", Commands: commands(), Failed: 1}
//	os.Exit(program.Run(ctx, cli.Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
//
// Flags may come before, between and behind the other arguments; after "--" there are no more
// flags.
//
// # Concurrency
//
// Everything here is a plain value and belongs to its caller.
//
// # Errors
//
// An action's error decides the exit status: Usagef means 2 and a hint at the help, an ExitStatus
// means that status and nothing more to say, and any other error is printed and means
// Program.Failed.
package cli
