// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// S173: changes of the base chains' own rules begin an epoch. These rules change when the first
// interface with another prefix is added, and when the last one is removed. They also change with
// the first and the last bridge port.
func TestChangeOfBaseChainsBeginsEpoch(t *testing.T) {
	nfttest.EachForm(t, func(t *testing.T, classes render.ClassesConfig) {
		b := newBridged(t, classes)
		epoch := func() string {
			found := regexp.MustCompile(`set epoch \{ # handle (\d+)`).FindStringSubmatch(
				nstest.NFT(t, b.node, "", "-a", "list", "table", "inet", "wayleave"),
			)
			require.NotNil(t, found)
			return found[1]
		}
		b.become(t, shop())
		odd := shop()
		odd.Endpoints[endpointKey("odd")] = &dataplane.Endpoint{
			Interface: "eth0", Addresses: addrs("10.99.0.99"), Profiles: []string{"all"},
		}
		for _, s := range []dptest.State{odd, shop()} {
			before := epoch()
			b.become(t, s)
			require.NotEqual(t, before, epoch())
		}
		for _, change := range []func(){
			func() { b.enslave(t, "way1", false) },
			func() { b.release(t, "way1") },
		} {
			before := epoch()
			change()
			_ = b.plane.Resync(t.Context()) // the endpoint of a port is at fault
			require.NotEqual(t, before, epoch())
		}
	})
}
