// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
)

// answerWithin is the timeout of a connection and its answer.
const answerWithin = 5 * time.Second

// droppedAfter is the time without an answer after which a packet counts as dropped.
const droppedAfter = 300 * time.Millisecond

// NewPeer returns a namespace that is linked to the node by a veth pair. A prefix such as
// 192.0.2.1/24 gives the node's end this address, and the peer's end the next address, 192.0.2.2.
// The node's end has the given name. The peer's end is eth0. The node is the gateway of the peer.
func NewPeer(t testing.TB, node *netns.NS, name string, prefixes ...string) *netns.NS {
	t.Helper()
	peer := New(t)
	host, _, err := netns.Veth(netns.End{NS: node, Name: name}, netns.End{NS: peer, Name: "eth0"})
	require.NoError(t, err)
	for _, text := range prefixes {
		prefix := netip.MustParsePrefix(text)
		require.NoError(t, node.AddAddr(name, prefix))
		require.NoError(t, peer.AddAddr("eth0", netip.PrefixFrom(prefix.Addr().Next(), prefix.Bits())))
		require.NoError(t, peer.AddGateway("eth0", prefix.Addr(), host.MAC))
	}
	return peer
}

// Serve runs a server at an address until the test ends. The server answers each TCP connection and
// each UDP packet with its name. After that, it echoes what it receives on a TCP connection.
func Serve(t testing.TB, ns *netns.NS, address, name string) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = listener.Close() })
		packets, err := net.ListenPacket("udp", address)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = packets.Close() })
		go serveConnections(t.Context(), listener, name)
		go servePackets(packets, name)
		return nil
	}))
}

func serveConnections(ctx context.Context, listener net.Listener, name string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		go func() {
			_, _ = conn.Write([]byte(name + "\n"))
			_, _ = io.Copy(conn, conn)
		}()
	}
}

func servePackets(packets net.PacketConn, name string) {
	buf := make([]byte, 100)
	for {
		_, from, err := packets.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = packets.WriteTo([]byte(name+"\n"), from)
	}
}

// Dial connects from a namespace. The connection closes when the test ends.
func Dial(t testing.TB, ns *netns.NS, network, address string) (conn net.Conn, err error) {
	t.Helper()
	err = ns.Do(func() (err error) {
		conn, err = net.DialTimeout(network, address, answerWithin)
		return err
	})
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(answerWithin)))
	}
	return conn, err
}

// Answer returns the name of the server that answers at an address, or the text of the error.
func Answer(t testing.TB, ns *netns.NS, network, address string) string {
	t.Helper()
	conn, err := Dial(t, ns, network, address)
	if err != nil {
		return err.Error()
	}
	if network == "udp" {
		if _, err := conn.Write([]byte("hello")); err != nil {
			return err.Error()
		}
	}
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(buf[:n]))
}

// Dropped tries to open a TCP connection from a namespace, and reports whether its packets get no
// answer.
func Dropped(t testing.TB, ns *netns.NS, address string) bool {
	t.Helper()
	err := ns.Do(func() error {
		conn, err := net.DialTimeout("tcp", address, droppedAfter)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	var failed net.Error
	return errors.As(err, &failed) && failed.Timeout()
}

// Log is the log of a program under test. It is a channel of lines that holds at most 1,000 unread
// lines.
type Log chan string

// NewLog returns an empty log.
func NewLog() Log { return make(Log, 1000) }

// Write adds a line. It blocks while there are 1,000 unread lines.
func (l Log) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// Wait returns the next line that contains a text.
func (l Log) Wait(t testing.TB, text string) string {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return line
			}
		case <-deadline:
			require.FailNow(t, "the log has no such line", text)
		}
	}
}
