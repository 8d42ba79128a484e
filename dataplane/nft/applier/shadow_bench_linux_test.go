// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// clock records when each transaction was committed.
type clock struct {
	tape
	done []time.Time
}

func (c *clock) Send(data []byte) error {
	err := c.tape.Send(data)
	if binary.NativeEndian.Uint16(data[4:]) == unix.NFNL_MSG_BATCH_BEGIN {
		c.done = append(c.done, time.Now())
	}
	return err
}

// BenchmarkPrefixes changes all, half or one of the prefixes of a set together with an address of
// another set, by shadows. It measures the time until packets see the change, and until Apply
// returns. Raw sends the encoded change of only the prefixes, in place.
func BenchmarkPrefixes(b *testing.B) {
	for _, count := range []int{3000, 20_000, 100_000} {
		for _, part := range []string{"all", "half", "one"} {
			b.Run(
				fmt.Sprintf("prefixes=%d/change=%s", count, part),
				func(b *testing.B) { benchmarkPrefixes(b, count, part) },
			)
		}
	}
}

func benchmarkPrefixes(b *testing.B, count int, part string) {
	ns := nstest.New(b)
	sock, err := nfnl.Open(nfnl.Config{NetNS: ns.FD()})
	require.NoError(b, err)
	c := &clock{tape: tape{Socket: sock}}
	a, err := applier.NewOver(applier.Config{Name: tableName, NetNS: ns.FD()}, c)
	require.NoError(b, err)
	defer func() { require.NoError(b, a.Close()) }()
	elements := intervals(2 * count)
	table := tenBy(1000, rule(isIPv4, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPDaddr}, Set: "nets"}, drop),
		&ruleset.Set{Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true, Elements: elements[:count]})
	require.NoError(b, a.Apply(bg, table))
	changed := map[string]int{"all": count, "half": count / 2, "one": 1}[part]
	old, new := elements[:changed], elements[count:count+changed]
	address := []ruleset.Element{element(ruleset.Value{172, 16, 0, 1})}
	there := &ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "nets", Delete: old, Add: new}, {
		Set: "many", Add: address,
	}}}
	back := &ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "nets", Delete: new, Add: old}, {
		Set: "many", Delete: address,
	}}}
	alone, aloneBack := &ruleset.Delta{Elements: there.Elements[:1]}, &ruleset.Delta{Elements: back.Elements[:1]}
	var own, visible, raw []time.Duration
	for b.Loop() {
		for _, d := range []*ruleset.Delta{there, back} {
			c.done = c.done[:0]
			start := time.Now()
			err := a.Update(bg, d)
			own = append(own, time.Since(start))
			require.NoError(b, err)
			require.Len(b, c.done, 5)
			visible = append(visible, c.done[1].Sub(start)) // the live phase
		}
		raw = append(raw, rawOnce(b, &c.tape, a, alone, aloneBack))
		require.NoError(b, a.Resync(bg)) // its notifications overflowed
	}
	report(b, own, raw, "ms")
	b.ReportMetric(float64(slices.Min(visible))/float64(time.Millisecond), "visible-ms-min")
	slices.Sort(visible)
	b.ReportMetric(float64(visible[len(visible)/2])/float64(time.Millisecond), "visible-ms-median")
}
