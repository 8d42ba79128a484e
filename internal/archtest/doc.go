// SPDX-License-Identifier: Apache-2.0

// Package archtest tests the architecture of the repository. Its tests fail for each of these:
//
//   - an import that is not permitted
//   - a package without documentation
//   - an undocumented export
//   - a new direct dependency
//   - a file or function that is too large
//   - a line that is too long
//   - a test that calls a Skip other than nstest.Skip
//
// # Usage
//
// The package has no API. Its tests run with all others. When you add a package to the repository,
// add a row to the table of imports in imports_test.go, and a sentence to docs/design.md.
//
// # Concurrency
//
// The package has only tests.
//
// # Errors
//
// Each test reports all violations, not just the first.
package archtest
