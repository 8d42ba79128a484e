// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// SkipUnlessOwned ends the test if owned is false. owned must be true if the nftables table under test has an owner,
// and stays when that owner ends (flag persist). Kernels before Linux 6.9 do not support both, so there the test is
// skipped. On later kernels, it fails.
func SkipUnlessOwned(t testing.TB, owned bool) {
	t.Helper()
	if !owned {
		requireOldKernel(t)
		Skip(t, "needs a kernel with table owners and the flag persist (Linux 6.9)")
	}
}

// OwnerWrites returns the number of transactions that it takes to adopt a table that needs no other change. If owned is
// true, this is one: it sets the owner of the table. If owned is false, it is zero, and the test fails from Linux 6.9
// on, where tables have owners.
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
