// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
)

// tableReader reads the kernel's table back, in one generation of the ruleset.
type tableReader struct {
	desired *desiredState
	conn    *nfnl.Conn
	tracker *tracker
	reader  *readback.Reader
	writer  *writer
	owner   *owner
	stats   *Stats
}

// readBack compares the kernel's table with the desired one, in one generation of the ruleset.
func (r *tableReader) readBack() (*readback.Difference, error) {
	if err := r.owner.takeOver(); err != nil {
		return nil, err
	}
	// The kernel gives a transaction its generation before the transaction is complete, and sends
	// the notification afterwards. So the reading below may lack a transaction whose notification
	// arrives from here on.
	if _, _, err := r.tracker.drain(); err != nil {
		return nil, err
	}
	generation, err := r.conn.Generation()
	if err != nil {
		return nil, err
	}
	r.tracker.setKnown(generation)
	r.stats.Readings++
	d, handles, err := r.reader.Compare(r.desired.State)
	if err != nil {
		return nil, err
	}
	if _, changed, err := r.tracker.drain(); err != nil || changed {
		return nil, errors.Join(errChanged, err)
	}
	if r.owner.owns && !r.stats.Owned && d.RebuildReason == "" {
		d.RebuildReason = unowned
	}
	r.writer.handles.reset(handles)
	return d, nil
}
