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
	if !owned {
		requireOldKernel(t)
		Skip(t, "needs a kernel whose tables have an owner and outlive it (Linux 6.9)")
	}
}

// OwnerWrites returns how many transactions it takes to take over a table that is as it should be: one for the owner,
// if the kernel gave the table one that it can outlive. From Linux 6.9 on, the test fails if it did not.
func OwnerWrites(t testing.TB, owned bool) int {
	t.Helper()
	if owned {
		return 1
	}
	requireOldKernel(t)
	return 0
}

// requireOldKernel fails the test from Linux 6.9 on.
func requireOldKernel(t testing.TB) {
	t.Helper()
	var kernel unix.Utsname
	require.NoError(t, unix.Uname(&kernel))
	var major, minor int
	release := unix.ByteSliceToString(kernel.Release[:])
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	require.NoError(t, err, release)
	require.False(t, major > 6 || major == 6 && minor >= 9, "Linux %s has tables with owners", release)
}
