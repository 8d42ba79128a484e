// SPDX-License-Identifier: Apache-2.0

package nstest_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// outcome is a test that records its result.
type outcome struct {
	testing.TB
	end string
}

func (o *outcome) Helper() {}

func (o *outcome) Errorf(string, ...any) {}

func (o *outcome) FailNow() {
	o.end = "failed"
	runtime.Goexit()
}

func (o *outcome) Skip(...any) {
	o.end = "skipped"
	runtime.Goexit()
}

// With CI=true, Skip fails the test.
func TestSkipFailsUnderCI(t *testing.T) {
	for ci, want := range map[string]string{"true": "failed", "": "skipped"} {
		t.Setenv("CI", ci)
		test, done := &outcome{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			nstest.Skip(test, "something is missing")
		}()
		<-done
		require.Equal(t, want, test.end, "CI=%q", ci)
	}
}
