// SPDX-License-Identifier: Apache-2.0

// Package nstest lets tests use network namespaces, as root or as an ordinary user.
//
// # Usage
//
// In a package with kernel tests, write this function:
//
//	func TestMain(m *testing.M) { nstest.Main(m) }
//
// In each test, make the namespaces that it needs:
//
//	node := nstest.New(t)
//	web := nstest.NewWorkload(t, node, "cali1", "10.0.0.1", "2001:db8::1")
//	require.NoError(t, web.NS.Do(func() error { ... }))
//
// # Concurrency
//
// New and NewWorkload may be called from parallel tests, each with its own t.
//
// # Errors
//
// Errors fail the test. Without the necessary rights, the test is skipped, or fails if CI=true is
// set.
package nstest
