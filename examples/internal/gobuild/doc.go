// SPDX-License-Identifier: Apache-2.0

// Package gobuild builds programs for tests that run them as a user would.
//
// # Usage
//
//	err := gobuild.Build(filepath.Join(t.TempDir(), "agent"), "github.com/wayleave/wayleave/examples/agent")
//	require.NoError(t, err)
//
// # Concurrency
//
// Build may be called from any number of goroutines.
//
// # Errors
//
// What the go command said, or why a program that is built already could not be copied.
package gobuild
