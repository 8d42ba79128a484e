// SPDX-License-Identifier: Apache-2.0

package flows_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/flows"
	"github.com/wayleave/wayleave/dataplane/nft/nflog"
	"github.com/wayleave/wayleave/policy"
)

const (
	tcp     = policy.ProtocolTCP
	address = "10.0.0.1"
)

// key is a flow from a source to the port of shop/web, by a rule of a policy.
func key(source string, port uint16, direction policy.Type, allowed bool) flows.Key {
	return flows.Key{
		Source: source, Destination: "shop/web", Protocol: tcp, Port: port,
		Decision: flows.Decision{
			Allowed: allowed, Policy: policy.Key{Kind: policy.KindPolicy, Name: "p"}, Direction: direction,
		},
	}
}

// tracked is the connection from a port of 10.0.0.1 to port 80 of 10.0.0.2.
func tracked(port uint16) *conntrack.Flow {
	src := netip.AddrPortFrom(netip.MustParseAddr(address), port)
	dst := netip.MustParseAddrPort("10.0.0.2:80")
	return &conntrack.Flow{
		Original: conntrack.Tuple{Source: src, Destination: dst, Protocol: uint8(tcp)},
		Reply:    conntrack.Tuple{Source: dst, Destination: src, Protocol: uint8(tcp)},
	}
}

// allowed is the verdict about a connection of tracked.
func allowed(k flows.Key, port uint16) flows.Verdict {
	f := tracked(port)
	return flows.Verdict{Key: k, Length: 60, Tuple: flows.Tuple{
		Source: f.Original.Source, Destination: f.Original.Destination, Protocol: tcp,
	}}
}

func counters(packets, bytes, replyPackets, replyBytes uint64) conntrack.Counters {
	return conntrack.Counters{
		OriginalPackets: packets, OriginalBytes: bytes, ReplyPackets: replyPackets, ReplyBytes: replyBytes,
	}
}

// counts returns the counts of the flows by their keys.
func counts(table *flows.Table) map[flows.Key]flows.Counts {
	all := map[flows.Key]flows.Counts{}
	for _, f := range table.Flows() {
		all[f.Key] = f.Counts
	}
	return all
}

// Both policies of a connection get its packets. Dropped packets are counted one by one.
func TestConnectionsAndDrops(t *testing.T) {
	table := flows.New(flows.Config{})
	egress, ingress := key("shop/cart", 80, policy.Egress, true), key("shop/cart", 80, policy.Ingress, true)
	for port := range uint16(2) {
		table.Verdict(allowed(egress, port))
		table.Verdict(allowed(ingress, port))
	}
	denied := key("data/db", 80, policy.Ingress, false)
	for range 3 {
		table.Verdict(flows.Verdict{Key: denied, Length: 60})
	}
	table.Ended(tracked(0), counters(5, 500, 4, 4000))
	table.Ended(tracked(2), counters(5, 500, 4, 4000)) // this packet had no verdict
	both := flows.Counts{Connections: 2, Packets: 5, Bytes: 500, ReplyPackets: 4, ReplyBytes: 4000}
	require.Equal(t, map[flows.Key]flows.Counts{
		egress: both, ingress: both, denied: {Packets: 3, Bytes: 180},
	}, counts(table))
	require.Equal(t, map[flows.Decision]flows.Counts{
		egress.Decision: both, ingress.Decision: both, denied.Decision: {Packets: 3, Bytes: 180},
	}, table.Totals())
	require.Equal(t, flows.Stats{Flows: 3, Connections: 1}, table.Stats())
}

// A connection whose end was missed does not add its packets to the next one with its tuple.
func TestTupleIsUsedAgain(t *testing.T) {
	table := flows.New(flows.Config{})
	first, second := key("shop/cart", 80, policy.Ingress, true), key("shop/cart", 80, policy.Ingress, true)
	second.Rule = 1
	table.Verdict(allowed(first, 7))
	table.Missed()
	table.Verdict(allowed(second, 7))
	table.Ended(tracked(7), counters(1, 100, 1, 100))
	require.Equal(t, map[flows.Key]flows.Counts{
		first:  {Connections: 1},
		second: {Connections: 1, Packets: 1, Bytes: 100, ReplyPackets: 1, ReplyBytes: 100},
	}, counts(table))
	require.Equal(t, flows.Stats{Flows: 2, Missed: 1}, table.Stats())
}

// dump is a connection tracking table: the counters of each flow.
type dump map[*conntrack.Flow]conntrack.Counters

func (d dump) EachCounted(_ context.Context, _ func(), each func(*conntrack.Flow, conntrack.Counters)) error {
	for f, c := range d {
		each(f, c)
	}
	return nil
}

// dumpFunc is a table with events during the dump.
type dumpFunc func(each func(*conntrack.Flow, conntrack.Counters)) error

func (d dumpFunc) EachCounted(_ context.Context, _ func(), each func(*conntrack.Flow, conntrack.Counters)) error {
	return d(each)
}

// Each packet until the first reply has a verdict. The connection is counted once, and so is each
// of its packets.
func TestVerdictsOfOneConnection(t *testing.T) {
	table := flows.New(flows.Config{})
	k, f := key("shop/cart", 80, policy.Ingress, true), tracked(7)
	for n := range uint64(100) {
		table.Verdict(allowed(k, 7))
		require.NoError(t, table.Update(t.Context(), dump{f: counters(n+1, 100*(n+1), 0, 0)}))
		want := flows.Counts{Connections: 1, Packets: n + 1, Bytes: 100 * (n + 1)}
		require.Equal(t, map[flows.Key]flows.Counts{k: want}, counts(table))
	}
	table.Ended(f, counters(101, 10_100, 0, 0))
	table.Verdict(allowed(k, 7)) // of the next connection
	require.Equal(t, map[flows.Key]flows.Counts{k: {Connections: 2, Packets: 101, Bytes: 10_100}}, counts(table))
}

// A connection without a conntrack entry is counted again only after a pause, for example a
// connection that the second endpoint denies.
func TestConnectionsWithoutConntrack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := flows.New(flows.Config{})
		k := key("shop/cart", 80, policy.Egress, true)
		for range 300 {
			table.Verdict(allowed(k, 7))
			require.NoError(t, table.Update(t.Context(), dump{}))
			require.Equal(t, map[flows.Key]flows.Counts{k: {Connections: 1}}, counts(table))
			require.Equal(t, flows.Stats{Flows: 1}, table.Stats())
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		require.NoError(t, table.Update(t.Context(), dump{}))
		table.Verdict(allowed(k, 7))
		require.Equal(t, map[flows.Key]flows.Counts{k: {Connections: 2}}, counts(table))
	})
}

// Conntrack entries with the same tuple are counted one by one. Only the growth of each entry is
// added.
func TestConnectionsWithOneTuple(t *testing.T) {
	k := key("shop/cart", 80, policy.Ingress, true)
	for name, change := range map[string]func(*conntrack.Flow){
		"another ID":      func(f *conntrack.Flow) { f.ID = 2 },
		"another ICMP ID": func(f *conntrack.Flow) { f.Original.ICMPID = 2 },
		"another zone":    func(f *conntrack.Flow) { f.Zone = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			table := flows.New(flows.Config{})
			one, two := tracked(7), tracked(7)
			change(two)
			table.Verdict(allowed(k, 7))
			table.Verdict(allowed(k, 7))
			want := flows.Counts{Connections: 2, Packets: 23, Bytes: 2300}
			for range 10 {
				require.NoError(t, table.Update(t.Context(), dump{
					one: counters(20, 2000, 0, 0), two: counters(3, 300, 0, 0),
				}))
				require.Equal(t, map[flows.Key]flows.Counts{k: want}, counts(table))
				require.Equal(t, flows.Stats{Flows: 1, Connections: 1}, table.Stats())
			}
			table.Ended(one, counters(20, 2000, 0, 0))
			table.Ended(two, counters(4, 400, 0, 0))
			want.Packets, want.Bytes = 24, 2400
			require.Equal(t, map[flows.Key]flows.Counts{k: want}, counts(table))
			require.Equal(t, map[flows.Decision]flows.Counts{k.Decision: want}, table.Totals())
			require.Equal(t, flows.Stats{Flows: 1}, table.Stats())
		})
	}
}

// Entries that no Update has found are counted when they end, also after the first one.
func TestShortConnectionsWithOneTuple(t *testing.T) {
	table := flows.New(flows.Config{})
	k := key("shop/cart", 80, policy.Ingress, true)
	table.Verdict(allowed(k, 7))
	table.Verdict(allowed(k, 7))
	for id := range uint32(2) {
		f := tracked(7)
		f.ID = id
		table.Ended(f, counters(1, 100, 0, 0))
	}
	require.Equal(t, map[flows.Key]flows.Counts{k: {Connections: 2, Packets: 2, Bytes: 200}}, counts(table))
}

// An entry that ends after an Update has read it is counted once. The next entry is counted too,
// although it has the same ID.
func TestEndDuringUpdate(t *testing.T) {
	failed := errors.New("failed")
	for _, result := range []error{nil, failed} {
		table := flows.New(flows.Config{})
		k, f := key("shop/cart", 80, policy.Ingress, true), tracked(7)
		table.Verdict(allowed(k, 7))
		require.NoError(t, table.Update(t.Context(), dump{f: counters(2, 200, 0, 0)}))
		err := table.Update(t.Context(), dumpFunc(func(each func(*conntrack.Flow, conntrack.Counters)) error {
			table.Ended(f, counters(3, 300, 0, 0))
			each(f, counters(3, 300, 0, 0))
			return result
		}))
		require.ErrorIs(t, err, result)
		require.Equal(t, map[flows.Key]flows.Counts{k: {Connections: 1, Packets: 3, Bytes: 300}}, counts(table))
		table.Verdict(allowed(k, 7))
		require.NoError(t, table.Update(t.Context(), dump{f: counters(4, 400, 0, 0)}))
		require.Equal(t, map[flows.Key]flows.Counts{k: {Connections: 2, Packets: 7, Bytes: 700}}, counts(table))
	}
}

// Update detects a missed end: the counters of an entry have decreased, or the entry is not found.
func TestMissedEndsAreDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := flows.New(flows.Config{MaxConnections: 1})
		k, f := key("shop/cart", 80, policy.Ingress, true), tracked(7)
		requireCounts := func(want flows.Counts) {
			t.Helper()
			require.Equal(t, map[flows.Key]flows.Counts{k: want}, counts(table))
		}
		table.Verdict(allowed(k, 7))
		require.NoError(t, table.Update(t.Context(), dump{f: counters(5, 500, 5, 500)}))
		require.NoError(t, table.Update(t.Context(), dump{f: counters(1, 700, 5, 500)}))
		requireCounts(flows.Counts{Connections: 2, Packets: 6, Bytes: 1200, ReplyPackets: 10, ReplyBytes: 1000})
		for range 10 {
			require.NoError(t, table.Update(t.Context(), dump{}))
			require.Equal(t, 1, table.Stats().Connections, "the end may be late")
			time.Sleep(time.Second)
		}
		require.NoError(t, table.Update(t.Context(), dump{}))
		require.Zero(t, table.Stats().Connections)
		table.Verdict(allowed(k, 7))
		require.NoError(t, table.Update(t.Context(), dump{f: counters(2, 200, 0, 0)}))
		requireCounts(flows.Counts{Connections: 3, Packets: 8, Bytes: 1400, ReplyPackets: 10, ReplyBytes: 1000})
		table.Ended(f, counters(1, 100, 0, 0))
		requireCounts(flows.Counts{Connections: 4, Packets: 9, Bytes: 1500, ReplyPackets: 10, ReplyBytes: 1000})
		require.Zero(t, table.Stats().Connections)
		table.Verdict(allowed(k, 8))
		require.Equal(t, flows.Stats{Flows: 1, Connections: 1}, table.Stats(), "the entry was removed")
	})
}

// Sometimes Updates do not find an entry. If the end of the entry is reported late, or a later
// Update finds the entry, it is counted once, and so is each of its packets.
func TestEntryThatUpdatesDoNotFind(t *testing.T) {
	k, f := key("shop/cart", 80, policy.Ingress, true), tracked(7)
	for _, verdict := range []bool{false, true} {
		table := flows.New(flows.Config{})
		table.Verdict(allowed(k, 7))
		require.NoError(t, table.Update(t.Context(), dump{f: counters(5, 500, 0, 0)}))
		requireCounts := func(packets uint64) {
			t.Helper()
			want := flows.Counts{Connections: 1, Packets: packets, Bytes: 100 * packets}
			require.Equal(t, map[flows.Key]flows.Counts{k: want}, counts(table))
		}
		miss := func() {
			t.Helper()
			for range 3 {
				require.NoError(t, table.Update(t.Context(), dump{}))
			}
			if verdict { // policy decides about each packet until there is a reply
				table.Verdict(allowed(k, 7))
			}
		}
		miss()
		require.NoError(t, table.Update(t.Context(), dump{f: counters(6, 600, 0, 0)}))
		requireCounts(6)
		miss()
		table.Ended(f, counters(7, 700, 0, 0))
		requireCounts(7)
		require.Zero(t, table.Stats().Connections)
	}
}

// All policies of a connection get its packets, also where there are more than two (S110).
func TestDecisionsOfOneConnection(t *testing.T) {
	table := flows.New(flows.Config{})
	want := map[flows.Key]flows.Counts{}
	for range 20 { // policy decides about each packet until there is a reply
		for _, d := range []flows.Decision{
			{Policy: policy.Key{Kind: policy.KindPolicy, Name: "pod"}, Direction: policy.Egress},
			{Policy: policy.Key{Kind: policy.KindPolicy, Name: "forward"}, Direction: policy.Ingress},
			{Policy: policy.Key{Kind: policy.KindPolicy, Name: "forward"}, Direction: policy.Egress},
			{Policy: policy.Key{Kind: policy.KindPolicy, Name: "pod"}, Direction: policy.Ingress},
		} {
			k := key("shop/cart", 80, d.Direction, true)
			k.Policy = d.Policy
			table.Verdict(allowed(k, 7))
			want[k] = flows.Counts{Connections: 1, Packets: 20, Bytes: 2000}
		}
	}
	table.Ended(tracked(7), counters(20, 2000, 0, 0))
	require.Equal(t, want, counts(table))
}

// When policy changes during a connection without replies, the policies that decide then get the
// packets.
func TestPolicyChangesDuringConnection(t *testing.T) {
	table := flows.New(flows.Config{})
	egress, before := key("shop/cart", 80, policy.Egress, true), key("shop/cart", 80, policy.Ingress, true)
	after := before
	after.Policy.Name = "after"
	packets, f := uint64(0), tracked(7)
	send := func(n uint64, ingress flows.Key) {
		for range n {
			table.Verdict(allowed(egress, 7))
			table.Verdict(allowed(ingress, 7))
		}
		packets += n
		require.NoError(t, table.Update(t.Context(), dump{f: counters(packets, 100*packets, 0, 0)}))
	}
	send(100, before)
	send(20, after)
	send(100, after)
	require.Equal(t, map[flows.Key]flows.Counts{
		egress: {Connections: 1, Packets: 220, Bytes: 22_000},
		before: {Connections: 1, Packets: 100, Bytes: 10_000},
		after:  {Connections: 1, Packets: 120, Bytes: 12_000},
	}, counts(table))
	for i := range 100 { // the number of policies of a connection has a limit
		before.Policy.Name = fmt.Sprint(i)
		table.Verdict(allowed(before, 7))
	}
	was := counts(table)
	packets++
	require.NoError(t, table.Update(t.Context(), dump{f: counters(packets, 100*packets, 0, 0)}))
	grown := 0
	for k, c := range counts(table) {
		if c.Packets > was[k].Packets {
			grown++
		}
	}
	require.Equal(t, 6, grown)
}

// A table stays within its limits, and its totals are complete.
func TestLimits(t *testing.T) {
	const limit, sent = 10, 1000
	var evicted []flows.Flow
	table := flows.New(flows.Config{
		MaxFlows: limit, MaxConnections: limit, MaxTotals: 2,
		Evicted: func(f flows.Flow) { evicted = append(evicted, f) },
	})
	for i := range sent {
		k := key(fmt.Sprintf("source%d", i), 80, policy.Ingress, true)
		k.Rule = i
		table.Verdict(allowed(k, uint16(i)))
	}
	require.Equal(t, flows.Stats{
		Flows: limit, Connections: limit, Evicted: sent - limit, Uncounted: sent - limit,
	}, table.Stats())
	require.Len(t, evicted, sent-limit)
	require.Equal(t, "source0", evicted[0].Source)
	require.Equal(t, "source999", table.Flows()[0].Source, "the latest is first")

	table.Ended(tracked(0), counters(3, 300, 0, 0)) // its flow was evicted, and is added again
	require.Equal(t, "source0", table.Flows()[0].Source)
	require.Equal(t, uint64(300), table.Flows()[0].Bytes)
	totals := table.Totals()
	require.Len(t, totals, 3)
	require.Equal(t, uint64(sent-2), totals[flows.Decision{Allowed: true}].Connections)
	var all flows.Counts
	for _, c := range totals {
		all.Connections += c.Connections
		all.Bytes += c.Bytes
	}
	require.Equal(t, flows.Counts{Connections: sent, Bytes: 300}, all)
}

// Many entries with one tuple stay within the limit. Entries over the limit are counted when they
// end.
func TestLimitOfOneTuple(t *testing.T) {
	const limit, sent = 10, 1000
	table := flows.New(flows.Config{MaxConnections: limit})
	k, all := key("shop/cart", 80, policy.Ingress, true), dump{}
	for id := range uint32(sent) {
		f := tracked(7)
		f.ID = id
		table.Verdict(allowed(k, 7))
		all[f] = counters(1, 100, 0, 0)
	}
	for range 3 {
		require.NoError(t, table.Update(t.Context(), all))
		require.Equal(t, map[flows.Key]flows.Counts{
			k: {Connections: limit, Packets: limit, Bytes: 100 * limit},
		}, counts(table))
	}
	for f, c := range all {
		table.Ended(f, c)
	}
	require.Equal(t, map[flows.Key]flows.Counts{
		k: {Connections: sent, Packets: sent, Bytes: 100 * sent},
	}, counts(table))
	require.Equal(t, flows.Stats{Flows: 1}, table.Stats())
}

// At the limit, the next connection replaces one that has ended.
func TestEndedConnectionIsReplacedAtLimit(t *testing.T) {
	table := flows.New(flows.Config{MaxConnections: 1})
	k := key("shop/cart", 80, policy.Ingress, true)
	for port := range uint16(10) {
		table.Verdict(allowed(k, port))
		table.Ended(tracked(port), counters(1, 100, 0, 0))
	}
	require.Equal(t, map[flows.Key]flows.Counts{k: {Connections: 10, Packets: 10, Bytes: 1000}}, counts(table))
	require.Equal(t, flows.Stats{Flows: 1}, table.Stats())
}

// The verdict log has no ports of protocols without ports, and conntrack may have some, as the keys
// of GRE.
func TestProtocolsWithoutPorts(t *testing.T) {
	table := flows.New(flows.Config{})
	k, f, v := key("shop/cart", 0, policy.Ingress, true), tracked(7), allowed(flows.Key{}, 7)
	f.Original.Protocol, f.Reply.Protocol = 47, 47
	v.Key, v.Tuple.Protocol = k, 47
	v.Tuple.Source = netip.AddrPortFrom(v.Tuple.Source.Addr(), 0)
	v.Tuple.Destination = netip.AddrPortFrom(v.Tuple.Destination.Addr(), 0)
	table.Verdict(v)
	table.Ended(f, counters(1, 100, 0, 0))
	require.Equal(t, map[flows.Key]flows.Counts{k: {Connections: 1, Packets: 1, Bytes: 100}}, counts(table))
}

// A logged packet and its conntrack entry have the same tuple.
func TestTupleOf(t *testing.T) {
	entry := nflog.Entry{
		Src: netip.MustParseAddr(address), Dst: netip.MustParseAddr("10.0.0.2"), Protocol: tcp, SrcPort: 7, DstPort: 80,
	}
	require.Equal(t, allowed(flows.Key{}, 7).Tuple, flows.TupleOf(entry))
}

// BenchmarkVerdict measures one verdict and the end of its connection.
func BenchmarkVerdict(b *testing.B) {
	b.ReportAllocs()
	table := flows.New(flows.Config{})
	k, end := key("shop/cart", 80, policy.Ingress, true), tracked(7)
	v := allowed(k, 7)
	for b.Loop() {
		table.Verdict(v)
		table.Ended(end, counters(5, 500, 4, 400))
	}
}

// BenchmarkMemory reports the bytes of a full table.
func BenchmarkMemory(b *testing.B) {
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		table, all := flows.New(flows.Config{}), dump{}
		for i := range 1 << 16 {
			k := key(fmt.Sprintf("namespace/source-%05d", i%5_000), 80, policy.Ingress, true)
			v := allowed(k, uint16(i))
			table.Verdict(v)
			v.Direction = policy.Egress
			table.Verdict(v)
			all[tracked(uint16(i))] = counters(1, 1, 1, 1)
		}
		require.NoError(b, table.Update(b.Context(), all))
		require.Equal(b, 1<<16, table.Stats().Connections)
		all = nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		runtime.KeepAlive(table)
	}
}
