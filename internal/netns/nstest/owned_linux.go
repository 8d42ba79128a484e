// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// SkipUnlessOwned ends the test if owned is false. The caller sets owned to true if the nftables
// table under test has an owner and the flag persist. With this flag, the table stays when its
// owner ends. Only Linux 6.9 and later support it. So if owned is false, SkipUnlessOwned skips the
// test on earlier kernels, and fails it on Linux 6.9 and later.
func SkipUnlessOwned(t testing.TB, owned bool) {
	t.Helper()
	if !owned {
		requireOldKernel(t)
		Skip(t, "needs a kernel with table owners and the flag persist (Linux 6.9)")
	}
}

// OwnerWrites returns the number of transactions that an Applier needs to adopt a table that is
// already in its desired state. The parameter owned is true if the Applier becomes the owner of the
// table. Then the result is 1, for the transaction that sets the owner. Otherwise the result is 0.
// On Linux 6.9 and later, the Applier must become the owner: OwnerWrites fails the test if owned is
// false.
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
