// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// WatchLinks calls changed whenever an interface came, went, was renamed or set up or down, and whenever
// changes may have been missed; once for changes that are seen together. It calls it once at the start: what happens from
// then on is seen. It returns the context's error when that is done, or why it cannot go on.
func WatchLinks(ctx context.Context, cfg Config, changed func()) error {
	c, err := Dial(cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.nl.JoinGroup(unix.RTNLGRP_LINK); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		// Ends the wait in receive. It cannot fail on an open connection, and a closed one does not wait.
		_ = c.nl.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()

	known := map[int]Link{}
	changed()
	for {
		n, err := c.receive()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENOBUFS): // the kernel had to drop messages
			clear(known)
			changed()
		case err != nil:
			return err
		case update(known, c.buf[:n]):
			changed()
		}
	}
}

// update takes messages into known and reports whether anything is new. What cannot be read counts as new.
func update(known map[int]Link, b []byte) (changed bool) {
	for len(b) > 0 {
		var m message
		var err error
		if m, b, err = cutMessage(b); err != nil {
			return true
		}
		link, err := parseLink(m.data)
		switch {
		case err != nil:
			changed = true
		case m.typ == unix.RTM_DELLINK:
			delete(known, link.Index)
			changed = true
		case known[link.Index] != link:
			known[link.Index] = link
			changed = true
		}
	}
	return changed
}
