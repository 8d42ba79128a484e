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

// Mirror is a dataplane in memory that insists on everything that Batch promises and
// refuses whatever breaks a promise. The zero value is not usable; see NewMirror.
//
// A Mirror is safe for concurrent use.
type Mirror struct {
	mu     sync.Mutex
	state  State
	refs   refs
	last   dataplane.Batch
	broken error
}

// NewMirror returns a mirror that has seen nothing.
func NewMirror() *Mirror { return &Mirror{state: NewState(), refs: refs{}} }

// PlayError is the event that broke a promise of Batch.
type PlayError struct {
	// Index of the event in the batch, from 0.
	Index int
	// Event at fault. It may be nil.
	Event dataplane.Event
	// Msg is what is wrong with it.
	Msg string
}

// Error returns the event, its place and what is wrong with it.
func (e *PlayError) Error() string {
	if e.Event == nil {
		return fmt.Sprintf("dptest: event %d: %s", e.Index, e.Msg)
	}
	return fmt.Sprintf("dptest: event %d (%s): %s", e.Index, e.Event, e.Msg)
}

// Play takes the batch into the state, event by event. It refuses events
//
//   - that are out of the order of Batch, or the second one of an object;
//   - that refer to what does not exist, or to a set of the wrong type;
//   - that remove what does not exist, or what something refers to at that point;
//   - that add members that are present or remove members that are absent;
//   - with values that are not canonical: unsorted or repeated members, host bits, names of ports;
//   - that come too early: an endpoint before the batch that carries InSync; or a second InSync;
//   - after which, at the end of the batch, a route leads through a tunnel that is gone, or tunnels of
//     two nodes have one address.
//
// Errors: *PlayError. A mirror that has refused an event is of no use any more: it returns the same
// error for ever.
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
		kinds: kinds(), steps: steps(), seen: map[object]bool{},
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

// Apply is Play with one exception: if b has the same events as the last batch that was not empty, Apply treats b as a
// retry, and ignores it. Every Dataplane must do this.
func (m *Mirror) Apply(_ context.Context, b dataplane.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !b.Empty() && slices.Equal(b.Events, m.last.Events) {
		return m.broken
	}
	return m.playLocked(b)
}

// Resync does nothing: no other process can change a mirror. It returns nil.
func (m *Mirror) Resync(context.Context) error { return nil }

// Teardown forgets everything. It returns nil.
func (m *Mirror) Teardown(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.refs, m.last, m.broken = NewState(), refs{}, dataplane.Batch{}, nil
	return nil
}

// State returns a copy of what the mirror holds.
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

// Unused returns the IDs of sets that no rule refers to and the names of profiles that no endpoint
// refers to, sorted. A graph leaves none behind.
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
