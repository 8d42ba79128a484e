// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// tape keeps the last transaction that was sent to a socket.
type tape struct {
	netlink.Socket
	last []byte
}

func (t *tape) Send(data []byte) error {
	if binary.NativeEndian.Uint16(data[4:]) == unix.NFNL_MSG_BATCH_BEGIN {
		t.last = append(t.last[:0], data...)
	}
	return t.Socket.Send(data)
}

func openTape(b *testing.B, ns *netns.NS) (a *applier.Applier, t *tape, done func()) {
	b.Helper()
	sock, err := nfnl.Open(nfnl.Config{NetNS: ns.FD()})
	require.NoError(b, err)
	t = &tape{Socket: sock}
	a, err = applier.NewOver(applier.Config{Shared: true, Name: tableName, NetNS: ns.FD()}, t)
	require.NoError(b, err)
	return a, t, func() { require.NoError(b, a.Close()) }
}

// rawSend sends the bytes of a transaction, for any generation, and returns the time of the call of
// Send.
func rawSend(b *testing.B, sock netlink.Socket, data []byte) time.Duration {
	b.Helper()
	binary.BigEndian.PutUint32(data[24:], 0)
	start := time.Now()
	err := sock.Send(data)
	took := time.Since(start)
	require.NoError(b, err)
	buf := make([]byte, 64<<10)
	for {
		n, err := sock.Receive(buf)
		if err != nil {
			return took
		}
		if binary.NativeEndian.Uint16(buf[4:]) == unix.NLMSG_ERROR && n >= 20 {
			require.Zero(b, binary.NativeEndian.Uint32(buf[16:]), "refused")
		}
	}
}

func addresses(n int) []ruleset.Element {
	elements := make([]ruleset.Element, n)
	for i := range elements {
		elements[i] = element(binary.BigEndian.AppendUint32(nil, 10<<24+uint32(i)))
	}
	return elements
}

func intervals(n int) []ruleset.Element {
	elements := make([]ruleset.Element, n)
	for i := range elements {
		first := binary.BigEndian.AppendUint32(nil, 10<<24+uint32(i)*16)
		last := binary.BigEndian.AppendUint32(nil, 10<<24+uint32(i)*16+7)
		elements[i] = ruleset.Element{Key: []ruleset.Value{first}, Last: last}
	}
	return elements
}

func verdicts(n int) []ruleset.Element {
	elements := addresses(n)
	for i := range elements {
		elements[i].Verdict = &drop
	}
	return elements
}

func setTable(form string, n int) *ruleset.Table {
	s := &ruleset.Set{Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}}
	switch form {
	case "hash":
		s.Elements = addresses(n)
	case "interval":
		s.Interval, s.Elements = true, intervals(n)
	case "vmap":
		s.Verdicts, s.Elements = true, verdicts(n)
	}
	return &ruleset.Table{Name: tableName, Sets: []*ruleset.Set{s}}
}

// chainsTable has that many chains, each with that many rules.
func chainsTable(chains, rules int) *ruleset.Table {
	t := &ruleset.Table{Name: tableName}
	for i := range chains {
		c := chain(fmt.Sprintf("chain-%05d", i))
		for j := range rules {
			c.Rules = append(c.Rules, rule(isIPv4, isTCP,
				ruleset.Compare{
					Field: ruleset.IPSaddr, Value: ruleset.Value{10, 0, 0, 0},
					Last: ruleset.Value{10, byte(j), 255, 255},
				},
				is(ruleset.Dport, ruleset.Port(uint16(i+j))), ruleset.Counter{}, accept, fmt.Sprintf("rule %d", j)))
		}
		t.Chains = append(t.Chains, c)
	}
	t.Normalize()
	return t
}

func report(b *testing.B, own, raw []time.Duration, unit string) {
	b.Helper()
	per := float64(time.Millisecond)
	if unit == "us" {
		per = float64(time.Microsecond)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(slices.Min(own))/per, unit+"-min")
	slices.Sort(own)
	b.ReportMetric(float64(own[len(own)/2])/per, unit+"-median")
	if len(raw) > 0 {
		b.ReportMetric(float64(slices.Min(raw))/per, "raw-"+unit+"-min")
		b.ReportMetric(float64(slices.Min(own))/float64(slices.Min(raw)), "x-raw")
	}
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// BenchmarkFill fills an empty table.
func BenchmarkFill(b *testing.B) {
	tables := map[string]*ruleset.Table{
		"set=hash/elements=100k":     setTable("hash", 100_000),
		"set=interval/elements=100k": setTable("interval", 100_000),
		"set=vmap/elements=100k":     setTable("vmap", 100_000),
		"chains=1k/rules=10":         chainsTable(1000, 10),
	}
	for _, name := range []string{
		"set=hash/elements=100k", "set=interval/elements=100k", "set=vmap/elements=100k", "chains=1k/rules=10",
	} {
		table := tables[name]
		b.Run(name, func(b *testing.B) {
			ns := nstest.New(b)
			b.ReportAllocs()
			sock, err := nfnl.Open(nfnl.Config{NetNS: ns.FD()})
			require.NoError(b, err)
			defer sock.Close()
			var own, raw []time.Duration
			allocs := uint64(math.MaxUint64)
			for b.Loop() {
				a, t, done := openTape(b, ns)
				// Programs the empty table first, so that the change is measured without the
				// reading back.
				require.NoError(b, a.Apply(bg, &ruleset.Table{
					Name: tableName, Chains: []*ruleset.Chain{chain("first")},
				}))
				before := mallocs()
				start := time.Now()
				err := a.Apply(bg, table)
				own = append(own, time.Since(start))
				require.NoError(b, err)
				allocs = min(allocs, mallocs()-before)
				data := slices.Clone(t.last)
				require.NoError(b, a.Teardown(bg))
				done() // With a listener in any namespace, the kernel takes twice as long.
				raw = append(raw, rawFill(b, ns, sock, data))
			}
			report(b, own, raw, "ms")
			b.ReportMetric(float64(allocs), "allocs-one-fill")
		})
	}
}

// rawFill sends prepared bytes into a namespace with the empty table, and deletes the objects that
// they create.
func rawFill(b *testing.B, ns *netns.NS, sock netlink.Socket, data []byte) time.Duration {
	b.Helper()
	a, err := applier.New(applier.Config{Name: tableName, Shared: true, NetNS: ns.FD()})
	require.NoError(b, err)
	require.NoError(b, a.Apply(bg, &ruleset.Table{Name: tableName, Chains: []*ruleset.Chain{chain("first")}}))
	require.NoError(b, a.Close())
	took := rawSend(b, sock, data)
	nft(b, ns, "delete table inet "+tableName)
	return took
}

// BenchmarkElement adds one element to a set of 100,000 and removes it.
func BenchmarkElement(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprintf("set=hash/elements=100k/chains=%d", others), func(b *testing.B) {
			ns := nstest.New(b)
			a, t, done := openTape(b, ns)
			defer done()
			table := chainsTable(others, 10)
			table.Sets = setTable("hash", 100_000).Sets
			require.NoError(b, a.Apply(bg, table))
			one := []ruleset.Element{element(ruleset.Value{172, 16, 0, 1})}
			in := &ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "s", Add: one}}}
			out := &ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "s", Delete: one}}}
			var own, raw []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				for _, d := range []*ruleset.Delta{in, out} {
					start := time.Now()
					err := a.Update(bg, d)
					own = append(own, time.Since(start))
					require.NoError(b, err)
				}
				require.NoError(b, a.Update(bg, in))
				require.NoError(b, a.Update(bg, out))
				raw = append(raw, rawOnce(b, t, a, in, out))
			}
			report(b, own, raw, "us")
		})
	}
}

// rawOnce makes two changes by the Applier, which add and remove objects. Then it sends the bytes
// of their transactions again, and returns the time of the first. The Applier detects no foreign
// change, because the socket is its own.
func rawOnce(b *testing.B, t *tape, a *applier.Applier, in, out *ruleset.Delta) time.Duration {
	b.Helper()
	require.NoError(b, a.Update(bg, in))
	addition := slices.Clone(t.last)
	require.NoError(b, a.Update(bg, out))
	removal := slices.Clone(t.last)
	took := rawSend(b, t, addition)
	rawSend(b, t, removal)
	return took
}

// BenchmarkRule replaces one rule of one chain among 1,000.
func BenchmarkRule(b *testing.B) {
	ns := nstest.New(b)
	a, t, done := openTape(b, ns)
	defer done()
	table := chainsTable(1000, 10)
	require.NoError(b, a.Apply(bg, table))
	old := table.Chains[500]
	other := &ruleset.Chain{Name: old.Name, Rules: slices.Clone(old.Rules)}
	other.Rules[5] = rule(isIPv4, isTCP, is(ruleset.Dport, ruleset.Port(9)), ruleset.Counter{}, drop)
	conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
	require.NoError(b, err)
	defer conn.Close()
	var own, raw []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range []*ruleset.Chain{other, old} {
			start := time.Now()
			err := a.Update(bg, &ruleset.Delta{Chains: []*ruleset.Chain{c}})
			own = append(own, time.Since(start))
			require.NoError(b, err)
		}
		// The same bytes again, for the rule that replaced the old one. They come from the
		// Applier's socket, so it detects no foreign change. Only the handle differs, which the
		// Applier repairs.
		data := slices.Clone(t.last)
		at := bytes.Index(data, ruleHandle(b, data))
		copy(data[at:], handleOf(b, conn, old.Name, 5))
		raw = append(raw, rawSend(b, t, data))
		require.NoError(b, a.Verify(bg))
		for _, c := range []*ruleset.Chain{other, old, other, old} { // warms the caches again after the reading
			require.NoError(b, a.Update(bg, &ruleset.Delta{Chains: []*ruleset.Chain{c}}))
		}
	}
	report(b, own, raw, "us")
}

// ruleHandle returns the attribute by which a transaction names the rule that it replaces.
func ruleHandle(b *testing.B, batch []byte) []byte {
	b.Helper()
	for len(batch) >= unix.NLMSG_HDRLEN {
		n := binary.NativeEndian.Uint32(batch)
		if binary.NativeEndian.Uint16(batch[4:]) == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWRULE {
			return handleAttr(netlink.FindAttr(batch[20:n], unix.NFTA_RULE_HANDLE))
		}
		batch = batch[n:]
	}
	b.Fatal("no rule in the transaction")
	return nil
}

func handleAttr(value []byte) []byte {
	attr := binary.NativeEndian.AppendUint16(nil, 12)
	return append(binary.NativeEndian.AppendUint16(attr, unix.NFTA_RULE_HANDLE), value...)
}

// handleOf returns the attribute of a chain's rule that has the index.
func handleOf(b *testing.B, conn *nfnl.Conn, chain string, index int) []byte {
	b.Helper()
	var attrs netlink.Attrs
	attrs.String(unix.NFTA_RULE_TABLE, tableName)
	attrs.String(unix.NFTA_RULE_CHAIN, chain)
	request, err := attrs.Data()
	require.NoError(b, err)
	var all [][]byte
	require.NoError(b, conn.Dump(unix.NFT_MSG_GETRULE, unix.NFPROTO_INET, request, nil, func(m nfnl.Message) error {
		all = append(all, handleAttr(netlink.FindAttr(m.Attrs, unix.NFTA_RULE_HANDLE)))
		return nil
	}))
	return all[index]
}

// BenchmarkRepair measures the time from a change by another process to its repair, by a Watch and
// a Resync.
func BenchmarkRepair(b *testing.B) {
	ns := nstest.New(b)
	a, t, done := openTape(b, ns)
	table := chainsTable(500, 10)
	table.Sets = []*ruleset.Set{{Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: addresses(25_000)}}
	require.NoError(b, a.Apply(bg, table))
	ctx, cancel := context.WithCancel(bg)
	drifts, ended := make(chan applier.Drift, 1), make(chan error, 1)
	go func() { ended <- a.Watch(ctx, func(d applier.Drift) { drifts <- d }) }()
	for _, what := range []string{"rules", "table"} {
		b.Run("gone="+what+"/elements=25k/rules=5k", func(b *testing.B) {
			conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
			require.NoError(b, err)
			defer conn.Close()
			var own []time.Duration
			for b.Loop() {
				batch := nfnl.NewBatch()
				if what == "table" {
					batch.Message(unix.NFT_MSG_DELTABLE, 0, unix.NFPROTO_INET, nfnl.Object{})
					batch.String(unix.NFTA_TABLE_NAME, tableName)
				} else {
					batch.Message(unix.NFT_MSG_DELRULE, 0, unix.NFPROTO_INET, nfnl.Object{})
					batch.String(unix.NFTA_RULE_TABLE, tableName)
					batch.String(unix.NFTA_RULE_CHAIN, "chain-00007")
				}
				require.NoError(b, conn.Commit(batch, nil), nil)
				start := time.Now()
				<-drifts
				err := a.Resync(bg)
				own = append(own, time.Since(start))
				require.NoError(b, err)
			}
			report(b, own, nil, "ms")
		})
	}
	cancel()
	require.ErrorIs(b, <-ended, context.Canceled)
	all := slices.Clone(t.last) // the whole table, unless it was left out
	done()
	b.Run("raw/elements=25k/rules=5k", func(b *testing.B) {
		sock, err := nfnl.Open(nfnl.Config{NetNS: ns.FD()})
		require.NoError(b, err)
		defer sock.Close()
		var raw []time.Duration
		for b.Loop() {
			nft(b, ns, "delete table inet "+tableName)
			raw = append(raw, rawSend(b, sock, all))
		}
		report(b, raw, nil, "ms")
	})
}

// BenchmarkAdopt reads an unchanged table back.
func BenchmarkAdopt(b *testing.B) {
	mixed := chainsTable(500, 10)
	for i := range 500 {
		mixed.Sets = append(mixed.Sets, &ruleset.Set{
			Name: fmt.Sprintf("set-%04d", i), Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: addresses(50),
		})
	}
	mixed.Normalize()
	for _, c := range []struct {
		name  string
		table *ruleset.Table
	}{
		{"sets=500/elements=25k/chains=500/rules=5k", mixed},
		{"set=hash/elements=100k", setTable("hash", 100_000)},
		{"set=interval/elements=100k", setTable("interval", 100_000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			ns := nstest.New(b)
			first, _, done := openTape(b, ns)
			require.NoError(b, first.Apply(bg, c.table))
			done()
			before := generation(b, ns)
			conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
			require.NoError(b, err)
			defer conn.Close()
			var own, raw []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				a, err := applier.New(applier.Config{Name: tableName, Shared: true, NetNS: ns.FD()})
				require.NoError(b, err)
				start := time.Now()
				err = a.Apply(bg, c.table)
				own = append(own, time.Since(start))
				require.NoError(b, err)
				require.NoError(b, a.Close())
				raw = append(raw, rawDump(b, conn, c.table))
			}
			require.Equal(b, before, generation(b, ns))
			report(b, own, raw, "ms")
		})
	}
}

// rawDump reads all rules and all elements of the sets, and decodes none.
func rawDump(b *testing.B, conn *nfnl.Conn, table *ruleset.Table) (took time.Duration) {
	b.Helper()
	dump := func(typ uint16, names ...string) {
		var attrs netlink.Attrs
		for i, name := range names {
			attrs.String(uint16(i+1), name)
		}
		request, err := attrs.Data()
		require.NoError(b, err)
		start := time.Now()
		err = conn.Dump(typ, unix.NFPROTO_INET, request, nil, func(nfnl.Message) error { return nil })
		took += time.Since(start)
		require.NoError(b, err)
	}
	dump(unix.NFT_MSG_GETRULE, tableName)
	for _, s := range table.Sets {
		dump(unix.NFT_MSG_GETSETELEM, tableName, s.Name)
	}
	return took
}
