// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"time"

	"github.com/wayleave/wayleave/internal/dispute"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// SetClock gives the Keeper another clock.
func (k *Keeper) SetClock(now func() time.Time) { k.view.now = now }

// Faulty makes changes be sent by do.
func (k *Keeper) Faulty(do func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error) {
	k.view.sockets.newSender = func(c *rtnl.Conn) sender { return faulty{c, do} }
}

// Faulty makes changes be sent by do.
func (d *Dataplane) Faulty(do func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error) {
	d.keeper.Faulty(do)
}

// Retries reports whether Watch retries without a notification after the last pass.
func (k *Keeper) Retries() bool {
	_, _, failing, err := k.repair(context.Background())
	return failing || err != nil
}

type faulty struct {
	conn *rtnl.Conn
	do   func(conn *rtnl.Conn, b *rtnl.Batch, failed func(i int, err error)) error
}

func (f faulty) Do(b *rtnl.Batch, failed func(i int, err error)) error {
	return f.do(f.conn, b, failed)
}

// ResetDisputes deletes the record of the objects that other processes changed.
func (k *Keeper) ResetDisputes() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.repairs.disputes = dispute.Tracker[any]{}
}

// ResetDisputes deletes the record of the objects that other processes changed.
func (d *Dataplane) ResetDisputes() { d.keeper.ResetDisputes() }

// BreakChanges closes the connection for dumps and changes.
func (k *Keeper) BreakChanges() { _ = k.view.sockets.conn.Close() }

// BreakEvents closes the connection for notifications.
func (k *Keeper) BreakEvents() { _ = k.view.sockets.monitor.Close() }
