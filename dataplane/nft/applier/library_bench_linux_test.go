// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The benchmarks in this file compare code of this package with google/nftables. docs/design.md
// has the figures.

// oursForExprs returns a rule whose expressions both encode to the same bytes.
func oursForExprs(port uint16) ruleset.Rule {
	return rule(isIPv4, isTCP,
		ruleset.Compare{Field: ruleset.IPSaddr, Value: addr("10.0.0.1"), Last: addr("10.0.3.9")},
		is(ruleset.Dport, ruleset.Port(port)), accept)
}

// theirsForExprs returns the expressions of the same rule.
func theirsForExprs(port uint16) []expr.Any {
	const to = unix.NFT_REG_1
	equal := func(value []byte) expr.Any { return &expr.Cmp{Register: to, Data: value} }
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: to}, equal([]byte{unix.NFPROTO_IPV4}),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: to}, equal([]byte{unix.IPPROTO_TCP}),
		&expr.Payload{DestRegister: to, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Range{Register: to, FromData: []byte{10, 0, 0, 1}, ToData: []byte{10, 0, 3, 9}},
		&expr.Payload{DestRegister: to, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		equal(binary.BigEndian.AppendUint16(nil, port)),
		&expr.Verdict{Kind: expr.VerdictAccept},
	}
}

// marshalExprs encodes a list of expressions with the library.
func marshalExprs(to *nfnl.Attrs, list []expr.Any) error {
	to.Reset()
	for _, e := range list {
		data, err := expr.Marshal(unix.NFPROTO_INET, e)
		if err != nil {
			return err
		}
		elem := to.Begin(unix.NFTA_LIST_ELEM)
		to.Raw(data)
		to.End(elem)
	}
	return nil
}

// BenchmarkRuleExprs encodes the expressions of one rule.
func BenchmarkRuleExprs(b *testing.B) {
	encode := applier.RuleEncoder()
	var attrs nfnl.Attrs
	r := oursForExprs(80)
	ours, err := encode(&r)
	require.NoError(b, err)
	require.NoError(b, marshalExprs(&attrs, theirsForExprs(80)))
	theirs, err := attrs.Data()
	require.NoError(b, err)
	require.Equal(b, theirs, ours)
	b.Run("by=hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := encode(&r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by=library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := marshalExprs(&attrs, theirsForExprs(80)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func openLibrary(b *testing.B, ns *netns.NS) *nftables.Conn {
	b.Helper()
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithNetNSFd(ns.FD()),
		nftables.WithSockOptions(func(conn *netlink.Conn) error { return conn.SetWriteBuffer(32 << 20) }))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, conn.CloseLasting()) })
	return conn
}

// measure reports the processor time, the kernel's included, and the allocations of what the benchmark
// repeats. Other work on the machine changes processor time less than time. own is the part outside
// the kernel, of all runs.
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

// BenchmarkLibraryRead reads a table: by hand, it also compares it with the desired state.
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
