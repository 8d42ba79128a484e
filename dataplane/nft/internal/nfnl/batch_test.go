// SPDX-License-Identifier: Apache-2.0

package nfnl_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
)

// message is a netlink message as sent.
type message struct {
	typ, flags uint16
	sequence   uint32
	data       []byte
}

func split(t *testing.T, b []byte) []message {
	t.Helper()
	var all []message
	for len(b) > 0 {
		length := binary.NativeEndian.Uint32(b)
		require.Zero(t, length%4)
		all = append(all, message{
			typ:      binary.NativeEndian.Uint16(b[4:]),
			flags:    binary.NativeEndian.Uint16(b[6:]),
			sequence: binary.NativeEndian.Uint32(b[8:]),
			data:     b[16:length],
		})
		b = b[length:]
	}
	return all
}

func TestBatchFrames(t *testing.T) {
	b := nfnl.NewBatch()
	b.Message(0, 0x400, 1, nfnl.Object{Kind: "table", Name: "a"})
	b.String(1, "abc")
	b.Message(3, 0, 1, nfnl.Object{Kind: "chain", Name: "c"})
	outer := b.Begin(4)
	b.Uint32(1, 7)
	b.Bytes(2, []byte{1})
	b.End(outer)
	require.Equal(t, 2, b.Len())

	data, err := nfnl.Finish(b)
	require.NoError(t, err)
	messages := split(t, data)
	require.Len(t, messages, 4)
	for i, want := range []message{
		{typ: 0x10, flags: 1, sequence: 0}, // with room for a generation
		{typ: 0xa00, flags: 0x401, sequence: 1},
		{typ: 0xa03, flags: 5, sequence: 2}, // the last one requests an acknowledgement
		{typ: 0x11, flags: 1, sequence: 3},
	} {
		got := messages[i]
		require.Equal(t, want.typ, got.typ)
		require.Equal(t, want.flags, got.flags)
		require.Equal(t, want.sequence, got.sequence)
	}
	require.Equal(
		t, []byte{0, 0, 0, 10, 8, 0, 1, 0, 0, 0, 0, 0}, messages[0].data, "resource: the subsystem; any generation",
	)

	chain := messages[2].data
	require.Equal(t, []byte{1, 0, 0, 0}, chain[:4], "family")
	require.Equal(t, uint16(4+8+8), binary.NativeEndian.Uint16(chain[4:]), "length of the nest")
	require.Equal(t, uint16(0x8004), binary.NativeEndian.Uint16(chain[6:]))
	require.Equal(t, []byte{0, 0, 0, 7}, chain[12:16])
	require.Equal(t, uint16(5), binary.NativeEndian.Uint16(chain[16:]), "length without padding")
	require.Len(t, chain, 24)
}

// A length that does not fit its 16 bits must never be sent.
func TestAttributeTooLong(t *testing.T) {
	for name, fill := range map[string]func(b *nfnl.Batch){
		"value": func(b *nfnl.Batch) { b.Bytes(1, make([]byte, 1<<16)) },
		"nest": func(b *nfnl.Batch) {
			mark := b.Begin(3)
			for range 9 {
				b.Bytes(1, make([]byte, 8000))
			}
			b.End(mark)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := nfnl.NewBatch()
			b.Message(0, 0, 1, nfnl.Object{Kind: "table", Name: "a"})
			fill(b)
			_, err := nfnl.Finish(b)
			require.ErrorContains(t, err, "longer than 65535")
		})
	}
}

func TestCommitError(t *testing.T) {
	cause := errors.New("no")
	err := &nfnl.CommitError{Failures: []nfnl.Failure{
		{Object: nfnl.Object{Kind: "rule", Name: "c", Index: 3}, Err: cause, Detail: "too odd"},
		{Err: cause},
	}}
	require.EqualError(t, err, "nfnl: transaction refused: rule 3 of chain c: no (and 1 more)")
	require.Equal(t, "rule 3 of chain c: no: too odd\nno", err.Detail())
	require.ErrorIs(t, err, cause)
}
