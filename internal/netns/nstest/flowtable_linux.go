// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// SkipUnlessFlowtables ends the test if supported is false. The caller sets supported to true if
// the code under test finds that the kernel can end connections that are in a flowtable. Linux can
// do this since 6.4, and in 6.1 since 6.1.37. If supported is false, the test fails on these
// kernels, and is skipped on older ones.
func SkipUnlessFlowtables(t testing.TB, supported bool) {
	t.Helper()
	if supported {
		return
	}
	var kernel unix.Utsname
	require.NoError(t, unix.Uname(&kernel))
	withoutFlowtables(t, unix.ByteSliceToString(kernel.Release[:]), unix.ByteSliceToString(kernel.Version[:]))
}

// withoutFlowtables ends a test whose code finds that the kernel cannot end connections in
// flowtables. The other parameters are the texts that uname -r and uname -v print.
func withoutFlowtables(t testing.TB, release, build string) {
	t.Helper()
	can, err := endsFlows(release, build)
	require.NoError(t, err)
	require.False(t, can, "connections in flowtables can end on Linux %s, %s", release, build)
	Skip(t, "needs flowtables from which connections can end (Linux 6.4)")
}

// endsFlows reports whether a kernel can end connections that are in a flowtable. Releases of
// Debian may lack the third number of the version, but the build text has it.
func endsFlows(release, build string) (bool, error) {
	text := release
	if _, debian, found := strings.Cut(build, " Debian "); found {
		text = debian
	}
	var major, minor, patch int
	if n, err := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); n < 2 { // "7.0-rc1" has no third number
		return false, fmt.Errorf("read the version of Linux %q, %q: %w", release, build, err)
	}
	switch {
	case major != 6:
		return major > 6, nil
	case minor == 1:
		return patch >= 37, nil
	}
	return minor >= 4, nil
}
