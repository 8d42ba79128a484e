// SPDX-License-Identifier: Apache-2.0

package netlink_test

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netlink"
)

// fake is a socket. A function returns the response to each datagram, by its sequence number.
type fake struct {
	answer func(sequence uint32) [][]byte
	queue  [][]byte
	sent   int
	fault  error // of the next Receive
}

func (f *fake) Send(datagram []byte) error {
	f.sent++
	f.queue = append(f.queue, f.answer(binary.NativeEndian.Uint32(datagram[8:]))...)
	return nil
}

func (f *fake) Receive(buf []byte) (int, error) {
	if err := f.fault; err != nil {
		f.fault = nil
		return 0, err
	}
	if len(f.queue) == 0 {
		return 0, syscall.EAGAIN
	}
	n := copy(buf, f.queue[0])
	f.queue = f.queue[1:]
	return n, nil
}

func (f *fake) Close() error { return nil }

const objectType = 0x10

func object(sequence uint32, flags uint16, number uint32) []byte {
	var m netlink.Messages
	m.Open(objectType, flags, sequence)
	m.Uint32(1, number)
	m.Close()
	data, _ := m.Data()
	return data
}

// result is an acknowledgement, error or end, with attributes.
func result(typ, flags uint16, sequence uint32, errno syscall.Errno, fill func(*netlink.Attrs)) []byte {
	header := binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno)))
	if typ == netlink.TypeError {
		header = append(header, make([]byte, netlink.HeaderLen)...)
	}
	var m netlink.Messages
	m.Open(typ, flags, sequence, header...)
	fill(&m.Attrs)
	m.Close()
	data, _ := m.Data()
	return data
}

func done(sequence uint32) []byte {
	return result(netlink.TypeDone, 0, sequence, 0, func(*netlink.Attrs) {})
}

// dump returns the numbers of the objects of the last attempt, and the number of attempts.
func dump(c *netlink.Conn) (numbers []uint32, attempts int, err error) {
	c.Request(objectType)
	err = c.Dump(func() {
		numbers = nil
		attempts++
	}, func(m netlink.Message) error {
		var d netlink.Decoder
		d.Begin(m.Data, 0)
		for d.Next() {
			numbers = append(numbers, d.Uint32())
		}
		return d.Err
	})
	return numbers, attempts, err
}

// A dump that is interrupted or incomplete is repeated, at most nine times.
func TestInterruptedDumpIsRepeated(t *testing.T) {
	interrupted := 2
	f := &fake{}
	f.answer = func(sequence uint32) [][]byte {
		flags := uint16(0)
		if interrupted--; interrupted >= 0 {
			flags = netlink.FlagInterrupted
		}
		both := append(object(sequence-1, 0, 9), object(sequence, 0, 1)...)
		return [][]byte{both, object(sequence, flags, 2), done(sequence)}
	}
	c := netlink.NewConn(f)
	numbers, attempts, err := dump(c)
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 2}, numbers, "without the response to another request")
	require.Equal(t, 3, attempts)
	for _, errno := range []error{syscall.EINTR, syscall.ENOBUFS} {
		f.fault = errno
		numbers, attempts, err = dump(c)
		require.NoError(t, err)
		require.Equal(t, []uint32{1, 2}, numbers)
		require.Equal(t, 2, attempts)
	}
	interrupted = 1000
	_, attempts, err = dump(c)
	require.ErrorIs(t, err, netlink.ErrInterrupted)
	require.ErrorIs(t, err, syscall.EINTR)
	require.Equal(t, 10, attempts)
}

// The unread response to a failed request is dropped before the next request.
func TestUnreadAnswerIsDropped(t *testing.T) {
	f := &fake{answer: func(sequence uint32) [][]byte { return [][]byte{object(sequence, 0, 1), done(sequence)} }}
	c := netlink.NewConn(f)
	f.fault = syscall.EPERM
	_, _, err := dump(c)
	require.ErrorIs(t, err, syscall.EPERM)
	require.Len(t, f.queue, 2)
	_, _, err = dump(c)
	require.NoError(t, err)
	require.Empty(t, f.queue)
	f.answer = func(uint32) [][]byte { return nil }
	_, _, err = dump(c)
	require.ErrorIs(t, err, syscall.EAGAIN)
}

// A large batch is sent in several system calls. Each refusal has its index.
func TestBatchOfSeveralCalls(t *testing.T) {
	const n = 150
	f := &fake{}
	first := uint32(1)
	f.answer = func(sequence uint32) (answers [][]byte) {
		require.Equal(t, first, sequence)
		count := min(n+1-first, 64)
		for i := range count {
			if s := sequence + i; s%3 == 0 || i == count-1 {
				errno := syscall.Errno(0)
				if s%3 == 0 {
					errno = syscall.EEXIST
				}
				answers = append(answers, result(netlink.TypeError, 0, s, errno, func(*netlink.Attrs) {}))
			}
		}
		first += count
		return answers
	}
	var b netlink.Batch
	for range n {
		b.Message(objectType, 0)
	}
	var refused []int
	require.NoError(t, netlink.NewConn(f).Do(&b, func(i int, err *netlink.AckError) {
		require.Equal(t, syscall.EEXIST, err.Errno)
		refused = append(refused, i)
	}))
	require.Equal(t, 3, f.sent)
	require.Len(t, refused, n/3)
	require.Equal(t, 2, refused[0])
}

// An error has the kernel's explanation, or else the offset of the invalid attribute.
func TestExtendedAck(t *testing.T) {
	const tlvs, capped = 0x200, 0x100
	text := func(a *netlink.Attrs) {
		a.String(1, "no such table")
		a.Native32(2, 36)
	}
	for want, b := range map[string][]byte{
		"file exists (no such table)":      result(netlink.TypeError, tlvs|capped, 1, syscall.EEXIST, text),
		"file exists":                      result(netlink.TypeError, tlvs, 1, syscall.EEXIST, text),
		"invalid argument (no such table)": result(netlink.TypeDone, tlvs, 1, syscall.EINVAL, text),
		"invalid argument (attribute at byte 36)": result(netlink.TypeError, tlvs|capped, 1, syscall.EINVAL,
			func(a *netlink.Attrs) { a.Native32(2, 36) }),
	} {
		var m netlink.Message
		_, err := m.Read(b)
		require.NoError(t, err)
		require.EqualError(t, m.Refusal(), want)
	}
}

// Decoded attributes equal the encoded ones. Truncated attributes and attributes of another length
// are malformed.
func TestDecodedAttributesEqualEncoded(t *testing.T) {
	var a netlink.Attrs
	four, sixteen := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00::1")
	nest := a.Begin(1)
	a.Uint8(2, 7)
	a.Uint16(3, 700)
	a.Native32(4, 70000)
	a.End(nest)
	a.Addr(5, four)
	a.Addr(6, sixteen)
	a.String(7, "text")
	data, err := a.Data()
	require.NoError(t, err)
	var d netlink.Decoder
	require.Empty(t, d.Begin(data, 0))
	require.True(t, d.Next())
	in := d.Nested()
	require.True(t, in.Next() && in.Uint8() == 7 && in.Next() && in.Uint16() == 700)
	require.True(t, in.Next() && in.Native32() == 70000)
	require.False(t, in.Next())
	require.True(t, d.Next() && d.Addr() == four && d.Next() && d.Addr() == sixteen && d.Next())
	require.Equal(t, "text", netlink.Text(d.Value))
	require.False(t, d.Next())
	d.Join(in.Err)
	require.NoError(t, d.Err)
	d.Uint8()
	require.ErrorIs(t, d.Err, netlink.ErrMalformed)
	for cut := range data {
		var d netlink.Decoder
		d.Begin(data[:cut], 0)
		for d.Next() {
		}
		require.Equal(t, cut > 0 && cut != 28 && cut != 36 && cut != 56 && cut < 65, d.Err != nil, cut)
	}
	require.Len(t, d.Begin(nil, 4), 4)
}

func FuzzMessage(f *testing.F) {
	f.Add(done(1))
	f.Add(object(1, 0, 7))
	f.Fuzz(func(_ *testing.T, data []byte) {
		for err := error(nil); err == nil && len(data) > 0; {
			var m netlink.Message
			if data, err = m.Read(data); err == nil {
				_ = m.Refusal()
			}
		}
	})
}
