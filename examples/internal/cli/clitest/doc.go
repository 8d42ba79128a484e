// SPDX-License-Identifier: Apache-2.0

// Package clitest has a terminal for tests of commands.
//
// # Usage
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
