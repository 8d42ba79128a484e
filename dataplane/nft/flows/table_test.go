// SPDX-License-Identifier: Apache-2.0

package flows_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

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

// Both policies of a connection get its packets. Packets that are dropped count one by one.
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
	table.Ended(tracked(0), counters(5, 500, 4, 4000)) // of another connection, which had no verdict
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

// Whatever comes, a table stays within its limits, and its totals are complete.
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

	table.Ended(tracked(0), counters(3, 300, 0, 0)) // its flow was evicted, and comes again
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

// What was logged and what is tracked have the same tuple.
func TestTupleOf(t *testing.T) {
	entry := nflog.Entry{
		Src: netip.MustParseAddr(address), Dst: netip.MustParseAddr("10.0.0.2"), Protocol: tcp, SrcPort: 7, DstPort: 80,
	}
	require.Equal(t, allowed(flows.Key{}, 7).Tuple, flows.TupleOf(entry))
}

// BenchmarkVerdict is the cost of one verdict and of the end of its connection.
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
		table := flows.New(flows.Config{})
		for i := range 1 << 16 {
			k := key(fmt.Sprintf("namespace/source-%05d", i%5_000), 80, policy.Ingress, true)
			v := allowed(k, uint16(i))
			table.Verdict(v)
			v.Direction = policy.Egress
			table.Verdict(v)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		runtime.KeepAlive(table)
	}
}
