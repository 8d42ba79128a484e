// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package wireguard_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// All nodes rotate both keys at the same time, and no packet is lost.
func TestKeysAreRotatedUnderTraffic(t *testing.T) {
	c := newUnderlay(t, 3, twoDevices)
	for _, n := range c.nodes {
		n.start()
	}
	c.awaitKeys()
	c.requireReachable()
	for _, n := range c.nodes { // from here on, keys are too old
		n.stop()
		old := time.Now().Add(-2 * n.cfg.KeyLifetime)
		for _, d := range n.cfg.Devices {
			require.NoError(t, os.Chtimes(d.KeyFile, old, old))
		}
	}
	keys := map[wgtypes.Key]bool{}
	for _, n := range c.nodes {
		for _, name := range []string{"wg.way", "wg2.way"} {
			keys[n.device(name).PublicKey] = true
		}
	}
	require.Len(t, keys, 6)
	var ends []func() (int, int)
	for i, n := range c.nodes {
		to := c.nodes[(i+1)%3]
		ends = append(ends, n.startTraffic(to, to.pod.Addresses[0]), n.startTraffic(to, to.pod.Addresses[1]))
	}
	wire := c.nodes[0].capture()
	began := time.Now()
	for _, n := range c.nodes {
		n.start()
	}
	left := func() (old int) {
		for _, n := range c.nodes {
			for _, name := range []string{"wg.way", "wg2.way"} {
				if keys[n.device(name).PublicKey] {
					old++
				}
			}
		}
		return old
	}
	require.Eventually(t, func() bool { return left() == 0 }, 8*time.Minute, time.Second)
	t.Logf("all keys were rotated after %s", time.Since(began).Round(time.Second))
	for _, end := range ends {
		sent, answered := end()
		t.Logf("%d packets, %d answers", sent, answered)
		require.Equal(t, sent, answered)
	}
	require.Empty(t, plaintext(wire.packets()))
	c.requireReachable()
}
