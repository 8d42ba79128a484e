// SPDX-License-Identifier: Apache-2.0

package flows_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/flows"
	"github.com/wayleave/wayleave/policy"
)

// maxLag is the longest time from the first dump without a connection to the report of its end. It
// is less than the time after which a Table reports an end as missed.
const maxLag = 8 * time.Second

// model is a kernel with connections, and a Table that follows it.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	table   *flows.Table
	entries []*modelEntry // the connection tracking table
	ends    []*modelEntry // ends that are not reported yet, in order
	nextID  uint32
	want    map[flows.Key]flows.Counts
}

// modelEntry is a conntrack entry.
type modelEntry struct {
	flow     *conntrack.Flow
	key      flows.Key
	counters conntrack.Counters
	ended    bool
	missing  time.Time // time of the first dump without it, since the last dump with it
}

// missed reports whether dumps have been without the connection for at least d.
func (e *modelEntry) missed(d time.Duration) bool {
	return !e.missing.IsZero() && time.Since(e.missing) >= d
}

// packet adds a packet to a connection. The first one has a verdict, and others may have one.
func (m *model) packet(e *modelEntry) {
	want := m.want[e.key]
	if e.counters.OriginalPackets == 0 {
		want.Connections++
	}
	if e.counters.OriginalPackets == 0 || m.rng.IntN(2) == 0 {
		m.table.Verdict(allowed(e.key, e.key.Port))
	}
	e.counters.OriginalPackets++
	e.counters.OriginalBytes += 100
	want.Packets++
	want.Bytes += 100
	m.want[e.key] = want
}

// step makes one random step of the kernel, or reports an end.
func (m *model) step() {
	time.Sleep(time.Duration(m.rng.IntN(1000)) * time.Millisecond)
	for slices.ContainsFunc(m.ends, func(e *modelEntry) bool { return e.missed(maxLag) }) {
		m.reportEnd()
	}
	switch n := m.rng.IntN(6); {
	case n == 0 && len(m.entries) < 8:
		e := &modelEntry{flow: tracked(uint16(m.rng.IntN(3)))}
		e.flow.ID = m.nextID
		m.nextID++
		e.key = key("shop/cart", e.flow.Original.Source.Port(), policy.Ingress, true)
		m.entries = append(m.entries, e)
		m.packet(e)
	case n == 1 && len(m.entries) > 0:
		i := m.rng.IntN(len(m.entries))
		if e := m.entries[i]; !e.missed(maxLag / 2) {
			e.ended = true
			m.ends = append(m.ends, e)
			m.entries = slices.Delete(slices.Clone(m.entries), i, i+1)
		}
	case n == 2 && len(m.ends) > 0:
		m.reportEnd()
	case len(m.entries) > 0:
		m.packet(m.entries[m.rng.IntN(len(m.entries))])
	}
}

func (m *model) reportEnd() {
	m.table.Ended(m.ends[0].flow, m.ends[0].counters)
	m.ends = m.ends[1:]
}

// update calls Update. The kernel continues between the entries of the dump, which are read before
// they are reported. A dump may fail, and skip an entry that another one had lately.
func (m *model) update() {
	failed, found := errors.New("failed"), map[*modelEntry]bool{}
	err := m.table.Update(m.t.Context(), dumpFunc(func(each func(*conntrack.Flow, conntrack.Counters)) error {
		todo := slices.Clone(m.entries)
		m.rng.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		for _, e := range todo {
			if e.ended || m.rng.IntN(4) == 0 && !e.missed(maxLag/2) {
				continue
			}
			read := e.counters
			if m.rng.IntN(4) == 0 {
				m.step()
			}
			each(e.flow, read)
			e.missing = time.Time{}
			if m.rng.IntN(20) == 0 {
				return failed
			}
			found[e] = true
		}
		return nil
	}))
	if err != nil {
		require.ErrorIs(m.t, err, failed)
		return
	}
	for _, e := range slices.Concat(m.entries, m.ends) {
		if !found[e] && e.missing.IsZero() {
			e.missing = time.Now()
		}
	}
}

// Whatever the order of dumps and ends, each connection is counted once, and so is each packet.
func TestEachPacketCountsOnce(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			m := &model{
				t: t, rng: rand.New(rand.NewPCG(seed, 0)), table: flows.New(flows.Config{}),
				want: map[flows.Key]flows.Counts{},
			}
			for range 300 {
				if m.step(); m.rng.IntN(3) == 0 {
					m.update()
				}
			}
			for len(m.ends) > 0 {
				m.reportEnd()
			}
			live := dump{}
			ports := map[uint16]bool{}
			for _, e := range m.entries {
				live[e.flow] = e.counters
				ports[e.key.Port] = true
			}
			for range 3 {
				require.NoError(t, m.table.Update(t.Context(), live))
				time.Sleep(time.Minute)
			}
			require.Equal(t, m.want, counts(m.table), "seed %d", seed)
			require.Equal(t, len(ports), m.table.Stats().Connections, "seed %d", seed)
		})
	}
}
