// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOlderThan(t *testing.T) {
	require.False(t, OlderThan(2, 99, 0))
	require.True(t, OlderThan(1000, 0, 0))
}

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		release, build string
		want           []int
	}{
		{"6.12.117+deb12-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1~deb12u1 (2026-11-01)", []int{6, 12, 117}},
		{"6.1.0-56-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-01)", []int{6, 1, 192}},
		{"6.1.0-56-amd64", "#1 SMP", []int{6, 1, 0}},
		{"6.17", "", []int{6, 17, 0}},
		{"7.0-rc1", "#7 SMP", []int{7, 0, 0}},
		{"6.18.44-x", "", []int{6, 18, 44}},
		{"", "", nil},
		{"x", "", nil},
		{"6", "", nil},
		{"6.x", "", nil},
		{"six.1", "", nil},
	} {
		require.Equal(t, c.want, version(c.release, c.build), c.release)
	}
}
