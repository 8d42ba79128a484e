// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The benchmarks in this file compare code of this package with google/nftables. docs/design.md
// has the figures.

func openLibrary(b *testing.B, ns *netns.NS) *nftables.Conn {
	b.Helper()
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithNetNSFd(ns.FD()),
		nftables.WithSockOptions(func(conn *netlink.Conn) error { return conn.SetWriteBuffer(32 << 20) }))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, conn.CloseLasting()) })
	return conn
}

// measure reports the processor time of each run, the kernel's included, and its allocations. Other
// work on the machine changes processor time less than elapsed time. own is the part outside the
// kernel, of all runs.
type measure struct {
	took   []time.Duration
	own    time.Duration
	allocs uint64
}

func processorTime(b *testing.B) (own, all time.Duration) {
	b.Helper()
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano()), time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (m *measure) run(b *testing.B, do func() error) {
	b.Helper()
	before := mallocs()
	ownStart, start := processorTime(b)
	err := do()
	ownEnd, end := processorTime(b)
	m.took, m.own = append(m.took, end-start), m.own+ownEnd-ownStart
	m.allocs = mallocs() - before
	require.NoError(b, err)
}

func (m *measure) report(b *testing.B) {
	b.Helper()
	report(b, m.took, nil, "ms")
	b.ReportMetric(m.own.Seconds()*1000/float64(len(m.took)), "own-ms")
	b.ReportMetric(float64(m.allocs), "allocs-one-run")
}

// BenchmarkLibraryFill fills a hash set with 100,000 addresses.
func BenchmarkLibraryFill(b *testing.B) {
	const total, chunk = 100_000, 4000 // More elements in one call are lost.
	table := setTable("hash", total)
	elements := make([]nftables.SetElement, total)
	for i := range elements {
		elements[i].Key = table.Sets[0].Elements[i].Key[0]
	}
	b.Run("by=hand", func(b *testing.B) {
		ns := nstest.New(b)
		var m measure
		for b.Loop() {
			a, _, done := openTape(b, ns)
			require.NoError(b, a.Apply(bg, &ruleset.Table{Name: tableName}))
			m.run(b, func() error { return a.Apply(bg, table) })
			require.NoError(b, a.Teardown(bg))
			done()
		}
		m.report(b)
	})
	b.Run("by=library", func(b *testing.B) {
		ns := nstest.New(b)
		conn := openLibrary(b, ns)
		var m measure
		for b.Loop() {
			own := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: tableName})
			set := &nftables.Set{Table: own, Name: "s", KeyType: nftables.TypeIPAddr}
			require.NoError(b, conn.AddSet(set, nil))
			require.NoError(b, conn.Flush())
			m.run(b, func() error {
				for at := 0; at < total; at += chunk {
					if err := conn.SetAddElements(set, elements[at:at+chunk]); err != nil {
						return err
					}
				}
				return conn.Flush()
			})
			have, err := conn.GetSetElements(set)
			require.NoError(b, err)
			require.Len(b, have, total)
			conn.DelTable(own)
			require.NoError(b, conn.Flush())
		}
		m.report(b)
	})
}

// BenchmarkLibraryRead reads a table. The variant of this package also compares it with the desired
// state.
func BenchmarkLibraryRead(b *testing.B) {
	table := chainsTable(500, 10)
	table.Sets = setTable("hash", 100_000).Sets
	ns := nstest.New(b)
	first, _, done := openTape(b, ns)
	require.NoError(b, first.Apply(bg, table))
	done()
	b.Run("by=hand", func(b *testing.B) {
		var m measure
		for b.Loop() {
			a, _, done := openTape(b, ns)
			m.run(b, func() error { return a.Apply(bg, table) })
			done()
		}
		m.report(b)
	})
	b.Run("by=library", func(b *testing.B) {
		conn := openLibrary(b, ns)
		own := &nftables.Table{Family: nftables.TableFamilyINet, Name: tableName}
		var m measure
		for b.Loop() {
			m.run(b, func() error {
				chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
				if err != nil {
					return err
				}
				for _, c := range chains {
					if _, err := conn.GetRules(own, c); err != nil {
						return err
					}
				}
				set, err := conn.GetSetByName(own, "s")
				if err != nil {
					return err
				}
				_, err = conn.GetSetElements(set)
				return err
			})
		}
		m.report(b)
	})
}
