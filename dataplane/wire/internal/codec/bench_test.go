// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/internal/workload"
)

// snapshot returns the events of W1. These are 10,000 policies of five rules, sets with all 250,000
// endpoints, and 200 local endpoints with the keys of their policies.
func snapshot(b *testing.B) []dataplane.Event {
	b.Helper()
	graph, err := calcgraph.New(calcgraph.Config{Node: workload.Node})
	require.NoError(b, err)
	for u := range (workload.W1{Remote: 250_000, Policies: 10_000}).Updates() {
		graph.Update(u)
	}
	graph.InSync()
	return graph.Flush().Events
}

// encode returns the messages of events.
func encode(b *testing.B, events []dataplane.Event) []*wirepb.Event {
	messages := make([]*wirepb.Event, len(events))
	for i, e := range events {
		var err error
		if messages[i], err = codec.Encode(e); err != nil {
			b.Fatal(err)
		}
	}
	return messages
}

// BenchmarkEncode encodes a snapshot. The floor is the cost of marshaling the messages with
// protobuf.
func BenchmarkEncode(b *testing.B) {
	events := snapshot(b)
	batch := &wirepb.Batch{Events: encode(b, events)}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			encode(b, events)
		}
		reportSize(b, events, proto.Size(batch))
	})
	b.Run("floor=marshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := proto.Marshal(batch); err != nil {
				b.Fatal(err)
			}
		}
		reportSize(b, events, proto.Size(batch))
	})
}

// BenchmarkDecode decodes a snapshot. The floor is the cost of unmarshaling the messages with
// protobuf.
func BenchmarkDecode(b *testing.B) {
	events := snapshot(b)
	data, err := proto.Marshal(&wirepb.Batch{Events: encode(b, events)})
	require.NoError(b, err)
	batch := &wirepb.Batch{}
	require.NoError(b, proto.Unmarshal(data, batch))
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decoded := make([]dataplane.Event, len(events))
			for i, m := range batch.GetEvents() {
				if decoded[i], err = codec.Decode(m); err != nil {
					b.Fatal(err)
				}
			}
		}
		reportSize(b, events, len(data))
	})
	b.Run("floor=unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := proto.Unmarshal(data, &wirepb.Batch{}); err != nil {
				b.Fatal(err)
			}
		}
		reportSize(b, events, len(data))
	})
}

// reportSize reports the size of the snapshot: events, members, policy keys of endpoints, bytes of
// messages.
func reportSize(b *testing.B, events []dataplane.Event, bytes int) {
	members, keys := 0, 0
	for _, e := range events {
		switch e := e.(type) {
		case *dataplane.IPSetUpdate:
			members += len(e.Members)
		case *dataplane.EndpointUpdate:
			for _, t := range slices.Concat(e.Endpoint.Ingress, e.Endpoint.Egress) {
				keys += len(t.Policies)
			}
		}
	}
	b.ReportMetric(float64(len(events)), "events")
	b.ReportMetric(float64(members), "members")
	b.ReportMetric(float64(keys), "keys")
	b.ReportMetric(float64(bytes), "wire-bytes")
}
