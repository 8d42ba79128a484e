// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

// idleStale is what newStaleFlows makes, without its goroutine, and with sweeps that begin at the end of a delay.
func idleStale(t *testing.T, delay time.Duration) *staleFlows {
	t.Helper()
	ns := nstest.New(t)
	sweeper, err := conntrack.New(conntrack.Config{NetNS: ns.FD(), Delay: delay})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sweeper.Close()) })
	conn, err := rtnl.Dial(rtnl.Config{Namespace: ns.FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return &staleFlows{
		sweeper: sweeper, logger: slog.New(slog.DiscardHandler), table: "wayleave", wake: make(chan struct{}, 1),
		holdings: newHoldings(), waiting: commit{reset: true}, routes: newRouteFinder(conn),
	}
}

// Rulesets are kept up to a bound, and let go of when their sweep is done.
func TestEarlierRulesetsAreBounded(t *testing.T) {
	s := idleStale(t, -1)
	chain := func(i int) commit {
		return commit{deltas: []*ruleset.Delta{{Chains: []*ruleset.Chain{{Name: fmt.Sprintf("c%d", i)}}}}}
	}
	s.follow(commit{reset: true})
	require.Zero(t, s.stats().Pending, "nothing is known of what was before")
	for i := range 3 * maxEarlier {
		s.follow(chain(i))
		require.Equal(t, min(i+1, maxEarlier), s.kept())
	}
	require.Equal(t, 3*maxEarlier, s.stats().Pending)
	progress, err := s.sweeper.Step(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, progress.Done, "there is no flow")
	s.follow(chain(1000))
	require.Equal(t, 1, s.kept())
	require.Len(t, s.now.state.ChainNames(), 3*maxEarlier+1, "all were followed")

	s.follow(commit{deltas: []*ruleset.Delta{{Elements: []ruleset.ElementDelta{{Set: "missing", Add: []ruleset.Element{{}}}}}}})
	require.Nil(t, s.now.state, "a delta that is not valid: the state is not known any more")
	s.follow(commit{table: &ruleset.Table{Name: "wayleave"}})
	require.NotNil(t, s.now.state)
}

// While nothing can be programmed, what waits does not grow without end, and counts as one change in the end.
func TestWaitingIsBounded(t *testing.T) { EachForm(t, testWaitingIsBounded) }

func testWaitingIsBounded(t *testing.T, classes ClassesConfig) {
	s := idleStale(t, -1)
	r, err := NewRenderer(RendererConfig{Classes: classes})
	require.NoError(t, err)
	d := &Dataplane{renderer: r, stale: s}
	d.applier, err = applier.New(applier.Config{Name: "wayleave", NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.applier.Close()) }()
	r.Update(dataplane.Batch{Events: basics()})
	require.NoError(t, d.write(t.Context(), r.Flush()))
	require.NoError(t, s.programmed(t.Context()))
	failing, cancel := context.WithCancel(t.Context())
	cancel()
	last := 3 * maxWaiting
	for i := range last + 1 {
		r.Update(dataplane.Batch{Events: []dataplane.Event{endpointUpdate("open", "way3", nil, nil, "10.0.0.3", fmt.Sprintf("fd00::1:%x", i))}})
		delta := r.Flush()
		require.Error(t, d.write(failing, delta))
		require.LessOrEqual(t, len(s.waiting.deltas), maxWaiting)
	}
	require.NotNil(t, s.waiting.table)
	require.NoError(t, s.programmed(t.Context()))
	require.Len(t, s.queue, 2)
	for _, c := range s.queue {
		s.follow(c)
	}
	require.Equal(t, 1, s.stats().Pending-len(s.queue))
	table, errs := r.Table()
	require.Empty(t, errs)
	require.Equal(t, table.String(), s.now.state.Table().String())
}

// Addresses whose flows could not be ended stay to be ended.
func TestLostAddressesStayPending(t *testing.T) {
	s := idleStale(t, 0)
	s.update(dataplane.Batch{Events: basics()})
	require.NoError(t, s.programmed(t.Context()))
	require.Len(t, s.queue, 1)
	gone := dataplane.Batch{Events: []dataplane.Event{&dataplane.EndpointRemove{Key: staleKey(policy.KindWorkloadEndpoint, "open")}}}
	s.update(gone)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.programmed(canceled), context.Canceled)
	require.Equal(t, staleAddrs("10.0.0.3", "fd00::3"), s.holdings.lostAddresses())

	works, err := conntrack.New(conntrack.Config{NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	require.NoError(t, works.Close())
	s.sweeper, works = works, s.sweeper
	err = s.programmed(t.Context())
	var apply *dataplane.ApplyError
	require.True(t, errors.As(err, &apply), "%v", err)
	require.Len(t, s.holdings.lost, 2)
	s.sweeper = works
	require.NoError(t, s.programmed(t.Context()))
	require.Empty(t, s.holdings.lost)
	require.Len(t, s.queue, 2, "the removal counts once")
}

// Where an address is follows from the routes.
func TestRouteFinder(t *testing.T) {
	ns := nstest.New(t)
	nstest.NewWorkload(t, ns, "way1")
	for a, link := range map[string]string{"192.0.2.1/32": "lo", "2001:db8::1/128": "lo", "192.0.2.2/24": "way1", "2001:db8::2/64": "way1"} {
		require.NoError(t, ns.AddAddr(link, netip.MustParsePrefix(a)))
	}
	conn, err := rtnl.Dial(rtnl.Config{Namespace: ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	r := newRouteFinder(conn)
	require.Eventually(t, func() bool { // an IPv6 address is taken in some time after it was added
		route, err := conn.Lookup(netip.MustParseAddr("2001:db8::7"))
		return err == nil && route.Type == rtnl.TypeUnicast
	}, 20*time.Second, time.Millisecond)
	for address, want := range map[string][]side{
		"192.0.2.1": {{local: true}}, "2001:db8::1": {{local: true}}, "127.0.0.1": {{local: true}},
		"192.0.2.7": {{iface: "way1"}}, "2001:db8::7": {{iface: "way1"}},
		"198.51.100.1": nil, "fd00::1": nil, "fe80::1": nil, "224.0.0.1": nil, "192.0.2.255": nil,
	} {
		for range 2 {
			require.Equal(t, want, r.find(netip.MustParseAddr(address)), address)
		}
	}
	require.Len(t, r.found, 10)
	r.forget()
	require.Empty(t, r.found)
}

// BenchmarkStale measures what a change and a flow cost with so many policies of five rules on 200 endpoints, and a set.
func BenchmarkStale(b *testing.B) {
	const policies, local, members = 10_000, 200, 250_000
	r, err := NewRenderer(RendererConfig{})
	require.NoError(b, err)
	update := &dataplane.IPSetUpdate{ID: "s:all", Type: dataplane.IPSetNets}
	for i := range members {
		a := netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})
		update.Members = append(update.Members, dataplane.Member{Prefix: netip.PrefixFrom(a, 32)})
	}
	events := []dataplane.Event{update}
	var keys [policies]policy.Key
	for i := range policies {
		p := &dataplane.Policy{Tier: "default"}
		for j := range 5 {
			p.Ingress = append(p.Ingress, dataplane.Rule{
				ID: fmt.Sprint(i, j), Action: policy.Allow, Protocol: policy.ProtocolTCP, Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:all"}},
				Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(uint16(i))}},
			})
		}
		keys[i] = staleKey(policy.KindPolicy, fmt.Sprint("p", i))
		events = append(events, &dataplane.PolicyUpdate{Key: keys[i], Policy: p})
	}
	for i := range local {
		name := fmt.Sprint("way", i)
		events = append(events, endpointUpdate(name, name, keys[i*policies/local:(i+1)*policies/local], nil, fmt.Sprint("10.0.0.", i)))
	}
	h, w := newHoldings(), newWorld("wayleave", outside())
	r.Update(dataplane.Batch{Events: events})
	h.update(dataplane.Batch{Events: events})
	require.NoError(b, w.apply(&commit{deltas: []*ruleset.Delta{r.Flush()}, owners: h.takeChanges()}))
	flow := staleFlow(staleTCP, "203.0.113.9:4000", "10.0.0.77:65535", "") // all fifty policies say no
	b.Run("clone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.clone()
		}
	})
	b.Run("first-flow", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.rest()
			require.Equal(b, conntrack.Denied, w.judge(flow))
		}
	})
	b.Run("flow", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.judge(flow)
		}
	})
}
