// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	vishvananda "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func openTwo(t *testing.T) (conn, other *Conn) {
	t.Helper()
	ns := nstest.New(t)
	_, _, err := netns.Veth(netns.End{NS: ns, Name: "a"}, netns.End{NS: ns, Name: "b"})
	require.NoError(t, err)
	for _, c := range []**Conn{&conn, &other} {
		*c, err = Dial(Config{NetNS: ns.FD()})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, (*c).Close()) })
	}
	return conn, other
}

// If the list changes during a dump, the dump begins again, and the objects so far are dropped.
func TestInterruptedDumpBeginsAgain(t *testing.T) {
	conn, other := openTwo(t)
	link, err := conn.Link("a")
	require.NoError(t, err)
	handle, err := other.Handle()
	require.NoError(t, err)
	next := netip.MustParseAddr("10.9.0.0")
	add := func() error {
		next = next.Next()
		address := &net.IPNet{IP: next.AsSlice(), Mask: net.CIDRMask(32, 32)}
		return handle.AddrAdd(nil, &vishvananda.Addr{LinkIndex: link.Index, IPNet: address})
	}
	const count = 3000 // several datagrams, of which the kernel makes only two ahead
	for range count {
		require.NoError(t, add())
	}
	attempts, listed := 0, 0
	conn.link.Request(unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg)...)
	err = conn.dump(func() {
		attempts++
		listed = 0
	}, func(m netlink.Message) error {
		a, err := parseAddress(m.Data)
		if err != nil || a.Index != link.Index || a.Prefix.Addr().Is6() {
			return err
		}
		if listed++; listed == 1 && attempts == 1 {
			return add()
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 2, attempts)
	require.Equal(t, count+1, listed)
}

// The unread response to an earlier request is not used for the next request.
func TestAnswerOfEarlierRequestIsIgnored(t *testing.T) {
	conn, _ := openTwo(t)
	conn.linkRequest(0, "a")
	require.NoError(t, conn.link.Start(netlink.FlagAck))
	link, err := conn.Link("b")
	require.NoError(t, err)
	require.Equal(t, "b", link.Name)
}
