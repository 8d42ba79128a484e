// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// While BeforeWrite fails, no call but Teardown changes the ruleset. The first call after that writes
// what is missing.
func TestNothingIsWrittenWhileBeforeWriteFails(t *testing.T) {
	for name, shared := range map[string]bool{"owned": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			ns, errClosed := nstest.New(t), errors.New("closed")
			closed := errClosed
			a := openWith(t, ns, applier.Config{Shared: shared, BeforeWrite: func() error { return closed }})
			before := generation(t, ns)
			require.ErrorIs(t, a.Apply(t.Context(), sample()), errClosed)
			require.ErrorIs(t, a.Update(t.Context(), moreHosts), errClosed)
			require.ErrorIs(t, a.Verify(t.Context()), errClosed)
			require.Equal(t, before, generation(t, ns))

			closed = nil
			require.NoError(t, a.Apply(t.Context(), sample()))
			requireLists(t, ns, sample())

			before, closed = generation(t, ns), errClosed
			require.ErrorIs(t, a.Update(t.Context(), moreHosts), errClosed)
			require.ErrorIs(t, a.Resync(t.Context()), errClosed)
			require.Equal(t, before, generation(t, ns))
			closed = nil
			require.NoError(t, a.Resync(t.Context()))
			requireLists(t, ns, withMoreHosts())

			closed = errClosed
			require.NoError(t, a.Teardown(t.Context()))
			require.Empty(t, listing(t, ns))
		})
	}
}
