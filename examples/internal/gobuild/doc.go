// SPDX-License-Identifier: Apache-2.0

// Package gobuild builds programs for tests that run them. If the environment variable
// TEST_PROGRAMS is set (see ProgramsEnv), the package copies programs that were built before, and
// does not run the go command.
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
// If the go command fails, Build returns an error with the output of this command. If Build cannot
// copy a program that was built before, it returns the error of reading or writing the file.
package gobuild
