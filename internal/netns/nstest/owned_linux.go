// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// SkipUnlessOwned skips the test unless the kernel gave the table under test an owner that it can
// outlive. Kernels before 6.9 do not; with later ones the test fails.
func SkipUnlessOwned(t testing.TB, owned bool) {
	t.Helper()
	if owned {
		return
	}
	var kernel unix.Utsname
	require.NoError(t, unix.Uname(&kernel))
	var major, minor int
	release := unix.ByteSliceToString(kernel.Release[:])
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	require.NoError(t, err, release)
	require.False(t, major > 6 || major == 6 && minor >= 9, "Linux %s has tables with owners", release)
	Skip(t, "needs a kernel whose tables have an owner and outlive it (Linux 6.9)")
}
