// SPDX-License-Identifier: Apache-2.0

package nfnl_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// dial opens a connection to a new namespace.
func dial(t *testing.T) *nfnl.Conn {
	t.Helper()
	conn, err := nfnl.Dial(nfnl.Config{NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

func addTable(b *nfnl.Batch, name string) {
	b.Message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, nfnl.Object{Kind: "table", Name: name})
	b.String(unix.NFTA_TABLE_NAME, name)
}

func addChain(b *nfnl.Batch, table, name string) {
	b.Message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, unix.NFPROTO_INET, nfnl.Object{Kind: "chain", Name: name})
	b.String(unix.NFTA_CHAIN_TABLE, table)
	b.String(unix.NFTA_CHAIN_NAME, name)
}

func generation(t *testing.T, conn *nfnl.Conn) uint32 {
	t.Helper()
	g, err := conn.Generation()
	require.NoError(t, err)
	return g
}

// Every transaction increments the generation by one, whatever its size. An empty batch sends
// nothing and increments nothing.
func TestCommitCountsGenerations(t *testing.T) {
	conn := dial(t)
	start := generation(t, conn)
	for i := range uint32(3) {
		b := nfnl.NewBatch()
		addTable(b, "a")
		addChain(b, "a", fmt.Sprint("c", i))
		require.NoError(t, conn.Commit(b, nil), nil)
		require.Equal(t, start+i+1, generation(t, conn))
	}
	require.NoError(t, conn.Commit(nfnl.NewBatch(), nil), nil)
	require.Equal(t, start+3, generation(t, conn))
}

func TestCommitErrorNamesRefusedObjects(t *testing.T) {
	conn := dial(t)
	start := generation(t, conn)
	b := nfnl.NewBatch()
	addTable(b, "a")
	addChain(b, "b", "lost")
	addChain(b, "a", "fine")
	b.Message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, unix.NFPROTO_INET, nfnl.Object{Kind: "chain", Name: "hook"})
	b.String(unix.NFTA_CHAIN_TABLE, "a")
	b.String(unix.NFTA_CHAIN_NAME, "hook")
	hook := b.Begin(unix.NFTA_CHAIN_HOOK)
	b.Uint32(unix.NFTA_HOOK_HOOKNUM, 99)
	b.Uint32(unix.NFTA_HOOK_PRIORITY, 0)
	b.End(hook)

	err := conn.Commit(b, nil)
	var refused *nfnl.CommitError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Failures, 2)
	require.Equal(t, nfnl.Object{Kind: "chain", Name: "lost"}, refused.Failures[0].Object)
	require.Equal(t, nfnl.Object{Kind: "chain", Name: "hook"}, refused.Failures[1].Object)
	require.ErrorIs(t, err, unix.ENOENT)
	require.Contains(t, refused.Detail(), "chain lost: no such file or directory: attribute at byte ")
	require.Equal(t, start, generation(t, conn))
}

// Thousands of errors do not block, and the next transaction does not receive them.
func TestCommitManyFailures(t *testing.T) {
	const n = 3000
	conn := dial(t)
	b := nfnl.NewBatch()
	for i := range n {
		addChain(b, "none", fmt.Sprint("c", i))
	}
	var refused *nfnl.CommitError
	require.ErrorAs(t, conn.Commit(b, nil), &refused)
	require.NotEmpty(t, refused.Failures)
	require.Contains(t, refused.Error(), "chain c0: ")

	b = nfnl.NewBatch()
	addTable(b, "a")
	require.NoError(t, conn.Commit(b, nil), nil)
}

// A transaction larger than the system's limit on send buffers is sent completely. Without the
// privilege for such a buffer, Commit refuses it. It is never sent in part.
func TestCommitLarge(t *testing.T) {
	const chains = 20_000
	conn := dial(t)
	start := generation(t, conn)
	b := nfnl.NewBatch()
	addTable(b, "a")
	for i := range chains {
		addChain(b, "a", fmt.Sprintf("chain-with-a-rather-long-name-%06d", i))
	}
	if err := conn.Commit(b, nil); err != nil {
		require.ErrorIs(t, err, unix.EMSGSIZE)
		require.Equal(t, start, generation(t, conn))
		return
	}
	require.Equal(t, start+1, generation(t, conn))
}

func TestClosed(t *testing.T) {
	conn, err := nfnl.Dial(nfnl.Config{NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	b := nfnl.NewBatch()
	addTable(b, "a")
	require.Error(t, conn.Commit(b, nil), nil)
	_, err = conn.Generation()
	require.Error(t, err)
}

func FuzzParseReplies(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 40))
	f.Add([]byte{
		36, 0, 0, 0, 2, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 20, 0, 0, 0, 0, 0, 5, 0, 1, 0, 0, 0, 0,
		0, 0, 0,
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := nfnl.ParseMessages(data); n == 0 && err == nil && len(data) > 0 {
			t.Fatal("neither a message nor an error")
		}
	})
}
