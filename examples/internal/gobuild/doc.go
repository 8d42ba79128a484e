// SPDX-License-Identifier: Apache-2.0

// Package gobuild builds programs for tests that run them as a user would.
//
// # Usage
//
//	err := gobuild.Build(filepath.Join(t.TempDir(), "agent"), "../agent")
//	if errors.Is(err, gobuild.ErrNoSources) {
//		t.Skip(err)
//	}
//	require.NoError(t, err)
//
// # Concurrency
//
// Build may be called from any number of goroutines.
//
// # Errors
//
// ErrNoSources where a compiled test runs, as an ordinary user, away from the sources; any other error has what the go command said.
package gobuild
