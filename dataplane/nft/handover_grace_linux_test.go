// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// S168: between the transaction that removes the former owner and the end of its connections, there
// is a grace period. The same holds if one of two endpoints with a prefix loses it.
func TestHandoverWaitsForGracePeriod(t *testing.T) {
	nfttest.EachForm(t, testHandoverWaitsForGracePeriod)
}

func testHandoverWaitsForGracePeriod(t *testing.T, classes render.ClassesConfig) {
	sources := func(s dptest.State, name string) dptest.State {
		return edit(s, name, func(e *dataplane.Endpoint) { sendsFrom(e, addrs("10.50.0.0", "fd00:50::"), 8) })
	}
	for name, states := range map[string]struct{ before, after dptest.State }{
		"address":       {shop(), newOwnerOf()},
		"shared prefix": {sources(sources(shop(), "way3"), "way2"), sources(shop(), "way2")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTracked(t, classes, states.before)
			b.connect(t, "way4")
			var steps []string
			nft.SetWaitGrace(b.plane, func() error {
				steps = append(steps, "grace period")
				return nil
			})
			nft.InterceptEnding(b.plane, func([]netip.Addr) error {
				steps = append(steps, "end")
				return nil
			})
			b.become(t, states.after)
			require.Equal(t, []string{"grace period", "end"}, steps, "there are no connections")
		})
	}
}

// S168: an endpoint whose AllowedSources were admitted by an earlier call is not withheld when
// another endpoint loses the same prefix.
func TestAdmittedSourcesAreNotWithheld(t *testing.T) {
	nfttest.EachForm(t, testAdmittedSourcesAreNotWithheld)
}

func testAdmittedSourcesAreNotWithheld(t *testing.T, classes render.ClassesConfig) {
	sources := func(s dptest.State, name string) dptest.State {
		return edit(s, name, func(e *dataplane.Endpoint) { sendsFrom(e, addrs("10.50.0.0", "fd00:50::"), 8) })
	}
	b := newTracked(t, classes, sources(sources(shop(), "way3"), "way2"))
	endings := 0
	nft.InterceptEnding(b.plane, func([]netip.Addr) error {
		endings++
		b.requireNew(t, 0, 2, true, "the endpoint already had its sources")
		return nil
	})
	b.become(t, sources(shop(), "way3"))
	require.NotZero(t, endings)
}

// S168: if the transaction that removes the former owner fails, no connections are ended and the
// new owner is not admitted. This is because the former owner could open connections again.
func TestFailedRemovalOfFormerOwnerEndsHandover(t *testing.T) {
	nfttest.EachForm(t, testFailedRemovalOfFormerOwnerEndsHandover)
}

func testFailedRemovalOfFormerOwnerEndsHandover(t *testing.T, classes render.ClassesConfig) {
	errClosed, failures, endings := errors.New("closed"), 0, 0
	b := &tracked{wire: shopWire(t), at: dptest.NewState()}
	b.plane = openWith(t, b.node, nft.Config{
		Renderer: render.Config{Classes: classes}, BeforeWrite: func() error {
			if failures--; failures >= 0 {
				return errClosed
			}
			return nil
		},
	})
	b.become(t, shop())
	b.connect(t, "way4")
	b.opened(t, 0, 1)
	nft.InterceptEnding(b.plane, func([]netip.Addr) error {
		endings++
		return nil
	})
	failures = 2 // of the transaction, and of the repair after it
	require.ErrorIs(t, b.plane.Apply(t.Context(), dptest.Transition(b.at, newOwnerOf())), errClosed)
	require.Zero(t, endings)
	b.at = newOwnerOf()
	b.newOwnerPasses(t, false)
	require.NoError(t, b.plane.Resync(t.Context()))
	require.NotZero(t, endings)
	b.newOwnerPasses(t, true)
}
