// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package routes_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// Like TestPolicyInsideVXLAN, with IP in IP.
func TestPolicyInsideIPIP(t *testing.T) {
	c := newIPIPCluster(t, policy.EncapAlways, 2, 3)
	wire := c.capture("to-n2")
	c.addPolicy([]string{"ipip.way"}, c.nodes[1].world.IPv4IPIPTunnelAddr).checkAll()
	packets := wire.packets()
	require.NotEmpty(t, packets)
	require.Empty(t, unencapsulated(packets))
}

// unencapsulated returns the packets between pods that are not in packets of IP in IP.
func unencapsulated(packets []string) []string {
	return slices.DeleteFunc(packets, func(p string) bool {
		return strings.HasPrefix(p, "ipip ") || strings.Count(p, "10.65.") < 2
	})
}
