// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
)

// Events are counted wherever the stream is split. Bookmarks are not counted.
func TestEventsOfStreamsAreCounted(t *testing.T) {
	bookmark := "\x00\x00\x00\x0d\x0a\x08BOOKMARKabc"
	stream := []byte("\x00\x00\x00\x03abc" + bookmark + "\x00\x00\x01\x00" + string(make([]byte, 256)) +
		"\x00\x00\x00\x01x" + bookmark)
	text := []byte(`{"type":"ADDED","object":{}}` + "\n" + `{"type":"BOOKMARK","object":{}}` + "\n" +
		`{"type":"MODIFIED","object":"BOOKMARK"}` + "\n" + `{"type":"DELETED"}` + "\n")
	for _, c := range []struct {
		fresh  func() framing
		stream []byte
	}{
		{func() framing { return &prefixed{} }, stream},
		{func() framing { return &lines{} }, text},
	} {
		for split := range len(c.stream) {
			f := c.fresh()
			require.Equal(t, 3, f.count(c.stream[:split])+f.count(c.stream[split:]), "split at %d", split)
		}
		f, total := c.fresh(), 0
		for i := range c.stream {
			total += f.count(c.stream[i : i+1])
		}
		require.Equal(t, 3, total)
		require.Equal(t, 2, c.fresh().count(c.stream[:len(c.stream)-len(bookmark)-2]), "the third is incomplete")
	}
}

func TestKindOfPath(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/pods":                                  "pods",
		"/api/v1/namespaces":                            "namespaces",
		"/api/v1/namespaces/kube-system":                "cluster check",
		"/apis/networking.k8s.io/v1/networkpolicies":    "networkpolicies.networking.k8s.io",
		"/apis/projectcalico.org/v3/networkpolicies":    "networkpolicies.projectcalico.org",
		"/apis/projectcalico.org/v3":                    "discovery",
		"/apis":                                         "discovery",
		"/api/v1":                                       "discovery",
		"/apis/discovery.k8s.io/v1/endpointslices/more": "endpointslices.discovery.k8s.io",
	} {
		require.Equal(t, want, kindOf(path), path)
	}
}

func TestBoardRecordsTheFirstArrival(t *testing.T) {
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	member := func(a netip.Addr) []dataplane.Member {
		return []dataplane.Member{{Prefix: netip.PrefixFrom(a, a.BitLen())}}
	}
	batch := func(e dataplane.Event) dataplane.Batch { return dataplane.Batch{Events: []dataplane.Event{e}} }
	b := newTracker(2)
	b.record(0, batch(&dataplane.IPSetUpdate{Members: member(one)}), time.Unix(0, 1)) // before expect
	b.expect([]mark{added(one), removed(two)})
	b.record(0, batch(&dataplane.IPSetUpdate{Members: member(one)}), time.Unix(0, 2))
	b.record(0, batch(&dataplane.IPSetDelta{Removed: member(two)}), time.Unix(0, 3))
	b.record(0, batch(&dataplane.IPSetDelta{Removed: member(two)}), time.Unix(0, 4))
	b.record(1, batch(&dataplane.IPSetDelta{Added: member(one)}), time.Unix(0, 5))
	b.record(1, batch(&dataplane.IPSetDelta{Added: member(two)}), time.Unix(0, 6)) // another mark
	a := b.arrivals()
	require.Equal(t, span{First: 2, Last: 5, Count: 2}, a.Marks[added(one)])
	require.Equal(t, span{First: 3, Last: 3, Count: 1}, a.Marks[removed(two)])
	require.Equal(t, 1, b.missing)
	b.record(1, batch(&dataplane.IPSetDelta{Removed: member(two)}), time.Unix(0, 7))
	require.NoError(t, b.wait(t.Context()))
	require.Equal(t, []int64{3, 7}, b.arrivals().Nodes)
	b.expect([]mark{added(two)})
	require.Equal(t, []int64{0, 0}, b.arrivals().Nodes)
}

func TestSpansJoin(t *testing.T) {
	s := span{First: 2, Last: 3, Count: 2}
	require.Equal(t, s, s.join(span{}))
	require.Equal(t, s, span{}.join(s))
	require.Equal(t, span{First: 1, Last: 3, Count: 3}, s.join(span{First: 1, Last: 1, Count: 1}))
}
