// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"sync"

	"github.com/wayleave/wayleave/dataplane/nft/nflog"
)

// taps lets several listeners receive the entries of one nflog group, which the kernel sends to one socket only. A
// group is followed while it has listeners. It is safe for concurrent use.
type taps struct {
	// follow is nflog.Follow for a group; it calls started once the kernel has accepted it as the
	// follower.
	follow followFunc

	followers sync.WaitGroup
	mu        sync.Mutex
	closed    bool
	open      map[uint16]*tap
}

// followFunc follows a group until ctx is done, or it or do fails.
type followFunc func(ctx context.Context, group uint16, started func(), do func(nflog.Entry) error) error

// tap is a group that is followed. It belongs to the lock of its taps, but for done.
type tap struct {
	listeners map[*listener]struct{}
	stop      context.CancelFunc
	started   chan struct{} // closed when it is followed
	done      chan struct{} // closed when it is followed no more
	err       error         // why, once done is closed
}

// listener receives entries until its tap ends. A slow one misses entries, and receives their number.
type listener struct {
	*tap
	entries chan nflog.Entry
	missed  int
}

var errEnding = errors.New("the agent is ending")

func newTaps(follow followFunc) *taps {
	return &taps{follow: follow, open: map[uint16]*tap{}}
}

// join listens to a group until leave.
func (t *taps) join(group uint16) (*listener, error) {
	for {
		l, ending, err := t.listen(group)
		if err != nil || l != nil {
			return l, err
		}
		<-ending.done // the kernel releases the group soon
	}
}

// listen returns a listener, or a tap of the group that is ending.
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

// run follows a group until its tap is stopped or that fails.
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

// leave ends listening.
func (t *taps) leave(l *listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(l.listeners, l)
	if len(l.listeners) == 0 {
		l.stop()
	}
}

// close ends all following, and waits for it.
func (t *taps) close() {
	t.mu.Lock()
	t.closed = true
	for _, p := range t.open {
		p.stop()
	}
	t.mu.Unlock()
	t.followers.Wait()
}
