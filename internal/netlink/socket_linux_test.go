// SPDX-License-Identifier: Apache-2.0

package netlink_test

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// open returns a NETLINK_ROUTE socket in a namespace of its own.
func open(t *testing.T) *netlink.KernelSocket {
	t.Helper()
	s, err := netlink.Open(netlink.Config{Family: unix.NETLINK_ROUTE, NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// request returns a message with a body of zeros, which means any family.
func request(typ, flags uint16) []byte {
	b := binary.NativeEndian.AppendUint32(nil, unix.NLMSG_HDRLEN+unix.SizeofIfInfomsg)
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, 7) // the sequence number
	return append(b, make([]byte, 4+unix.SizeofIfInfomsg)...)
}

func typeOf(datagram []byte) uint16 { return binary.NativeEndian.Uint16(datagram[4:]) }

// The whole response to a request can be read when Send returns.
func TestResponseIsCompleteAfterSend(t *testing.T) {
	s, buf := open(t), make([]byte, 1<<16)
	require.NoError(t, s.Send(request(unix.RTM_GETLINK, unix.NLM_F_DUMP)))
	n, err := s.Receive(buf)
	require.NoError(t, err)
	require.Equal(t, uint16(unix.RTM_NEWLINK), typeOf(buf[:n]), "the loopback interface")
	for typeOf(buf[:n]) == unix.RTM_NEWLINK { // modules such as ipip add more interfaces than fit into one
		n, err = s.Receive(buf)
		require.NoError(t, err)
	}
	require.Equal(t, uint16(unix.NLMSG_DONE), typeOf(buf[:n]))
	_, err = s.Receive(buf)
	require.ErrorIs(t, err, unix.EAGAIN)
}

// A datagram that is larger than the buffer is truncated, and its full length is returned.
func TestReceiveReturnsFullLength(t *testing.T) {
	s, buf := open(t), make([]byte, 20)
	require.NoError(t, s.Send(request(unix.RTM_GETLINK, unix.NLM_F_DUMP)))
	n, err := s.Receive(buf)
	require.NoError(t, err)
	require.Greater(t, n, len(buf))
}

// Datagrams from processes other than the kernel are discarded.
func TestReceiveDiscardsMessagesOfOtherProcesses(t *testing.T) {
	ns := nstest.New(t)
	s, err := netlink.Open(netlink.Config{Family: unix.NETLINK_ROUTE, NetNS: ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	port, err := s.Port()
	require.NoError(t, err)
	other, err := netlink.Open(netlink.Config{Family: unix.NETLINK_ROUTE, NetNS: ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	require.NoError(t, other.Control(func(fd int) error {
		to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port}
		return unix.Sendto(fd, request(unix.RTM_NEWLINK, 0), 0, to)
	}))
	require.NoError(t, s.Wait(), "the queue is not empty")
	_, err = s.Receive(make([]byte, 1<<16))
	require.ErrorIs(t, err, unix.EAGAIN)
}

// Wait returns for a notification of a group, at the deadline, and when the socket is closed.
func TestWait(t *testing.T) {
	ns := nstest.New(t)
	s, err := netlink.Open(netlink.Config{Family: unix.NETLINK_ROUTE, NetNS: ns.FD()})
	require.NoError(t, err)
	require.NoError(t, s.Join(unix.RTNLGRP_LINK))
	waited := make(chan error, 1)
	go func() { waited <- s.Wait() }()
	nstest.NewWorkload(t, ns, "way1", "10.0.0.1")
	require.NoError(t, <-waited)
	buf := make([]byte, 1<<16)
	for err = nil; err == nil; _, err = s.Receive(buf) { // until the queue is empty
	}
	require.ErrorIs(t, err, unix.EAGAIN)
	require.NoError(t, s.Leave(unix.RTNLGRP_LINK))

	require.NoError(t, s.SetDeadline(time.Unix(1, 0)))
	require.ErrorIs(t, s.Wait(), os.ErrDeadlineExceeded)
	require.NoError(t, s.SetDeadline(time.Time{}))

	go func() { waited <- s.Wait() }()
	require.NoError(t, s.Close())
	require.Error(t, <-waited)
	require.Error(t, s.Send(request(unix.RTM_GETLINK, unix.NLM_F_DUMP)))
	_, err = s.Receive(buf)
	require.Error(t, err)
	require.NotErrorIs(t, err, unix.EAGAIN)
}

// GrowReceive and GrowSend return the size that the kernel set.
func TestGrow(t *testing.T) {
	s := open(t)
	for _, grow := range []func(int) (int, error){s.GrowReceive, s.GrowSend} {
		got, err := grow(64 << 10)
		require.NoError(t, err)
		require.GreaterOrEqual(t, got, 64<<10)
	}
}
