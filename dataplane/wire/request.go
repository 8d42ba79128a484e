// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/internal/frame"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"google.golang.org/protobuf/proto"
)

// request writes the messages of a request with a number.
type request func(conn *frame.Conn, number uint64) error

const (
	// partSize is how many bytes the events of one message have at least, if more follow.
	partSize = 256 << 10
	// partMembers is the maximum number of members in one event: 19 bytes each.
	partMembers = 10_000
)

// batchRequest returns the request to apply a batch.
func batchRequest(generation uint64, snapshot bool, b dataplane.Batch) request {
	return func(conn *frame.Conn, number uint64) error {
		return writeParts(b, func(events []*wirepb.Event, first, more bool) error {
			return conn.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Batch{Batch: &wirepb.Batch{
				Request: number, Generation: generation, Snapshot: snapshot && first, More: more, Events: events,
			}}})
		})
	}
}

func planRequest(b dataplane.Batch) request {
	return func(conn *frame.Conn, number uint64) error {
		return writeParts(b, func(events []*wirepb.Event, _, more bool) error {
			return conn.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Plan{
				Plan: &wirepb.Plan{Request: number, More: more, Events: events},
			}})
		})
	}
}

func resyncRequest() request {
	return func(conn *frame.Conn, number uint64) error {
		return conn.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Resync{
			Resync: &wirepb.Resync{Request: number},
		}})
	}
}

func teardownRequest() request {
	return func(conn *frame.Conn, number uint64) error {
		return conn.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Teardown{
			Teardown: &wirepb.Teardown{Request: number},
		}})
	}
}

// writeParts encodes the events of a batch, and writes them in parts.
func writeParts(b dataplane.Batch, write func(events []*wirepb.Event, first, more bool) error) error {
	var part []*wirepb.Event
	size, first := 0, true
	for _, e := range b.Events {
		for _, e := range split(e) {
			if size >= partSize {
				if err := write(part, first, true); err != nil {
					return err
				}
				part, size, first = part[:0], 0, false
			}
			encoded, err := codec.Encode(e)
			if err != nil {
				return err
			}
			part = append(part, encoded)
			size += proto.Size(encoded)
		}
	}
	return write(part, first, false)
}

// split divides an event of a set with many members.
func split(e dataplane.Event) []dataplane.Event {
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		if len(e.Members) > partMembers {
			first := &dataplane.IPSetUpdate{ID: e.ID, Type: e.Type, Members: e.Members[:partMembers]}
			return append([]dataplane.Event{first}, deltas(e.ID, e.Members[partMembers:], nil)...)
		}
	case *dataplane.IPSetDelta:
		if len(e.Added)+len(e.Removed) > partMembers {
			return deltas(e.ID, e.Added, e.Removed)
		}
	}
	return []dataplane.Event{e}
}

// deltas returns the changes of a set as several events.
func deltas(id dataplane.IPSetID, added, removed []dataplane.Member) (out []dataplane.Event) {
	for len(added)+len(removed) > 0 {
		a := added[:min(len(added), partMembers)]
		r := removed[:min(len(removed), partMembers-len(a))]
		out = append(out, &dataplane.IPSetDelta{ID: id, Added: a, Removed: r})
		added, removed = added[len(a):], removed[len(r):]
	}
	return out
}
