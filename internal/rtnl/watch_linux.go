// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// LinkMonitor listens to what happens to interfaces. It is not safe for concurrent use.
type LinkMonitor struct{ conn *Conn }

// MonitorLinks begins to listen.
func MonitorLinks(cfg Config) (*LinkMonitor, error) {
	conn, err := Dial(cfg)
	if err != nil {
		return nil, err
	}
	if err := conn.nl.JoinGroup(unix.RTNLGRP_LINK); err != nil {
		return nil, errors.Join(fmt.Errorf("rtnl: listen to links: %w", err), conn.Close())
	}
	return &LinkMonitor{conn: conn}, nil
}

// Close ends it.
func (m *LinkMonitor) Close() error { return m.conn.Close() }

// Events returns all that happened since the last call, in order; if that is nothing it waits, or not. The kernel
// announces a change before the call that makes it returns. missed means that there was more, of which nothing is known.
func (m *LinkMonitor) Events(wait bool) (events []LinkEvent, missed bool, err error) {
	for {
		n, err := m.conn.receive(wait && len(events) == 0 && !missed)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return events, missed, nil
		case errors.Is(err, unix.ENOBUFS): // the kernel had to drop messages
			missed = true
		case err != nil:
			return nil, false, err
		default:
			var complete bool
			events, complete = appendEvents(events, m.conn.buf[:n])
			missed = missed || !complete
		}
	}
}

// appendEvents reads the messages of one datagram. complete means that it could read all of them.
func appendEvents(events []LinkEvent, b []byte) (all []LinkEvent, complete bool) {
	complete = true
	for len(b) > 0 {
		var m message
		var err error
		if m, b, err = cutMessage(b); err != nil {
			return events, false
		}
		if link, err := parseLink(m.data); err != nil {
			complete = false
		} else {
			events = append(events, LinkEvent{Link: link, Gone: m.typ == unix.RTM_DELLINK})
		}
	}
	return events, complete
}

// WatchLinks calls changed whenever an interface came, went, was renamed or set up or down, and whenever
// changes may have been missed; once for all changes since the last call. It calls it once at the start: what happens from
// then on is seen. It returns the context's error when that is done, or why it cannot go on.
func WatchLinks(ctx context.Context, cfg Config, changed func()) error {
	m, err := MonitorLinks(cfg)
	if err != nil {
		return err
	}
	defer m.Close()
	stop := context.AfterFunc(ctx, func() {
		// Ends the wait for events. It cannot fail on an open connection, and a closed one does not wait.
		_ = m.conn.nl.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()

	known := map[int]Link{}
	changed()
	for {
		events, missed, err := m.Events(true)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		if missed {
			clear(known)
		}
		if news := learn(known, events); news || missed {
			changed()
		}
	}
}

// learn takes events into known and reports whether anything is new.
func learn(known map[int]Link, events []LinkEvent) (news bool) {
	for _, e := range events {
		switch {
		case e.Gone:
			delete(known, e.Index)
			news = true
		case known[e.Index] != e.Link:
			known[e.Index] = e.Link
			news = true
		}
	}
	return news
}
