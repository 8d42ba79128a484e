// SPDX-License-Identifier: Apache-2.0

// Package cli runs a program with subcommands, each with its own flags and help text. The programs
// among the examples use it. It is based on the flag package of the standard library.
//
// # Usage
//
//	program := cli.Program{Name: "agent", About: "agent does ...", Commands: commands(), Failed: 1}
//	os.Exit(program.Run(ctx, cli.Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
//
// Flags may come before, between and after the other arguments. After "--", there are no more
// flags.
//
// # Concurrency
//
// The values of this package are for one goroutine at a time, except Progress.
//
// # Errors
//
// The error of an action determines the exit status:
//
//   - An error of Usagef: 2. The error is printed, with the command that prints the help.
//   - An ExitStatus: that status. Nothing is printed.
//   - Any other error: Program.Failed. The error is printed.
package cli
