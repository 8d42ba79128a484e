// SPDX-License-Identifier: Apache-2.0

package nfnl_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/internal/netlink"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// spoiled is a socket whose answers a function changes.
type spoiled struct {
	netlink.Socket
	sendErr error
	receive func(buf []byte, n int, err error) (int, error)
}

func (s *spoiled) Send(data []byte) error {
	if s.sendErr != nil {
		return s.sendErr
	}
	return s.Socket.Send(data)
}

func (s *spoiled) Receive(buf []byte) (int, error) {
	n, err := s.Socket.Receive(buf)
	if s.receive != nil {
		return s.receive(buf, n, err)
	}
	return n, err
}

func dialSpoiled(t *testing.T) (*nfnl.Conn, *spoiled) {
	t.Helper()
	sock, err := nfnl.Open(nfnl.Config{NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	s := &spoiled{Socket: sock}
	conn := nfnl.NewConn(s)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn, s
}

// tables lists the names of the tables.
func tables(t *testing.T, conn *nfnl.Conn) (names []string, attempts int, err error) {
	t.Helper()
	err = conn.Dump(unix.NFT_MSG_GETTABLE, unix.NFPROTO_INET, nil, func() {
		names = nil
		attempts++
	}, func(m nfnl.Message) error {
		names = append(names, netlink.Text(netlink.FindAttr(m.Attrs, unix.NFTA_TABLE_NAME)))
		return nil
	})
	return names, attempts, err
}

func commitTables(t *testing.T, conn *nfnl.Conn, names ...string) {
	t.Helper()
	b := nfnl.NewBatch()
	for _, name := range names {
		addTable(b, name)
	}
	require.NoError(t, conn.Commit(b, nil), nil)
}

// If the ruleset changes during a dump, the dump is begun again. After some attempts, it fails.
func TestDumpInterrupted(t *testing.T) {
	conn, sock := dialSpoiled(t)
	commitTables(t, conn, "a", "b")
	left := 2
	sock.receive = func(buf []byte, n int, err error) (int, error) {
		if err == nil && left > 0 && binary.NativeEndian.Uint16(buf[4:]) == unix.NLMSG_DONE {
			left--
			flags := binary.NativeEndian.Uint16(buf[6:])
			binary.NativeEndian.PutUint16(buf[6:], flags|unix.NLM_F_DUMP_INTR)
		}
		return n, err
	}
	names, attempts, err := tables(t, conn)
	require.NoError(t, err)
	require.Equal(t, 3, attempts)
	require.Equal(t, []string{"a", "b"}, names)

	left = 1000
	_, _, err = tables(t, conn)
	require.ErrorIs(t, err, unix.EINTR)
}

// If the kernel lost a part of a dump, the dump is begun again. Any other error is returned. The
// next request receives none of the messages of the dump.
func TestDumpFails(t *testing.T) {
	conn, sock := dialSpoiled(t)
	commitTables(t, conn, "a")
	for _, errno := range []error{unix.ENOBUFS, unix.EINTR, unix.ENOMEM} {
		var once bool
		sock.receive = func(_ []byte, n int, err error) (int, error) {
			if err == nil && !once {
				once = true
				return 0, errno
			}
			return n, err
		}
		_, attempts, err := tables(t, conn)
		if errno == unix.ENOMEM {
			require.ErrorIs(t, err, errno)
		} else {
			require.NoError(t, err)
			require.Equal(t, 2, attempts)
		}
		sock.receive = nil
		names, _, err := tables(t, conn)
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, names)
	}
	sock.sendErr = unix.ENOBUFS
	_, _, err := tables(t, conn)
	require.ErrorIs(t, err, unix.ENOBUFS)
}

// If the answer is lost, the transaction may have been committed. So the error is not a
// CommitError.
func TestCommitAnswerLost(t *testing.T) {
	conn, sock := dialSpoiled(t)
	b := nfnl.NewBatch()
	addTable(b, "a")
	sock.receive = func(_ []byte, n int, err error) (int, error) {
		if err == nil {
			return 0, unix.EAGAIN
		}
		return n, err
	}
	err := conn.Commit(b, nil)
	require.Error(t, err)
	var refused *nfnl.CommitError
	require.NotErrorAs(t, err, &refused)
	sock.receive = nil
	names, _, err := tables(t, conn)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, names)
}

// An acknowledgement of another message than the last one does not mean that a transaction was
// committed.
func TestAcknowledgementOfEarlierMessageIsError(t *testing.T) {
	conn, sock := dialSpoiled(t)
	b := nfnl.NewBatch()
	addTable(b, "a")
	addTable(b, "b")
	sock.receive = func(buf []byte, n int, err error) (int, error) {
		if err == nil && binary.NativeEndian.Uint16(buf[4:]) == unix.NLMSG_ERROR {
			require.EqualValues(t, 2, binary.NativeEndian.Uint32(buf[8:]))
			binary.NativeEndian.PutUint32(buf[8:], 1)
		}
		return n, err
	}
	require.Error(t, conn.Commit(b, nil), nil)
}

// A guarded transaction is refused in any other generation, and can be sent again with another
// guard.
func TestGuard(t *testing.T) {
	conn := dial(t)
	start := generation(t, conn)
	b := nfnl.NewBatch()
	addTable(b, "a")
	b.Guard(start + 1)
	err := conn.Commit(b, nil)
	require.ErrorIs(t, err, unix.ERESTART)
	require.Equal(t, start, generation(t, conn))
	b.Guard(start)
	require.NoError(t, conn.Commit(b, nil), nil)
	require.Equal(t, start+1, generation(t, conn))
}

// Check makes no change, and its error names the refused objects.
func TestCheck(t *testing.T) {
	conn := dial(t)
	start := generation(t, conn)
	b := nfnl.NewBatch()
	addTable(b, "a")
	require.NoError(t, conn.Check(b))
	require.Equal(t, start, generation(t, conn))
	names, _, err := tables(t, conn)
	require.NoError(t, err)
	require.Empty(t, names)
	require.NoError(t, conn.Commit(b, nil), nil)
	require.Equal(t, start+1, generation(t, conn))

	b.Reset()
	addChain(b, "none", "c")
	var refused *nfnl.CommitError
	require.ErrorAs(t, conn.Check(b), &refused)
	require.Equal(t, nfnl.Object{Kind: "chain", Name: "c"}, refused.Failures[0].Object)
}

// The kernel echoes the new generation for the first message, and the object for every other one.
func TestEcho(t *testing.T) {
	conn := dial(t)
	start := generation(t, conn)
	b := nfnl.NewBatch()
	b.Message(
		unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_ECHO, unix.NFPROTO_INET,
		nfnl.Object{Kind: "table", Name: "a"},
	)
	b.String(unix.NFTA_TABLE_NAME, "a")
	b.Message(
		unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE|unix.NLM_F_ECHO, unix.NFPROTO_INET,
		nfnl.Object{Kind: "chain", Name: "c"},
	)
	b.String(unix.NFTA_CHAIN_TABLE, "a")
	b.String(unix.NFTA_CHAIN_NAME, "c")
	var got []string
	require.NoError(t, conn.Commit(b, func(m nfnl.Message) {
		require.Equal(t, conn.Port(), m.Port)
		switch m.Type {
		case unix.NFT_MSG_NEWCHAIN:
			got = append(got, fmt.Sprint("chain of message ", m.Sequence))
		case unix.NFT_MSG_NEWGEN:
			require.Equal(t, start+1, netlink.Number32(netlink.FindAttr(m.Attrs, unix.NFTA_GEN_ID)))
			got = append(got, "generation")
		}
	}))
	require.Equal(t, []string{"chain of message 2", "generation"}, got)
}

// As soon as the system call of a change returns, the monitor reports the change, its generation
// and its process.
func TestMonitor(t *testing.T) {
	ns := nstest.New(t)
	m, err := nfnl.Listen(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	start := generation(t, conn)
	events := func() (all []nfnl.Event) {
		missed, err := m.Events(func(e nfnl.Event) { all = append(all, e) })
		require.NoError(t, err)
		require.False(t, missed)
		return all
	}
	require.Empty(t, events())
	commitTables(t, conn, "a")
	require.NoError(t, m.Wait())
	got := events()
	require.Len(t, got, 2)
	require.Equal(t, nfnl.Event{Port: conn.Port(), Table: "a", Family: unix.NFPROTO_INET}, got[0])
	require.Equal(t, start+1, got[1].Generation)
	require.Equal(t, conn.Port(), got[1].Port)
	own, err := os.ReadFile("/proc/self/comm") // "nfnl.test", or the name of a copy
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(own)), got[1].Process)
	require.NotZero(t, got[1].PID)

	require.NoError(t, m.Pause())
	commitTables(t, conn, "b")
	require.NoError(t, m.Resume())
	require.Empty(t, events())
	m.Wake()
	require.Error(t, m.Wait())
}
