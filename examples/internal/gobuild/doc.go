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
// Build returns an error with the output of the go command, or the error of copying a program that
// was built before.
package gobuild
