// SPDX-License-Identifier: Apache-2.0

package apiserver

import "context"

// T is the test that a Server belongs to: a testing.TB, or the equivalent in a command.
type T interface {
	Helper()
	Context() context.Context
	TempDir() string
	Cleanup(f func())
	Log(args ...any)
	Errorf(format string, args ...any)
	FailNow()
	Failed() bool
	Skip(args ...any)
}
