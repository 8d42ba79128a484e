// SPDX-License-Identifier: Apache-2.0

// Package gobuild builds programs for tests that run them.
//
// # Usage
//
//	err := gobuild.Build(filepath.Join(t.TempDir(), "agent"), "github.com/wayleave/wayleave/examples/agent")
//	require.NoError(t, err)
//
// # Concurrency
//
// Build is safe for concurrent use.
//
// # Errors
//
// If the go command fails, Build returns an error with the output of this command. If ProgramsEnv
// is set, Build copies a program that was built before, and returns the error of the copy.
package gobuild
