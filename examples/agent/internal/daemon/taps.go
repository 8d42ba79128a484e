// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"sync"

	"github.com/wayleave/wayleave/dataplane/nft/nflog"
)

// taps lets several listeners receive the entries of one nflog group. The kernel sends these
// entries to one socket only. taps opens that socket while the group has listeners. It is safe for
// concurrent use.
type taps struct {
	// follow is nflog.Follow for a group. It calls started once the kernel sends the entries of the
	// group.
	follow followFunc

	followers sync.WaitGroup
	mu        sync.Mutex
	closed    bool
	open      map[uint16]*tap
}

// followFunc receives the entries of a group and calls do for each, until ctx is done or an error
// occurs.
type followFunc func(ctx context.Context, group uint16, started func(), do func(nflog.Entry) error) error

// tap is a group with listeners. taps.mu guards its fields, except done.
type tap struct {
	listeners map[*listener]struct{}
	stop      context.CancelFunc
	started   chan struct{} // closed once the kernel sends entries
	done      chan struct{} // closed when no more entries are received
	err       error         // why, once done is closed
}

// listener receives entries until its tap ends. A listener that is too slow misses entries, and
// receives the number of missed entries.
type listener struct {
	*tap
	entries chan nflog.Entry
	missed  int
}

var errEnding = errors.New("the agent is ending")

func newTaps(follow followFunc) *taps {
	return &taps{follow: follow, open: map[uint16]*tap{}}
}

// join returns a listener to a group. Pass the listener to leave when you no longer need it.
func (t *taps) join(group uint16) (*listener, error) {
	for {
		l, ending, err := t.listen(group)
		if err != nil || l != nil {
			return l, err
		}
		<-ending.done // the kernel releases the group soon
	}
}

// listen returns a listener. If the group's tap is ending, it returns that tap instead.
func (t *taps) listen(group uint16) (*listener, *tap, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, errEnding
	}
	p := t.open[group]
	if p != nil && len(p.listeners) == 0 {
		return nil, p, nil
	}
	if p == nil {
		ctx, stop := context.WithCancel(context.Background())
		p = &tap{
			listeners: map[*listener]struct{}{}, stop: stop, started: make(chan struct{}), done: make(chan struct{}),
		}
		t.open[group] = p
		t.followers.Go(func() { t.run(ctx, group, p) })
	}
	l := &listener{tap: p, entries: make(chan nflog.Entry, backlog)}
	p.listeners[l] = struct{}{}
	return l, nil, nil
}

// run receives the entries of a group until the tap is stopped or an error occurs.
func (t *taps) run(ctx context.Context, group uint16, p *tap) {
	err := t.follow(ctx, group, func() { close(p.started) }, func(e nflog.Entry) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		for l := range p.listeners {
			l.add(e)
		}
		return nil
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, group)
	p.err = err
	close(p.done)
}

// add passes an entry to the listener. It never waits.
func (l *listener) add(e nflog.Entry) {
	missed := e.Missed
	e.Missed += l.missed
	select {
	case l.entries <- e:
		l.missed = 0
	default:
		l.missed += missed + 1
	}
}

// leave removes a listener. It stops the tap if that has no other listener.
func (t *taps) leave(l *listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(l.listeners, l)
	if len(l.listeners) == 0 {
		l.stop()
	}
}

// close stops all taps, and waits until they have ended.
func (t *taps) close() {
	t.mu.Lock()
	t.closed = true
	for _, p := range t.open {
		p.stop()
	}
	t.mu.Unlock()
	t.followers.Wait()
}
