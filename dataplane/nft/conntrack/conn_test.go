// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
)

// every returns flows with each form of a tuple.
func every() []conntrack.Flow {
	ping := flow(1, "10.0.0.1:0", "10.0.0.2:0")
	ping.Original.ICMPType, ping.Original.ICMPID, ping.Reply.ICMPID = 8, 77, 77
	ping6 := flow(58, "[fd00::1]:0", "[fd00::2]:0")
	ping6.Original.ICMPType, ping6.Reply.ICMPType, ping6.Original.ICMPID, ping6.Reply.ICMPID = 128, 129, 78, 78
	translated := flow(6, "10.0.0.9:7", "10.96.0.1:80")
	translated.Reply = tuple(6, "10.0.0.5:8080", "192.0.2.1:61000")
	translated.Status = conntrack.StatusSourceNAT | conntrack.StatusDestinationNAT | conntrack.StatusSeenReply
	zoned := flow(17, "10.0.0.1:1", "10.0.0.2:2")
	zoned.Zone = 7
	half := flow(132, "[fd00::1]:1", "[fd00::2]:2")
	half.Original.Zone = 9
	data := flow(6, "10.0.0.1:1003", "10.0.0.2:50001")
	data.Status, data.Master = conntrack.StatusExpected, tuple(6, "10.0.0.1:1001", "10.0.0.2:21")
	marked := flow(253, "10.0.0.1:0", "10.0.0.2:0")
	marked.Mark, marked.Timeout = 0xdeadbeef, 5*24*time.Hour
	all := []conntrack.Flow{ping, ping6, translated, zoned, half, data, marked}
	for i := range all {
		all[i].ID = uint32(i) * 1_000_000_007
	}
	return all
}

// listed returns the message of a flow in a dump.
func listed(t testing.TB, sequence uint32, f conntrack.Flow) []byte {
	t.Helper()
	message, err := conntrack.AppendFlow(nil, sequence, &f, false)
	require.NoError(t, err)
	return message
}

func TestFlowsAreReadAndNamed(t *testing.T) {
	k := newFakeKernel(every()...)
	k.perPart = 3
	c, err := k.dial()
	require.NoError(t, err)
	flows, err := c.Flows(t.Context())
	require.NoError(t, err)
	require.Equal(t, every(), flows)
	var text []string
	for i := range flows {
		text = append(text, flows[i].String())
	}
	require.Equal(t, []string{
		"1 10.0.0.1 > 10.0.0.2 type 8 code 0 id 77",
		"58 fd00::1 > fd00::2 type 128 code 0 id 78",
		"6 10.0.0.9:7 > 10.96.0.1:80, answered by 6 10.0.0.5:8080 > 192.0.2.1:61000",
		"17 10.0.0.1:1 > 10.0.0.2:2 in zone 7",
		"132 [fd00::1]:1 > [fd00::2]:2",
		"6 10.0.0.1:1003 > 10.0.0.2:50001",
		"253 10.0.0.1:0 > 10.0.0.2:0",
	}, text)
	f := flows[2]
	require.Equal(t, []string{"10.0.0.9:7", "10.96.0.1:80", "10.0.0.5:8080", "192.0.2.1:61000"},
		[]string{f.Source().String(), f.Requested().String(), f.Destination().String(), f.Translated().String()})
	for _, f := range every() { // the request identifies the flow, and has nothing else
		f.Status, f.Mark, f.Timeout, f.Reply, f.Master = 0, 0, 0, conntrack.Tuple{}, conntrack.Tuple{}
		ended, err := c.End([]conntrack.Flow{f})
		require.NoError(t, err)
		require.Equal(t, 1, ended, "%s", &f)
	}
	require.Empty(t, k.flows)
}

// A request to end a flow without a tuple is never sent: the kernel would end all flows.
func TestEndWithoutTupleIsRefused(t *testing.T) {
	k := newFakeKernel(every()...)
	c, err := k.dial()
	require.NoError(t, err)
	mixed := flow(6, "10.0.0.1:1", "10.0.0.2:1")
	mixed.Original.Destination = flow(6, "[fd00::1]:1", "[fd00::2]:1").Original.Destination
	for _, f := range []conntrack.Flow{{}, {Reply: every()[0].Reply}, mixed} {
		_, err = c.End([]conntrack.Flow{f})
		require.ErrorContains(t, err, "incomplete tuple")
	}
	require.Len(t, k.flows, len(every()))
}

func TestFaults(t *testing.T) {
	many := make([]conntrack.Flow, 100)
	for i := range many {
		many[i] = numbered(i)
	}
	for name, c := range map[string]struct {
		fault error
		times int
		want  error
		dumps int
	}{
		"interrupted once":        {syscall.EINTR, 1, nil, 2},
		"overrun once":            {syscall.ENOBUFS, 1, nil, 2},
		"interrupted again":       {syscall.EINTR, 1000, conntrack.ErrInterrupted, 10},
		"overrun again":           {syscall.ENOBUFS, 1000, conntrack.ErrInterrupted, 10},
		"an answer is missing":    {syscall.EAGAIN, 1, syscall.EAGAIN, 1},
		"no rights":               {syscall.EPERM, 1, syscall.EPERM, 1},
		"no fault, for a measure": {nil, 0, nil, 1},
	} {
		for at := range 10 { // datagrams into the dump
			k := newFakeKernel(many...)
			conn, err := k.dial()
			require.NoError(t, err)
			received, faults := 0, 0
			conntrack.WithFaults(conn, func() error {
				if received++; received > at && faults < c.times {
					faults++
					received = 0
					return c.fault
				}
				return nil
			})
			flows, err := conn.Flows(t.Context())
			if c.want != nil {
				require.ErrorIs(t, err, c.want, name)
				require.Nil(t, flows)
			} else {
				require.NoError(t, err, name)
				require.Equal(t, many, flows, name)
				require.Equal(t, c.dumps, k.dumps, name)
			}
			require.LessOrEqual(t, k.dumps, c.dumps, name)
			if c.want == nil || c.times == 1 { // earlier requests do not affect later ones
				flows, err = conn.Flows(t.Context())
				require.NoError(t, err, name)
				require.Equal(t, many, flows, name)
			}
		}
	}
}

// A truncated datagram or attribute is an error, never a missing or different flow.
func TestTruncatedDatagramsAreErrors(t *testing.T) {
	many := make([]conntrack.Flow, 9)
	for i := range many {
		many[i] = numbered(i)
	}
	var whole []byte
	for i := range many {
		whole = append(whole, listed(t, 1, many[i])...)
	}
	each := len(whole) / len(many)
	read := func(datagrams ...[]byte) ([]conntrack.Flow, error) {
		c := conntrack.NewConn(&conntrack.FakeSocket{
			OnSend: func([]byte) error { return nil },
			OnReceive: func(buf []byte) (int, error) {
				if len(datagrams) == 0 {
					return 0, syscall.EAGAIN
				}
				size := len(datagrams[0])
				copy(buf, datagrams[0])
				datagrams = datagrams[1:]
				return size, nil
			},
		})
		return c.Flows(t.Context())
	}
	end := conntrack.AppendEnd(nil, 1, 0)
	flows, err := read(whole, end)
	require.NoError(t, err)
	require.Equal(t, many, flows)
	for size := range len(whole) {
		if size > 0 && size%each == 0 {
			continue // a shorter answer that is complete
		}
		_, err := read(whole[:size], end)
		require.Error(t, err, size)
	}
	_, err = read(make([]byte, 1<<17), end)
	require.ErrorContains(t, err, "answer of 131072 bytes")
	_, err = read(whole) // no end
	require.ErrorIs(t, err, syscall.EAGAIN)
	_, err = read(whole, conntrack.AppendEnd(nil, 1, syscall.EPERM))
	require.ErrorIs(t, err, syscall.EPERM)
	_, err = read(conntrack.AppendAnswer(nil, 1, syscall.EPERM))
	require.ErrorIs(t, err, syscall.EPERM)
	flows, err = read(listed(t, 7, many[0]), end)
	require.NoError(t, err)
	require.Empty(t, flows, "of another exchange")
}

// If answers are lost, End returns an error without the ended flows. A second call ends the others.
func TestEndWithLostAnswers(t *testing.T) {
	var many []conntrack.Flow
	for i := range 150 {
		many = append(many, numbered(i))
	}
	for _, errno := range []syscall.Errno{syscall.EINTR, syscall.ENOBUFS, syscall.EAGAIN} {
		for at := range 150 {
			k := newFakeKernel(many...)
			c, err := k.dial()
			require.NoError(t, err)
			received := 0
			conntrack.WithFaults(c, func() error {
				if received++; received == at+1 {
					return errno
				}
				return nil
			})
			ended, err := c.End(many)
			require.ErrorIs(t, err, errno)
			require.LessOrEqual(t, ended, at)
			again, err := c.End(many)
			require.NoError(t, err)
			require.LessOrEqual(t, ended+again, 150)
			require.Empty(t, k.flows)
		}
	}
	k := newFakeKernel(many...)
	k.refuse = func(f conntrack.Flow) syscall.Errno {
		if f.ID%2 == 1 {
			return syscall.EBUSY
		}
		return 0
	}
	c, err := k.dial()
	require.NoError(t, err)
	ended, err := c.End(append(slices.Clone(many), many...))
	require.Equal(t, 75, ended)
	require.ErrorIs(t, err, syscall.EBUSY)
	require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), 150)
}

func TestFlowsReturnsWhenContextIsDone(t *testing.T) {
	k := newFakeKernel(every()...)
	c, err := k.dial()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Flows(ctx)
	require.ErrorIs(t, err, context.Canceled)
	flows, err := c.Flows(t.Context())
	require.NoError(t, err)
	require.Len(t, flows, len(every()))
}

// A flow that decodes can be encoded, and decodes to itself again.
func FuzzDecodeFlow(f *testing.F) {
	const header = 16
	all := every()
	for i := range all {
		f.Add(listed(f, 1, all[i])[header:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		flow, ok, err := conntrack.DecodeFlow(body)
		if !ok {
			require.Equal(t, conntrack.Flow{}, flow)
			return
		}
		require.NoError(t, err)
		require.Equal(t, flow.Original.Source.Addr().Is4(), flow.Original.Destination.Addr().Is4())
		if flow.Original.Source.Addr().Is4() != flow.Reply.Source.Addr().Is4() || flow.Master != (conntrack.Tuple{}) {
			return // no kernel reports this, and the fuzzer may make a partial flow
		}
		again, ok, err := conntrack.DecodeFlow(listed(t, 1, flow)[header:])
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, flow, again)
	})
}
