// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOlderThan(t *testing.T) {
	require.False(t, OlderThan(2, 99))
	require.True(t, OlderThan(1000, 0))
}

func TestVersion(t *testing.T) {
	for release, want := range map[string][2]int{
		"6.12.117+deb12-amd64": {6, 12}, "5.10.0-35-amd64": {5, 10}, "6.17": {6, 17}, "7.0-rc1": {7, 0},
		"6.18.44-x": {6, 18},
	} {
		major, minor, ok := version(release)
		require.True(t, ok, release)
		require.Equal(t, want, [2]int{major, minor}, release)
	}
	for _, release := range []string{"", "x", "6", "6.", "6.x", "six.1"} {
		_, _, ok := version(release)
		require.False(t, ok, release)
	}
}
