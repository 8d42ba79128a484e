// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// fill adds numbered flows to a namespace.
func fill(t testing.TB, ns *netns.NS, from, to int) *conntrack.Conn {
	t.Helper()
	c, err := conntrack.Dial(conntrack.ConnConfig{NetNS: ns.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	create(t, c, from, to)
	return c
}

// fillFamily adds numbered flows of IPv4 (0) or IPv6 (1) to a namespace.
func fillFamily(t testing.TB, ns *netns.NS, from, to, family int) *conntrack.Conn {
	t.Helper()
	c := fill(t, ns, 0, 0)
	createFamily(t, c, from, to, family)
	return c
}

// numberedOf is numbered of IPv4 (0) or IPv6 (1).
func numberedOf(i, family int) conntrack.Flow {
	f := numbered(i)
	if family == 1 {
		for _, a := range []*netip.AddrPort{
			&f.Original.Source, &f.Original.Destination, &f.Reply.Source, &f.Reply.Destination,
		} {
			*a = netip.AddrPortFrom(netip.MustParseAddr("fd00::"+a.Addr().String()), a.Port())
		}
	}
	return f
}

func create(t testing.TB, c *conntrack.Conn, from, to int) {
	t.Helper()
	createFamily(t, c, from, to, 0)
}

func createFamily(t testing.TB, c *conntrack.Conn, from, to, family int) {
	t.Helper()
	var flows []conntrack.Flow
	for i := from; i < to; i++ {
		f := numberedOf(i, family)
		f.Timeout, f.Mark = time.Hour, uint32(i)
		flows = append(flows, f)
	}
	require.NoError(t, conntrack.Create(c, flows))
}

// A walk pauses between slices, while other flows begin and end and parts of the dump are lost. It
// ends every flow that flipped and no other.
func TestWalkInSlicesEndsFlippedFlows(t *testing.T) {
	const total, extra = 20_000, 2_000
	ns := nstest.New(t)
	c := fill(t, ns, 0, total)
	clk := newClock()
	s, err := conntrack.New(clk.with(conntrack.Config{NetNS: ns.FD(), EndRate: 20_000}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	rng, parts := rand.New(rand.NewPCG(1, 2)), 0
	conntrack.WithFaults(conntrack.Reader(s), func() error {
		switch parts++; parts {
		case 40:
			return syscall.EINTR
		case 150:
			return syscall.ENOBUFS
		}
		return nil
	})
	third := func(f *conntrack.Flow) conntrack.Verdict {
		if f.Mark%3 == 0 {
			return conntrack.Denied
		}
		return conntrack.Allowed
	}
	s.Change(always(conntrack.Allowed), third)
	gone := map[uint32]bool{}
	for step := 0; ; step++ {
		progress, err := s.Step(t.Context(), 1000)
		require.NoError(t, err)
		if progress.Done {
			break
		}
		clk.pass(progress.Wait)
		if step < 20 { // the table changes meanwhile
			create(t, c, total+step*100, total+step*100+100)
			i := uint32(rng.IntN(total))
			if i%3 == 0 {
				continue
			}
			f := numbered(int(i))
			all, err := c.Flows(t.Context())
			require.NoError(t, err)
			for _, have := range all {
				if have.Original == f.Original {
					ended, err := c.End([]conntrack.Flow{have})
					require.NoError(t, err)
					gone[i] = ended == 1
				}
			}
		}
	}
	left := map[uint32]bool{}
	all, err := c.Flows(t.Context())
	require.NoError(t, err)
	for _, f := range all {
		left[f.Mark] = true
	}
	for i := range uint32(total) {
		require.Equal(t, i%3 != 0 && !gone[i], left[i], "flow %d", i)
	}
	for i := range uint32(extra) {
		require.True(t, (total+i)%3 == 0 || left[total+i], "the new, allowed flow %d", total+i)
	}
	count, err := c.Count()
	require.NoError(t, err)
	require.Equal(t, len(all), count)
	require.Equal(t, uint64(2), s.Stats().Interrupted)
}

// BenchmarkConntrack measures on a table of 100,000 flows.
func BenchmarkConntrack(b *testing.B) {
	const total = 100_000
	ns := nstest.New(b)
	c := fill(b, ns, 0, total)
	deny := func(f *conntrack.Flow) conntrack.Verdict {
		if f.Mark >= total {
			return conntrack.Denied
		}
		return conntrack.Allowed
	}
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			n, err := c.Count()
			require.NoError(b, err)
			require.Equal(b, total, n)
		}
	})
	b.Run("dump/flows=100k", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			flows, err := c.Flows(b.Context())
			require.NoError(b, err)
			require.Len(b, flows, total)
		}
	})
	b.Run("sweep/flows=100k/stale=0", func(b *testing.B) {
		b.ReportAllocs()
		s := unbounded(b, ns)
		for b.Loop() {
			s.Change(always(conntrack.Allowed), deny)
			sweep(b, s)
		}
		require.Equal(b, uint64(b.N*total), s.Stats().Judged)
	})
	b.Run("sweep/flows=110k/stale=10k", func(b *testing.B) {
		s := unbounded(b, ns)
		for b.Loop() {
			b.StopTimer()
			create(b, c, total, total+10_000)
			b.StartTimer()
			s.Change(always(conntrack.Allowed), deny)
			sweep(b, s)
		}
		require.Equal(b, uint64(b.N*10_000), s.Stats().Ended)
	})
}

// BenchmarkEndAddresses measures how long a search for the flows of addresses without flows takes,
// on tables of flows of one family.
func BenchmarkEndAddresses(b *testing.B) {
	for _, total := range []int{10_000, 100_000} {
		for family, prefix := range []string{"203.0.113.", "2001:db8::"} {
			ns := nstest.New(b)
			c := fillFamily(b, ns, 0, total, family)
			for _, addresses := range []int{1, 2, 16} {
				var list []netip.Addr
				for i := range addresses {
					list = append(list, netip.MustParseAddr(fmt.Sprint(prefix, i+1)))
				}
				b.Run(fmt.Sprintf(
					"flows=%dk/ipv%d/addresses=%d", total/1000, 4+2*family, addresses,
				), func(b *testing.B) {
					least := time.Duration(math.MaxInt64) // the machine may be busy
					for b.Loop() {
						start := time.Now()
						ended, err := c.EndHosts(b.Context(), list...)
						require.NoError(b, err)
						require.Zero(b, ended)
						least = min(least, time.Since(start))
					}
					b.ReportMetric(float64(least.Microseconds())/1000, "min-ms/op")
				})
			}
		}
	}
}

func unbounded(b *testing.B, ns *netns.NS) *conntrack.Sweeper {
	b.Helper()
	const much = 1 << 40
	s, err := conntrack.New(conntrack.Config{NetNS: ns.FD(), Delay: -1, JudgeRate: much, EndRate: much})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

// sweep steps until nothing is pending. The sweeper has no delay, and its rates are never reached.
func sweep(t testing.TB, s *conntrack.Sweeper) {
	t.Helper()
	for {
		progress, err := s.Step(t.Context(), 10_000)
		require.NoError(t, err)
		if progress.Done {
			return
		}
	}
}
