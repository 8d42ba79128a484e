// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// SkipUnlessOwned ends the test if owned is false. owned is whether the table under test has an owner and persists
// without it. On kernels before 6.9, which do not support that, the test is skipped. On others, it fails.
func SkipUnlessOwned(t testing.TB, owned bool) {
	t.Helper()
	if !owned {
		requireOldKernel(t)
		Skip(t, "needs a kernel with table owners and the flag persist (Linux 6.9)")
	}
}

// OwnerWrites returns the number of transactions to adopt a table that needs no change: one to set the owner, or none
// if the kernel does not support it. From Linux 6.9 on, the test fails without an owner.
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
