// SPDX-License-Identifier: Apache-2.0

// Package clitest has a terminal for tests of commands. A test can run a command with this terminal
// as its output, and read the output.
//
// # Usage
//
// The argument of NewTerminal is the width of the terminal in columns:
//
//	terminal, err := clitest.NewTerminal(40)
//	...
//	agent(ctx, cli.Console{Out: terminal.File, Err: terminal.File}, args)
//	text, err := terminal.Text()
//
// # Concurrency
//
// A Terminal may be read by one goroutine while others write to it.
//
// # Errors
//
// Errors are those of the system calls.
package clitest
