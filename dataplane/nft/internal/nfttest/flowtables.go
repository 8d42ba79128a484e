// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"testing"

	"github.com/wayleave/wayleave/dataplane/nft/internal/flowtable"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// SkipWithoutFlowtables skips the test on a kernel on which connections cannot use the fast path.
func SkipWithoutFlowtables(t testing.TB) {
	t.Helper()
	if !flowtable.Supported() {
		nstest.Skip(t, "needs flowtables from which connections can end (Linux 6.4)")
	}
}
