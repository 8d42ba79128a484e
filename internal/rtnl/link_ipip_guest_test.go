// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package rtnl_test

import (
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// ChangeIPIP keeps the index of the device, and resets all options of the outer header. The test
// needs the kernel's module ipip; scripts/test-kernels runs it.
func TestChangeIPIP(t *testing.T) {
	ns, conn, _ := open(t)
	out, err := exec.Command("modprobe", "fou").CombinedOutput()
	require.NoError(t, err, string(out))
	const plain = "ipip ipip remote any local 192.0.2.2 ttl inherit nopmtudisc"
	for _, made := range []string{
		"local 192.0.2.1", "local 192.0.2.1 ttl 9 pmtudisc", "local 192.0.2.1 tos 4", "local 192.0.2.1 dev a",
		"local 192.0.2.1 encap fou encap-dport 5555",
	} {
		args := append([]string{"link", "add", "dev", "t", "type", "ipip", "mode", "ipip"}, strings.Fields(made)...)
		ip(t, ns, args...)
		link, err := conn.Link("t")
		require.NoError(t, err)
		require.Equal(t, "ipip", link.Kind)
		require.Zero(t, link.MAC, "its address has four bytes")
		require.NoError(t, conn.ChangeIPIP(link.Index, netip.MustParseAddr("192.0.2.2"), 0))
		again, err := conn.Link("t")
		require.NoError(t, err)
		require.Equal(t, link.Index, again.Index)
		require.Contains(t, ip(t, ns, "-d", "link", "show", "t"), plain, made)

		parent, err := conn.Link("a")
		require.NoError(t, err)
		require.NoError(t, conn.ChangeIPIP(link.Index, netip.MustParseAddr("192.0.2.2"), parent.Index))
		require.Contains(t, ip(t, ns, "-d", "link", "show", "t"), "local 192.0.2.2 dev a ", made)

		ip(t, ns, "link", "add", "dev", "other", "type", "ipip", "local", "192.0.2.3")
		err = conn.ChangeIPIP(link.Index, netip.MustParseAddr("192.0.2.3"), 0)
		require.ErrorIs(t, err, rtnl.ErrExist)
		require.ErrorIs(t, err, syscall.EEXIST)
		ip(t, ns, "link", "del", "dev", "other")
		ip(t, ns, "link", "del", "dev", "t")
		require.ErrorIs(t, conn.ChangeIPIP(link.Index, netip.MustParseAddr("192.0.2.2"), 0), rtnl.ErrNotFound)
	}
}
