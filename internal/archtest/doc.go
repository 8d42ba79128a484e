// SPDX-License-Identifier: Apache-2.0

// Package archtest holds the architecture of the repository: its tests fail on an import
// that points up, a package without documentation, an undocumented export, a new direct
// dependency, a file or function that has grown too large, a line that is too long, or a test that
// skips where it must fail.
//
// # Usage
//
// It has no API. Its tests run with all others; who adds a package adds its row to the
// table of imports in imports_test.go, and argues for it in docs/design.md.
//
// # Concurrency
//
// Nothing here runs outside tests.
//
// # Errors
//
// Each test names every offender in one run, not just the first.
package archtest
