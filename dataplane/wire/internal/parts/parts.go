// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

const (
	// partSize is the size in bytes from which a message is full. Only the last message of a batch
	// may be smaller.
	partSize = 256 << 10
	// partMembers is the maximum number of members in one event. A member has at most 19 bytes.
	partMembers = 10_000
)

// Size returns the number of events and set members in a batch.
func Size(b dataplane.Batch) int {
	size := len(b.Events)
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.IPSetUpdate:
			size += len(e.Members)
		case *dataplane.IPSetDelta:
			size += len(e.Added) + len(e.Removed)
		}
	}
	return size
}

// Part is the content of one message.
type Part struct {
	// Events of the message. The list is valid only until the function that receives the Part
	// returns.
	Events []*wirepb.Event
	// First is set in the first part, More in all parts but the last.
	First, More bool
}

// Write encodes the events of a batch, divides them into parts, and passes each part to the
// function write. An empty batch has one part. Errors: those of codec.Encode and of the function
// write.
func Write(b dataplane.Batch, write func(Part) error) error {
	part := Part{First: true}
	size := 0
	for _, e := range b.Events {
		for _, e := range split(e) {
			if size >= partSize {
				part.More = true
				if err := write(part); err != nil {
					return err
				}
				part, size = Part{Events: part.Events[:0]}, 0
			}
			encoded, err := codec.Encode(e)
			if err != nil {
				return err
			}
			part.Events = append(part.Events, encoded)
			size += proto.Size(encoded)
		}
	}
	return write(part)
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

// Assembler reassembles the events of a batch. The zero value is ready for use.
type Assembler struct {
	events []dataplane.Event
	// sets has the index of each set's event in events.
	sets map[dataplane.IPSetID]int
}

// Add adds the events of a message. Errors: those of codec.Decode.
func (a *Assembler) Add(events []*wirepb.Event) error {
	for _, encoded := range events {
		e, err := codec.Decode(encoded)
		if err != nil {
			return err
		}
		a.add(e)
	}
	return nil
}

// Batch returns the batch, and empties the Assembler.
func (a *Assembler) Batch() dataplane.Batch {
	b := dataplane.Batch{Events: a.events}
	*a = Assembler{}
	return b
}

// add adds an event. It merges the events of a set into one.
func (a *Assembler) add(e dataplane.Event) {
	var id dataplane.IPSetID
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		id = e.ID
	case *dataplane.IPSetDelta:
		id = e.ID
		if i, ok := a.sets[id]; ok {
			switch first := a.events[i].(type) {
			case *dataplane.IPSetUpdate:
				first.Members = append(first.Members, e.Added...)
			case *dataplane.IPSetDelta:
				first.Added = append(first.Added, e.Added...)
				first.Removed = append(first.Removed, e.Removed...)
			}
			return
		}
	default:
		a.events = append(a.events, e)
		return
	}
	if a.sets == nil {
		a.sets = map[dataplane.IPSetID]int{}
	}
	a.sets[id] = len(a.events)
	a.events = append(a.events, e)
}
