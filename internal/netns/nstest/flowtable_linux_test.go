// SPDX-License-Identifier: Apache-2.0

package nstest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// A test without flowtables is skipped only on a kernel that is too old for them.
func TestWithoutFlowtables(t *testing.T) {
	t.Setenv("CI", "")
	const failed, skipped = "failed", "skipped"
	for _, c := range []struct{ release, build, want string }{
		{"5.10.0-30-amd64", "#1 SMP Debian 5.10.218-1 (2024-06-01)", skipped},
		{"5.15.200", "#1 SMP", skipped},
		{"6.0.40", "#1 SMP", skipped},
		{"6.1", "", skipped},
		{"6.1.0-9-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.27-1 (2023-05-08)", skipped},
		{"6.1.36", "#1 SMP", skipped},
		{"6.1.37", "#1 SMP", failed},
		{"6.1.37-cloud", "", failed},
		{"6.1.0-56-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-01)", failed},
		{"6.2.40", "#1 SMP", skipped},
		{"6.3.13", "#1 SMP", skipped},
		{"6.4.0", "#1 SMP", failed},
		{"6.12.117+deb12-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1~deb12u1 (2026-11-01)", failed},
		{"7.0-rc1", "#7 SMP", failed},
		// The version is not known.
		{"", "", failed},
		{"x", "", failed},
		{"6", "", failed},
		{"6.x", "", failed},
		{"six.1", "", failed},
	} {
		test, done := &outcome{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			nstest.WithoutFlowtables(test, c.release, c.build)
		}()
		<-done
		require.Equal(t, c.want, test.end, "%s, %s", c.release, c.build)
	}
	nstest.SkipUnlessFlowtables(t, true)
}
