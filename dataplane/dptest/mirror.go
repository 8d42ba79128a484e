// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/dataplane"
)

var _ dataplane.Dataplane = (*Mirror)(nil)

// Mirror is a dataplane in memory. It refuses every batch that breaks a rule in the documentation
// of dataplane.Batch. Make one with NewMirror: the zero value is not usable.
//
// A Mirror is safe for concurrent use.
type Mirror struct {
	mu     sync.Mutex
	state  State
	refs   refs
	last   dataplane.Batch
	broken error
}

// NewMirror returns a mirror with an empty state.
func NewMirror() *Mirror { return &Mirror{state: NewState(), refs: refs{}} }

// PlayError names an event that a Mirror refused, and the reason.
type PlayError struct {
	// Index of the event in the batch, from 0.
	Index int
	// Event at fault. It may be nil.
	Event dataplane.Event
	// Msg is the reason.
	Msg string
}

// Error returns the index, the event and the reason.
func (e *PlayError) Error() string {
	if e.Event == nil {
		return fmt.Sprintf("dptest: event %d: %s", e.Index, e.Msg)
	}
	return fmt.Sprintf("dptest: event %d (%s): %s", e.Index, e.Event, e.Msg)
}

// Play applies the batch to the state, event by event. It refuses these events:
//
//   - an event in the wrong order (see dataplane.Batch), or a second event of an object
//   - a reference to a missing object, or to a set of the wrong type
//   - the removal of a missing object, or of an object to which another object still refers
//   - an IPSetDelta that adds a present member, or removes an absent member
//   - a value that is not canonical: unsorted or repeated members, a prefix with host bits, a named
//     port
//   - an endpoint before the batch with InSync, or a second InSync
//   - at the end of the batch: a route through a removed tunnel, or two nodes whose tunnels have
//     the same address
//
// Errors: *PlayError. From then on, each Play returns the same error.
func (m *Mirror) Play(b dataplane.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.playLocked(b)
}

func (m *Mirror) playLocked(b dataplane.Batch) error {
	if m.broken != nil {
		return m.broken
	}
	p := player{
		state: &m.state, refs: m.refs, complete: m.state.InSync || b.CarriesInSync(),
		kinds: kinds(), seen: map[object]bool{},
	}
	for i, e := range b.Events {
		msg := p.order(e)
		if msg == "" {
			msg = p.play(e)
		}
		if msg != "" {
			m.broken = &PlayError{Index: i, Event: e, Msg: msg}
			return m.broken
		}
	}
	if msg := p.finish(); msg != "" {
		m.broken = &PlayError{Index: len(b.Events) - 1, Msg: msg}
		return m.broken
	}
	if !b.Empty() {
		m.last = b
	}
	return nil
}

// Apply does the same as Play, with one exception. If b has the same events as the last batch that
// was not empty, Apply treats b as a retry, and ignores b. Every Dataplane must ignore retries.
func (m *Mirror) Apply(_ context.Context, b dataplane.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !b.Empty() && slices.Equal(b.Events, m.last.Events) {
		return m.broken
	}
	return m.playLocked(b)
}

// Resync does nothing, because no other process can change a Mirror. It returns nil.
func (m *Mirror) Resync(context.Context) error { return nil }

// Teardown removes all objects. It returns nil.
func (m *Mirror) Teardown(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.refs, m.last, m.broken = NewState(), refs{}, dataplane.Batch{}, nil
	return nil
}

// State returns a copy of the mirror's state.
func (m *Mirror) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Clone()
}

// Judge evaluates a packet; see State.Judge.
func (m *Mirror) Judge(p Packet) Verdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Judge(p)
}

// Unused returns, sorted, the IDs of sets to which no rule refers, and the names of profiles to
// which no endpoint refers. A calcgraph.Graph removes such objects, so after its batches there are
// none.
func (m *Mirror) Unused() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var unused []string
	for id := range m.state.Sets {
		if m.refs[object{"IPSet", id}] == 0 {
			unused = append(unused, "ipset "+string(id))
		}
	}
	for name := range m.state.Profiles {
		if m.refs[object{"Profile", name}] == 0 {
			unused = append(unused, "profile "+name)
		}
	}
	slices.Sort(unused)
	return unused
}
